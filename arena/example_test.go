package arena_test

import (
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
)

// An arena without a trainer: weights that stay, and scratch that is taken anew in every step.
func Example() {
	var l arena.Layout
	weights := l.Region("weights")
	scratch := l.Region("scratch")
	w := l.Place(weights, "hidden", "weight", 4*100)
	l.Reserve(scratch, 1024)

	a, err := arena.New(new(fakeDevice), &l, 0) // any device, such as that of cpu.Open
	if err != nil {
		fmt.Println(err)
		return
	}
	defer a.Close()

	hw, _ := a.Handle(w, "weight")
	_ = hw.Write(make([]byte, 400))
	var kept arena.Handle
	for range 3 {
		x, err := a.Take(scratch, "activations", 600)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("in use:", a.InUse())
		kept = x
		_ = a.Reset(scratch)
	}
	err = kept.Read(make([]byte, 600))
	fmt.Println(errors.Is(err, arena.ErrStale), err)
	_, err = a.Take(scratch, "too much", 2000)
	fmt.Println(err)
	// Output:
	// in use: 1280
	// in use: 1280
	// in use: 1280
	// true stale handle "activations": taken in step 3 of scratch, now in step 4: copy what you want to keep before the reset
	// "too much" in region "scratch": need 2000 bytes, have 1024: 976 missing
}
