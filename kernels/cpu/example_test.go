package cpu_test

import (
	"fmt"
	"log"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// One kernel on the CPU: y = 2x + 1. Device memory is host memory, so the host reads and writes the operands directly.
func Example() {
	dev, err := cpu.Open(cpu.Options{Threads: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	vector := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{3}}
	mem, err := dev.Alloc(2 * arena.Align)
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Free()
	call := kernels.Call{
		Op: kernels.Affine, Attrs: kernels.AffineAttrs{Scale: 2, Shift: 1}, Label: "example",
		In:  []kernels.Operand{{Spec: vector, Ref: arena.Ref{Offset: 0, Size: vector.Bytes()}}},
		Out: []kernels.Operand{{Spec: vector, Ref: arena.Ref{Offset: arena.Align, Size: vector.Bytes()}}},
	}
	prog, err := dev.Bind([]kernels.Call{call}, kernels.Binding{Memory: mem, Base: []int64{0}})
	if err != nil {
		log.Fatal(err)
	}
	defer prog.Close()
	stream, err := dev.NewStream("compute")
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()

	kernels.Store(mem.Bytes(), arena.Float32, []float64{1, 2, 3})
	if err := prog.Launch(stream); err != nil {
		log.Fatal(err)
	}
	if err := stream.Sync(); err != nil {
		log.Fatal(err)
	}
	y := make([]float64, 3)
	kernels.Load(y, arena.Float32, mem.Bytes()[arena.Align:])
	fmt.Println(y)
	// Output: [3 5 7]
}
