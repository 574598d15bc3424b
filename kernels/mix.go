package kernels

import (
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// Mix moves a tensor towards another, such as the average of a parameter towards the parameter.
//
//	x [...], y [...], guard int32 [4], weight float64 () → x
//
// x += weight·(y - x), with the weight rounded to the type of x. With a weight of 1, x becomes y, bit
// for bit. If guard[0] is not 0, or the weight is 0, nothing changes.
var Mix = Register(&Op{
	Name: "mix", Updates: []int8{0}, Block: 1, Infer: inferMix, Ref: refMix,
	Cost: func(_ any, in, _ []Spec) int64 { return 3 * int64(in[0].Shape.Elems()) },
	Cases: func(r *rand.Rand, float arena.DType) Case {
		s := Spec{float, randomShape(r, randomRank(r))}
		stopped, weight := r.IntN(4) == 0, []float64{0, 1, r.Float64(), r.Float64()}[r.IntN(4)]
		return Case{
			In: []Spec{s, s, GuardSpec, {arena.Float64, nil}},
			Fill: func(r *rand.Rand, k int, data []float64) {
				switch k {
				case 2:
					data[0] = oneIf(stopped)
				case 3:
					data[0] = weight
				default:
					normal(r, data)
				}
			},
		}
	},
})

func inferMix(attrs any, in []Spec) ([]Spec, error) {
	const name = "mix"
	if err := noAttrs(name, attrs); err != nil {
		return nil, err
	}
	if err := count(name, in, 4); err != nil {
		return nil, err
	}
	if !in[2].Equal(GuardSpec) || !in[3].Equal(Spec{arena.Float64, nil}) {
		return nil, shapeError(name, "guard and weight must be int32 (4) and float64 (), not %v", in[2:])
	}
	if err := floats(name, in[:2], 2); err != nil {
		return nil, err
	}
	return sameSpecs(name, in[:2], 2)
}

func refMix(_ any, in, out []Tensor) {
	x, y, weight := in[0].Data, in[1].Data, in[3].Data[0]
	copy(out[0].Data, x)
	switch {
	case in[2].Data[0] != 0 || weight == 0:
	case weight == 1:
		copy(out[0].Data, y)
	default:
		for i := range x {
			out[0].Data[i] = x[i] + weight*(y[i]-x[i])
		}
	}
}
