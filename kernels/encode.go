package kernels

import (
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// EncodeAttrs are the attributes of Encode.
type EncodeAttrs struct {
	To arena.DType // a 16-bit type
}

// Encode rounds numbers to 16 bits.
//
//	x [...] of float32 → y [...] of type To, rounded to the nearest, ties to even
//
// Decode is its inverse. It has no gradient: the compiler adds it after the gradients.
var Encode = Register(&Op{
	Name: "encode",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[EncodeAttrs]("encode", attrs)
		if err != nil {
			return nil, err
		}
		if err := count("encode", in, 1); err != nil {
			return nil, err
		}
		if !a.To.Half() {
			return nil, attrError("encode", "to %v, which is no 16-bit type", a.To)
		}
		if in[0].Type != arena.Float32 {
			return nil, shapeError("encode", "takes float32, not %v", in[0])
		}
		return []Spec{{a.To, in[0].Shape}}, nil
	},
	Ref: func(_ any, in, out []Tensor) { copy(out[0].Data, in[0].Data) },
	Cases: func(r *rand.Rand, _ arena.DType) Case {
		return Case{
			Attrs: EncodeAttrs{randomHalf(r)},
			In:    []Spec{{arena.Float32, randomShape(r, randomRank(r))}},
			Fill:  func(r *rand.Rand, _ int, data []float64) { wideRange(r, data) },
		}
	},
})
