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
//	param [...], grad [...], guard, controls (, scale), m uint8 [...], root uint8 [...], largest [blocks] → param, m, root, largest
//
// Elements form blocks of 256 in row-major order, the last of which may be shorter. In block b, with
// unit the largest power of two that is at most the value of root,
//
//	root = √v = largest[b] · value of root;  mean = largest[b] · unit · span · value of m as an int8
//
// largest is the largest root in the block, in the parameter's type, and 0 if that is too small to
// divide by; it grows by at most numeric.Jump8 in an update. span is numeric.MeanSpan of both betas. A mean is stored relative to its own root, to
// which it has a bounded ratio: that ratio is the step, and no other element changes its precision.
// Both values are floats of few bits, so that errors are relative over the whole range of 2³².
//
// A step is Adam's, with the means before they become codes again. Codes are rounded by a dither
// ([numeric.Dither]) that depends on the number of the update and on the element's index in its
// block, so that changes smaller than the distance of codes add up. The next root is
// √(Beta2·root² + (1 - Beta2)·g²), also if v would overflow or underflow.
//
// Source: Dettmers, Lewis, Shleifer and Zettlemoyer, "8-bit optimizers via block-wise
// quantization", ICLR 2022, sections 2 and 3. This one has smaller blocks and another code; it
// keeps √v instead of v, which has twice the range; and it does not round to the nearest code, with
// which a root that grows or falls slowly would stay where it is.
var Adam8 = Register(&Op{
	Name: "adam8", Updates: []int8{0, 4, 5, 6}, Block: Block8, Infer: inferAdam8, Ref: refAdam8, Cases: adam8Case,
	Cost: func(_ any, in, _ []Spec) int64 { return 40 * int64(in[0].Shape.Elems()) },
})

// Adam8States returns the states of Adam8 for a parameter.
func Adam8States(param Spec) []State {
	codes := Spec{arena.Uint8, param.Shape}
	blocks := (param.Shape.Elems() + Block8 - 1) / Block8
	return []State{{"m", codes}, {"root", codes}, {"largest", Spec{param.Type, Shape{blocks}}}}
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
	span := numeric.MeanSpan(a.Beta1, a.Beta2)
	rootNoise, meanNoise := numeric.Dither(uint32(int64(in[3].Data[1])))
	var states [Block8][2]float64 // the mean and the root
	for lo := 0; lo < len(param); lo += Block8 {
		p, b := param[lo:min(lo+Block8, len(param))], lo/Block8
		next := 0.0
		for i := range p {
			g := a.prepare(in[1].Data[lo+i], scale)
			r, unit := numeric.DecodeRoot(uint8(root[lo+i]))
			share := float64(numeric.DecodeMean(int8(uint8(m[lo+i]))))
			s := [2]float64{span * share * float64(unit) * largest[b], largest[b] * float64(r)}
			p[i] = a.step(in[3].Data, p[i], g, &s)
			states[i] = s
			if s[1] > next { // not where it is NaN
				next = s[1]
			}
		}
		if largest[b] > 0 {
			next = min(next, largest[b]*numeric.Jump8)
		}
		if largest[b] = 0; next >= numeric.Least8 {
			largest[b] = Round(out[3].Type, next)
		}
		for i := range p {
			noise, mean, size := uint32(i)*numeric.DitherElement, 0.0, 0.0
			if largest[b] > 0 {
				mean, size = states[i][0]/largest[b], states[i][1]/largest[b]
			}
			code := numeric.EncodeRoot(float32(size), rootNoise+noise)
			_, unit := numeric.DecodeRoot(code)
			root[lo+i] = float64(code)
			m[lo+i] = float64(uint8(numeric.EncodeMean(float32(mean/float64(unit)/span), meanNoise+noise)))
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

// adam8Case has roots so large that a rounding error hardly changes the step, and means of at most
// their size. A rounding may decide between neighbouring codes, and of roots between two units: the
// code of the mean then differs by 16. In some cases the squares of gradients, means and roots
// overflow their type.
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
	grown := r.IntN(4) == 0 // beyond Jump8
	size := []float64{1, 1, most / 4, 0x1p10 * math.Sqrt(most), 0x1p-10 / math.Sqrt(most)}[r.IntN(5)]
	for _, s := range Adam8States(c.In[0]) {
		c.In = append(c.In, s.Spec)
	}
	c.Fill = func(r *rand.Rand, k int, data []float64) {
		switch k - first {
		case 0:
			for i := range data {
				data[i] = float64(uint8(r.IntN(129) - 64))
			}
		case 1:
			for i := range data {
				data[i] = float64(230 + r.IntN(26))
			}
		case 2:
			between(r, data, 0.5*size, size)
			if grown && size > 0x1p20*numeric.Least8 {
				between(r, data, 0x1p-19*size, 0x1p-18*size)
			}
		default:
			fill(r, k, data)
		}
		if k == 1 {
			for i := range data {
				data[i] *= size
			}
		}
	}
	c.Steps = 17
	c.Tolerance = 1e-4 // a mean and a gradient of opposite signs may cancel to a thousandth of their size
	return c
}
