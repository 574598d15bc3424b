package kernels

import (
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// CheckIndexAttrs are the attributes of CheckIndex. Code identifies the indices, and is not 0.
type CheckIndexAttrs struct {
	Rows int // valid indices are 0 to Rows-1
	Code int32
}

// CheckIndex records the first index that is out of range.
//
//	index int [R], guard int32 [4] → guard
//
// If guard[0] is 0 and an index is not in 0..Rows-1: guard = Code, the position of the first such
// index, and its lower and upper 32 bits.
var CheckIndex = Register(&Op{
	Name: "check_index", Updates: []int8{1},
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[CheckIndexAttrs]("check_index", attrs)
		if err != nil {
			return nil, err
		}
		if a.Code == 0 || a.Rows < 0 {
			return nil, attrError("check_index", "code must not be 0, nor rows negative: %+v", a)
		}
		if err := count("check_index", in, 2); err != nil {
			return nil, err
		}
		if !integer(in[0].Type) || len(in[0].Shape) != 1 || !in[1].Equal(GuardSpec) {
			return nil, shapeError("check_index",
				"takes a vector of uint8, int32 or int64 and a guard int32 (4), not %v", in)
		}
		return []Spec{GuardSpec}, nil
	},
	Ref: func(attrs any, in, out []Tensor) {
		a, guard := attrs.(CheckIndexAttrs), out[0].Data
		copy(guard, in[1].Data)
		if guard[0] != 0 {
			return
		}
		for i, at := range in[0].Data {
			if at < 0 || at >= float64(a.Rows) {
				x := int64(at)
				copy(guard, []float64{float64(a.Code), float64(i), float64(int32(x)), float64(int32(x >> 32))})
				return
			}
		}
	},
	Cost: func(_ any, in, _ []Spec) int64 { return int64(in[0].Shape.Elems()) },
	Cases: func(r *rand.Rand, _ arena.DType) Case {
		a := CheckIndexAttrs{Rows: 1 + r.IntN(200), Code: 1 + r.Int32N(1000)}
		s := Spec{randomInteger(r), Shape{1 + r.IntN(3000)}}
		code, bad := float64(r.IntN(4)/3*77), r.IntN(4)
		return Case{Attrs: a, In: []Spec{s, GuardSpec}, Fill: func(r *rand.Rand, k int, data []float64) {
			if k == 1 {
				data[0] = code
				return
			}
			indices(r, data, s.Type, a.Rows, bad)
		}}
	},
})
