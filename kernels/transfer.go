package kernels

import (
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// Transfers: copies from and to pinned host memory (Binding.Pinned), of any type. No other call
// uses that memory, and Binding.StreamSchedule lets transfers overlap other calls. They have no
// gradient: the compiler adds them after the gradients.
//
//	prefetch   x [...] → y [...], the same bytes
//	writeback  x [...], y [...] → y, the bytes of x
var (
	Prefetch = Register(&Op{
		Name: "prefetch", Infer: inferPrefetch, Moves: everyInput, Cost: noFlops, Cases: transferCase(1),
		Ref: func(_ any, in, out []Tensor) { copy(out[0].Data, in[0].Data) },
	})
	Writeback = Register(&Op{
		Name: "writeback", Infer: inferWriteback, Moves: everyInput, Cost: noFlops, Cases: transferCase(2), Updates: []int8{1},
		Ref: func(_ any, in, out []Tensor) { copy(out[0].Data, in[0].Data) },
	})
)

func inferPrefetch(attrs any, in []Spec) ([]Spec, error) {
	if err := noAttrs("prefetch", attrs); err != nil {
		return nil, err
	}
	if err := count("prefetch", in, 1); err != nil {
		return nil, err
	}
	return []Spec{in[0]}, nil
}

func inferWriteback(attrs any, in []Spec) ([]Spec, error) {
	if err := noAttrs("writeback", attrs); err != nil {
		return nil, err
	}
	if err := count("writeback", in, 2); err != nil {
		return nil, err
	}
	if !in[0].Equal(in[1]) {
		return nil, shapeError("writeback", "%v does not fit a place for %v", in[0], in[1])
	}
	return []Spec{in[1]}, nil
}

// transferCase returns cases of the given number of operands, all of one spec.
func transferCase(operands int) caseFunc {
	return func(r *rand.Rand, float arena.DType) Case {
		s := Spec{[]arena.DType{float, arena.Uint8, arena.Int32, arena.BFloat16}[r.IntN(4)], randomShape(r, randomRank(r))}
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
