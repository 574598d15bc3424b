package kernels

import (
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// DecodeAttrs are the attributes of Decode.
type DecodeAttrs struct {
	To           arena.DType // float
	Scale, Shift float64
}

// Decode turns stored data into floats.  x [...] of any type → y [...] of type To.  y = Scale·x + Shift.
// It has no gradient: data is not learnt.
var Decode = Register(&Op{
	Name: "decode",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[DecodeAttrs]("decode", attrs)
		if err != nil {
			return nil, err
		}
		if err := count("decode", in, 1); err != nil {
			return nil, err
		}
		if !a.To.Float() {
			return nil, attrError("decode", "to %v, which is no float", a.To)
		}
		return []Spec{{a.To, in[0].Shape}}, nil
	},
	Elem: elemDecode,
	Ref:  func(attrs any, in, out []Tensor) { refElem(elemDecode, attrs, in, out) },
	Cases: func(r *rand.Rand, float arena.DType) Case {
		return Case{
			Attrs: DecodeAttrs{float, r.NormFloat64() / 64, r.NormFloat64()},
			In:    []Spec{{randomType(r, float), randomShape(r, randomRank(r))}},
			Fill:  fillAny,
		}
	},
})

func elemDecode(attrs any, x, _ float64) float64 {
	a := attrs.(DecodeAttrs)
	return a.Scale*x + a.Shift
}

// OneHotAttrs are the attributes of OneHot.
type OneHotAttrs struct {
	Classes int
	Type    arena.DType // float
}

// OneHot spreads class indices.  labels int [R] → y [R, Classes], 1 at the label and 0 elsewhere.
// A label outside 0..Classes-1 gives a row of zeros.
var OneHot = Register(&Op{
	Name: "one_hot",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[OneHotAttrs]("one_hot", attrs)
		if err != nil {
			return nil, err
		}
		if err := count("one_hot", in, 1); err != nil {
			return nil, err
		}
		if a.Classes < 1 || !a.Type.Float() {
			return nil, attrError("one_hot", "cannot make %d classes of %v", a.Classes, a.Type)
		}
		if !integer(in[0].Type) || len(in[0].Shape) != 1 {
			return nil, shapeError("one_hot", "labels must be a vector of uint8, int32 or int64, not %v", in[0])
		}
		return []Spec{{a.Type, Shape{in[0].Shape[0], a.Classes}}}, nil
	},
	Ref: func(attrs any, in, out []Tensor) {
		c := attrs.(OneHotAttrs).Classes
		clear(out[0].Data)
		for i, label := range in[0].Data {
			if label >= 0 && label < float64(c) {
				out[0].Data[i*c+int(label)] = 1
			}
		}
	},
	Cost: moves,
	Cases: func(r *rand.Rand, float arena.DType) Case {
		classes := randomDim(r)
		return Case{
			Attrs: OneHotAttrs{classes, float},
			In:    []Spec{{randomInteger(r), randomShape(r, 1)}},
			Fill:  func(r *rand.Rand, _ int, data []float64) { labels(r, data, classes+1) },
		}
	},
})

// FillAttrs are the attributes of Fill.
type FillAttrs struct {
	Type  arena.DType
	Shape Shape
	Value float64
}

// Fill is a constant.  → y [Shape] of type Type.  y = Value.
var Fill = Register(&Op{
	Name: "fill",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[FillAttrs]("fill", attrs)
		if err != nil {
			return nil, err
		}
		if err := count("fill", in, 0); err != nil {
			return nil, err
		}
		if a.Type.Size() == 0 {
			return nil, attrError("fill", "has no type")
		}
		return []Spec{{a.Type, a.Shape}}, checkShape("fill", a.Shape)
	},
	Ref: func(attrs any, _, out []Tensor) {
		v := attrs.(FillAttrs).Value
		each(out[0].Data, func(float64) float64 { return v })
	},
	Cost: moves,
	Cases: func(r *rand.Rand, float arena.DType) Case {
		return Case{Attrs: FillAttrs{randomType(r, float), randomShape(r, randomRank(r)), float64(r.IntN(100))}}
	},
})

// Gather picks rows.  data [N, ...] of any type, index int [R] → y [R, ...].  y[i] = data[index[i]].
// An index outside 0..N-1 gives a row of zeros.
var Gather = Register(&Op{
	Name: "gather",
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		if err := noAttrs("gather", attrs); err != nil {
			return nil, err
		}
		if err := count("gather", in, 2); err != nil {
			return nil, err
		}
		data, index := in[0], in[1]
		if len(data.Shape) == 0 || !integer(index.Type) || len(index.Shape) != 1 {
			return nil, shapeError("gather", "takes rows and a vector of uint8, int32 or int64, not %v", in)
		}
		return []Spec{{data.Type, append(Shape{index.Shape[0]}, data.Shape[1:]...)}}, nil
	},
	Ref: func(_ any, in, out []Tensor) {
		row := in[0].Shape[1:].Elems()
		clear(out[0].Data)
		for i, at := range in[1].Data {
			if at >= 0 && at < float64(in[0].Shape[0]) {
				copy(out[0].Data[i*row:][:row], in[0].Data[int(at)*row:])
			}
		}
	},
	Cost: moves,
	Cases: func(r *rand.Rand, float arena.DType) Case {
		s := randomShape(r, 1+r.IntN(3))
		return Case{
			In: []Spec{{randomType(r, float), s}, {randomInteger(r), Shape{randomDim(r)}}},
			Fill: func(r *rand.Rand, k int, data []float64) {
				if k == 0 {
					fillAny(r, k, data)
					return
				}
				labels(r, data, min(s[0]+1, 256))
			},
		}
	},
})

func init() { OneHot.Grad = noGrad }
