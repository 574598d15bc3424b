package emu_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/emu"
)

// One operation on the emulated device: y = 2x + 1. The host reaches device memory by copies through pinned memory only.
func Example() {
	dev, err := emu.Open(emu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	vector := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{3}}
	mem, err := dev.Alloc(2 * arena.Align)
	if err != nil {
		log.Fatal(err)
	}
	host, err := dev.Pin(arena.Align)
	if err != nil {
		log.Fatal(err)
	}
	call := kernels.Call{
		Op: kernels.Affine, Attrs: kernels.AffineAttrs{Scale: 2, Shift: 1}, Label: "example",
		In:  []kernels.Operand{{Spec: vector, Ref: arena.Ref{Offset: 0, Size: vector.Bytes()}}},
		Out: []kernels.Operand{{Spec: vector, Ref: arena.Ref{Offset: arena.Align, Size: vector.Bytes()}}},
	}
	prog, err := dev.Bind([]kernels.Call{call}, kernels.Binding{Memory: mem, Base: []int64{0}})
	if err != nil {
		log.Fatal(err)
	}
	stream, err := dev.NewStream("compute")
	if err != nil {
		log.Fatal(err)
	}

	span := func(m arena.Memory, offset int64) arena.Span {
		return arena.Span{Memory: m, Offset: offset, Size: vector.Bytes()}
	}
	kernels.Store(host.Bytes(), arena.Float32, []float64{1, 2, 3})
	err = errors.Join(
		stream.Copy(span(mem, 0), span(host, 0)),
		prog.Launch(stream),
		stream.Copy(span(host, 0), span(mem, arena.Align)),
		stream.Sync(),
	)
	if err != nil {
		log.Fatal(err)
	}
	y := make([]float64, 3)
	kernels.Load(y, arena.Float32, host.Bytes())
	fmt.Println(y)
	fmt.Println(len(dev.Races()), "races,", dev.Traffic().Launches, "launch")
	// Output:
	// [3 5 7]
	// 0 races, 1 launch
}
