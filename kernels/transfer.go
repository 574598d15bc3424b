package kernels

import (
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// Transfers of what is kept in pinned host memory (Binding.Pinned), of any type. Nothing else touches that memory, and Binding.Moves lets
// them run beside all other calls. They have no gradient: they are put in after gradients are made.
//
//	fetch   x [...] → y [...], the same bytes
//	stow    x [...], y [...] → y, the bytes of x
var (
	Fetch = Register(&Op{
		Name: "fetch", Infer: inferFetch, Cost: moves, Cases: transferCase(1),
		Ref: func(_ any, in, out []Tensor) { copy(out[0].Data, in[0].Data) },
	})
	Stow = Register(&Op{
		Name: "stow", Infer: inferStow, Cost: moves, Cases: transferCase(2), Updates: []int8{1},
		Ref: func(_ any, in, out []Tensor) { copy(out[0].Data, in[0].Data) },
	})
)

// Transfers reports whether op is a transfer.
func Transfers(op *Op) bool { return op == Fetch || op == Stow }

func inferFetch(attrs any, in []Spec) ([]Spec, error) {
	if err := noAttrs("fetch", attrs); err != nil {
		return nil, err
	}
	if err := count("fetch", in, 1); err != nil {
		return nil, err
	}
	return []Spec{in[0]}, nil
}

func inferStow(attrs any, in []Spec) ([]Spec, error) {
	if err := noAttrs("stow", attrs); err != nil {
		return nil, err
	}
	if err := count("stow", in, 2); err != nil {
		return nil, err
	}
	if !in[0].Equal(in[1]) {
		return nil, shapeError("stow", "a place for %v does not take %v", in[1], in[0])
	}
	return []Spec{in[1]}, nil
}

// transferCase returns cases of so many operands of one spec.
func transferCase(operands int) caseFunc {
	return func(r *rand.Rand, float arena.DType) Case {
		s := Spec{[]arena.DType{float, arena.Uint8, arena.Int32, arena.Bfloat16}[r.IntN(4)], randomShape(r, randomRank(r))}
		c := Case{Fill: func(r *rand.Rand, _ int, data []float64) {
			for i := range data {
				data[i] = float64(r.IntN(200))
			}
		}}
		for range operands {
			c.In = append(c.In, s)
		}
		return c
	}
}
