package kernels

import (
	"hash/fnv"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// ControlStep is the index in the controls vector of the number of the training step, from 1.
const ControlStep = 7

// DropoutAttrs are the attributes of Dropout.
type DropoutAttrs struct {
	Rate  float64 // probability that an element becomes 0, in [0, 1)
	Seed  uint64  // of the run
	Layer uint64  // distinguishes the layers of a model: see LayerKey
}

// Dropout clears elements at random and scales the others.
//
//	x [...], controls float64 [10] → y [...]
//
// Element i becomes x/(1 - Rate) if a random word is at least Rate·2^32 (see Threshold), else 0.
// That is word i%4 of the generator Philox, whose key is Seed and whose counter is i/4, the low 32
// bits of the step, and Layer. Dropout is its own gradient: dy has the same elements cleared.
// Source: Srivastava et al., JMLR 15, 2014, scaled in training ("inverted").
var Dropout = Register(&Op{
	Name: "dropout", InPlace: []int8{0},
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[DropoutAttrs]("dropout", attrs)
		if err != nil {
			return nil, err
		}
		if !(a.Rate >= 0 && a.Rate < 1) {
			return nil, attrError("dropout", "rate %v must lie in [0, 1)", a.Rate)
		}
		if err := count("dropout", in, 2); err != nil {
			return nil, err
		}
		if !in[1].Equal(ControlsSpec) {
			return nil, shapeError("dropout", "controls must be %v, not %v", ControlsSpec, in[1])
		}
		if int64(in[0].Shape.Elems()) > maxDropout {
			return nil, shapeError("dropout", "%v has more than %d elements", in[0], int64(maxDropout))
		}
		return []Spec{in[0]}, floats("dropout", in[:1], 1)
	},
	Ref: func(attrs any, in, out []Tensor) {
		a, step := attrs.(DropoutAttrs), in[1].Data[ControlStep]
		least, scale := a.Threshold(), 1/(1-a.Rate)
		var words [4]uint32
		for i, v := range in[0].Data {
			if i%4 == 0 {
				words = numeric.Philox(a.Counter(i/4, step), a.Key())
			}
			if words[i%4] >= least {
				out[0].Data[i] = v * scale
			}
		}
	},
	Cost: func(_ any, in, _ []Spec) int64 { return 20 * int64(in[0].Shape.Elems()) },
	Cases: func(r *rand.Rand, float arena.DType) Case {
		a := DropoutAttrs{Rate: []float64{0, 0.1, 0.5, 0.9}[r.IntN(4)], Seed: r.Uint64(), Layer: r.Uint64()}
		step := float64(r.Uint64N(1 << 40 >> r.IntN(40)))
		return Case{
			Attrs: a, In: []Spec{{float, randomShape(r, randomRank(r))}, ControlsSpec},
			Fill: func(r *rand.Rand, k int, data []float64) {
				if normal(r, data); k == 1 {
					data[ControlStep] = step
				}
			},
		}
	},
})

// maxDropout is the largest number of elements: 32 bits of the counter number groups of four.
const maxDropout = 4 << 32

func init() {
	Dropout.Grad = func(g Graph, n Node, dy []Value) []Value {
		return []Value{g.Apply(Dropout, n.Attrs, dy[0], n.In[1]), None}
	}
}

// LayerKey returns DropoutAttrs.Layer for a layer of the given name.
func LayerKey(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// Threshold returns the least random word of an element that is kept: Rate·2^32, rounded down.
func (a DropoutAttrs) Threshold() uint32 { return uint32(a.Rate * (1 << 32)) }

// Key returns the key of the generator.
func (a DropoutAttrs) Key() [2]uint32 { return [2]uint32{uint32(a.Seed), uint32(a.Seed >> 32)} }

// Counter returns the counter of the generator for elements 4·quad to 4·quad + 3 in a step.
func (a DropoutAttrs) Counter(quad int, step float64) [4]uint32 {
	return [4]uint32{uint32(quad), uint32(int64(step)), uint32(a.Layer), uint32(a.Layer >> 32)}
}
