package group_test

import (
	"encoding/binary"
	"fmt"
	"log"
	"sync"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
)

// Three devices of one process sum a number, twice.
func Example() {
	ranks, err := group.Local(3, group.Options{})
	if err != nil {
		log.Fatal(err)
	}
	var all sync.WaitGroup
	for _, g := range ranks {
		all.Go(func() {
			defer g.Close()
			data := make([]byte, 4)
			samples, err := g.Prepare(group.Op{Kind: group.Sum, Type: arena.Int32, Data: data, Label: "samples"})
			if err != nil {
				log.Fatal(err)
			}
			defer samples.Close()
			for step := range 2 {
				binary.NativeEndian.PutUint32(data, uint32(10*step+g.Rank()))
				if err := group.Run(samples); err != nil {
					log.Fatal(err)
				}
				if g.Rank() == 0 {
					fmt.Println(binary.NativeEndian.Uint32(data))
				}
			}
		})
	}
	all.Wait()
	// Output:
	// 3
	// 33
}
