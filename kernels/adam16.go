package kernels

import (
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/float16"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// Adam16Attrs are the attributes of Adam16.
type Adam16Attrs struct {
	AdamAttrs
	Decoupled bool // weight decay as in AdamW
}

// Adam16 is Adam, or AdamW if Decoupled, with its means in bfloat16.
//
//	param [...], grad [...], guard, controls (, scale), m bfloat16 [...], v bfloat16 [...] → param, m, v
//
// A step is Adam's, with the means before they are rounded. bfloat16 has the range of float32, so
// gradients of either type are limited to 2⁶³. An update changes a mean of squares by
// about a thousandth, and neighbours in bfloat16 are a hundredth apart: rounded to the nearest, the
// mean would never change. So means are rounded stochastically, which is right on average
// (Forsythe, 1950; for training Gupta, Agrawal, Gopalakrishnan and Narayanan, ICML 2015). The
// random bits are a function of the operands: the same on every device, and for a parameter that is
// updated in pieces.
var Adam16 = Register(&Op{
	Name: "adam16", Updates: []int8{0, 4, 5}, Block: 1, Infer: inferAdam16, Ref: refAdam16, Cases: adam16Case,
	Cost: func(_ any, in, _ []Spec) int64 { return 26 * int64(in[0].Shape.Elems()) },
})

// Adam16States returns the states of Adam16 for a parameter.
func Adam16States(param Spec) []State {
	mean := Spec{arena.BFloat16, param.Shape}
	return []State{{"m", mean}, {"v", mean}}
}

func inferAdam16(attrs any, in []Spec) ([]Spec, error) {
	a, err := attrsOf[Adam16Attrs]("adam16", attrs)
	if err != nil {
		return nil, err
	}
	return inferStates("adam16", a.Common(), in, Adam16States)
}

func refAdam16(attrs any, in, out []Tensor) {
	a := attrs.(Adam16Attrs)
	scale := copyUpdate(a.UpdateAttrs, in, out)
	if in[2].Data[0] != 0 {
		return
	}
	word := numeric.Word[float64]
	if in[0].Type == arena.Float32 {
		word = func(x float64) uint32 { return numeric.Word(float32(x)) }
	}
	controls, m, v := in[3].Data, out[1].Data, out[2].Data
	for i, p := range in[0].Data {
		g := in[1].Data[i]
		noise := numeric.Noise(word(p), word(g), uint32(int64(controls[1])))
		s := []float64{m[i], v[i]}
		out[0].Data[i] = a.apply(a.Decoupled, arena.Float32, controls, p, a.prepare(g, scale), s)
		m[i] = float64(float16.FromBFloat16(float16.DitherBFloat16(float32(s[0]), uint16(noise))))
		v[i] = float64(float16.FromBFloat16(float16.DitherBFloat16(float32(s[1]), uint16(noise>>16))))
	}
}

// adam16Case has means far from 0, so that a float32 error is small against the distance of
// neighbours in bfloat16. It may still decide between two neighbours.
func adam16Case(r *rand.Rand, float arena.DType) Case {
	decoupled := r.IntN(2) == 0
	c := updateCase(r, float, 2, func(_ *rand.Rand, u UpdateAttrs) Adam16Attrs {
		return Adam16Attrs{AdamAttrs{u, 0.9, 0.999, 1e-8}, decoupled}
	})
	first, fill := len(c.In)-2, c.Fill
	for k, s := range Adam16States(c.In[0]) {
		c.In[first+k] = s.Spec
	}
	c.Fill = func(r *rand.Rand, k int, data []float64) {
		if fill(r, k, data); k == first {
			awayFromZero(data, 0.5)
		}
	}
	c.Steps = 1
	return c
}
