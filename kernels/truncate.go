package kernels

import (
	"math"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// Truncate converts floats to integers.
//
//	x [...] float → y [...] int64
//
// y is x without its fraction. Values beyond int64 become its smallest or largest one, NaN becomes 0.
// The gradient is 0.
var Truncate = Register(&Op{
	Name: "truncate",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		if err := noAttrs("truncate", attrs); err != nil {
			return nil, err
		}
		if err := floats("truncate", in, 1); err != nil {
			return nil, err
		}
		return []Spec{{arena.Int64, in[0].Shape}}, nil
	},
	Ref: func(_ any, in, out []Tensor) {
		for i, x := range in[0].Data {
			out[0].Data[i] = float64(numeric.ToInt64(x))
		}
	},
	Cases: func(r *rand.Rand, float arena.DType) Case {
		return Case{In: []Spec{{float, randomShape(r, randomRank(r))}}, Fill: func(r *rand.Rand, _ int, data []float64) {
			for i := range data {
				data[i] = r.NormFloat64() * []float64{1, 10, 1e6}[r.IntN(3)]
				if r.IntN(8) == 0 {
					data[i] = []float64{math.NaN(), -0.5, 0x1p53, -0x1p62, -0x1p63}[r.IntN(5)]
				}
			}
		}}
	},
	Grad: noGrad,
})
