package kernels

import (
	"math"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// Block8 is the number of elements of an 8-bit state that share a scale.
const Block8 = 256

// Adam8Attrs are the attributes of Adam8.
type Adam8Attrs struct {
	AdamAttrs
	Decoupled bool // weight decay as in AdamW
}

// Adam8 is Adam, or AdamW if Decoupled, with its means in 8-bit codes.
//
//	param [...], grad [...], guard, controls (, scale), m uint8 [...], root uint8 [...], largest [blocks, 2] → param, m, root, largest
//
// Elements form blocks of 256 in row-major order, the last of which may be shorter. In block b
//
//	mean = largest[b, 0] · value of m as an int8;  root = √v = largest[b, 1] · value of root
//
// with the values of numeric.Decode8. largest is the largest magnitude in the block, in the
// parameter's type, and 0 if it is below numeric.Least8. A step is Adam's, with the means before
// they become codes again, rounded to the nearest; a root that is not 0 never becomes 0, since
// steps are divided by it. The next root is √(Beta2·root² + (1 - Beta2)·g²), also if v would
// overflow or underflow.
//
// Source: Dettmers, Lewis, Shleifer and Zettlemoyer, "8-bit optimizers via block-wise
// quantization", ICLR 2022, sections 2 and 3. This one has smaller blocks; its code has intervals
// of powers of 8 instead of 10 and needs no table; it keeps √v instead of v, which has twice the
// range.
var Adam8 = Register(&Op{
	Name: "adam8", Updates: []int8{0, 4, 5, 6}, Infer: inferAdam8, Ref: refAdam8, Cases: adam8Case,
	Cost: func(_ any, in, _ []Spec) int64 { return 40 * int64(in[0].Shape.Elems()) },
})

// Adam8States returns the states of Adam8 for a parameter.
func Adam8States(param Spec) []State {
	codes := Spec{arena.Uint8, param.Shape}
	blocks := (param.Shape.Elems() + Block8 - 1) / Block8
	return []State{{"m", codes}, {"root", codes}, {"largest", Spec{param.Type, Shape{blocks, 2}}}}
}

func inferAdam8(attrs any, in []Spec) ([]Spec, error) {
	a, err := attrsOf[Adam8Attrs]("adam8", attrs)
	if err != nil {
		return nil, err
	}
	return inferStates("adam8", a.Common(), in, Adam8States)
}

func refAdam8(attrs any, in, out []Tensor) {
	a := attrs.(Adam8Attrs)
	scale := copyUpdate(a.UpdateAttrs, in, out)
	if in[2].Data[0] != 0 {
		return
	}
	param, m, root, largest := out[0].Data, out[1].Data, out[2].Data, out[3].Data
	var states [Block8][2]float64 // the mean and the root
	for lo := 0; lo < len(param); lo += Block8 {
		p, most := param[lo:min(lo+Block8, len(param))], largest[lo/Block8*2:][:2]
		var next [2]float64
		for i := range p {
			g := a.prepare(in[1].Data[lo+i], scale)
			s := [2]float64{most[0] * decodeSigned(m[lo+i]),
				most[1] * numeric.Decode8[float64](int(root[lo+i]), numeric.TopUnsigned)}
			p[i] = a.step(in[3].Data, p[i], g, &s)
			states[i] = s
			for k, v := range s {
				if v = math.Abs(v); v > next[k] { // not where v is NaN
					next[k] = v
				}
			}
		}
		for k, v := range next {
			if most[k] = 0; v >= numeric.Least8 {
				most[k] = Round(out[3].Type, v)
			}
		}
		for i := range p {
			m[lo+i] = encodeSigned(states[i][0], most[0])
			root[lo+i] = encodeRoot(states[i][1], most[1])
		}
	}
}

// step updates an element's mean and root, and returns the parameter. It computes no squares, so
// that no root overflows.
func (a Adam8Attrs) step(c []float64, p, g float64, s *[2]float64) float64 {
	kept := 1.0
	if a.Decoupled {
		kept -= c[0] * a.Decay
	} else {
		g += a.Decay * p
	}
	s[0] = a.Beta1*s[0] + (1-a.Beta1)*g
	s[1] = math.Hypot(math.Sqrt(a.Beta2)*s[1], math.Sqrt(1-a.Beta2)*g)
	unbias := math.Sqrt(c[3])
	return kept*p - c[0]*unbias/c[2]*(s[0]/(s[1]+a.Epsilon*unbias))
}

// decodeSigned returns the value of a byte that holds the code of a mean as an int8.
func decodeSigned(b float64) float64 {
	code := int8(uint8(b))
	if code < 0 {
		return -numeric.Decode8[float64](-int(code), numeric.TopSigned)
	}
	return numeric.Decode8[float64](int(code), numeric.TopSigned)
}

// encodeSigned returns the byte for a mean v of a block whose largest magnitude is most.
func encodeSigned(v, most float64) float64 {
	if most == 0 {
		return 0
	}
	code := numeric.Encode8(math.Abs(v)/most, numeric.TopSigned)
	if v < 0 {
		code = -code
	}
	return float64(uint8(code))
}

// encodeRoot returns the byte for a root v ≥ 0 of a block whose largest root is most.
func encodeRoot(v, most float64) float64 {
	if most == 0 || v == 0 {
		return 0
	}
	return float64(max(1, numeric.Encode8(v/most, numeric.TopUnsigned)))
}

// adam8Case has roots so large that a rounding error hardly changes the step. A rounding may decide
// between neighbouring codes. In some cases the squares of gradients, means and roots overflow
// their type.
func adam8Case(r *rand.Rand, float arena.DType) Case {
	decoupled := r.IntN(2) == 0
	c := updateCase(r, float, 0, func(_ *rand.Rand, u UpdateAttrs) Adam8Attrs {
		return Adam8Attrs{AdamAttrs{u, 0.9, 0.999, 1e-8}, decoupled}
	})
	first, fill := len(c.In), c.Fill
	most := math.MaxFloat64
	if float == arena.Float32 {
		most = math.MaxFloat32
	}
	size := []float64{1, 1, most / 4, 0x1p10 * math.Sqrt(most), 0x1p-10 / math.Sqrt(most)}[r.IntN(5)]
	for _, s := range Adam8States(c.In[0]) {
		c.In = append(c.In, s.Spec)
	}
	c.Fill = func(r *rand.Rand, k int, data []float64) {
		switch k - first {
		case 0:
			for i := range data {
				data[i] = float64(uint8(r.IntN(255) - 127))
			}
		case 1:
			for i := range data {
				data[i] = float64(1<<numeric.TopUnsigned + r.IntN(1<<numeric.TopUnsigned))
			}
		case 2:
			between(r, data, 0.5*size, size)
		default:
			fill(r, k, data)
		}
		if k == 1 {
			for i := range data {
				data[i] *= size
			}
		}
	}
	c.Steps = 1
	c.Tolerance = 1e-4 // a mean and a gradient of opposite signs may cancel to a thousandth of their size
	return c
}
