package layers

import (
	"fmt"
	"math"

	"gorgonia.org/gorgonia"
)

// Attention describes self-attention.
type Attention struct {
	Heads  int  // divides the features
	Causal bool // a step attends to itself and to those before it only
	// Mask is added to the scores [B, Heads, T, T], to which it broadcasts: 0 keeps and -1e9 hides.
	// Nil: none.
	Mask *gorgonia.Node
}

// Attention adds multi-head self-attention over the steps of x.  x [B, T, C] → same.
//
//	q, k, v = blocks of x·in_proj, in Heads parts each
//	out_proj(softmax(q·kᵀ/√(C/Heads) + mask)·v)
//
// The parameters are those of two dense layers: name/in_proj/w [C, 3·C], which starts with
// Net.Weights, name/in_proj/b [3·C], name/out_proj/w [C, C] and name/out_proj/b [C]. The scores
// take B·Heads·T² elements of memory. Source: Vaswani et al., 2017.
func (n *Net) Attention(x *gorgonia.Node, name string, a Attention) *gorgonia.Node {
	layer := fmt.Sprintf("attention %q", name)
	switch {
	case !n.shaped(layer, name, x, "batch", "steps", "features"):
		return nil
	case a.Heads < 1 || x.Shape()[2]%a.Heads != 0:
		n.fail(fmt.Errorf("%s: %d heads do not divide %d features of input %s: %w", layer, a.Heads, x.Shape()[2], shapeString(x.Shape()), ErrShape))
		return nil
	}
	steps, width := x.Shape()[1], x.Shape()[2]
	qkv := n.Split(n.denseSteps(x, name+"/in_proj", 3*width), "", 2, width, width, width)
	if n.err != nil {
		return nil
	}
	for i, part := range qkv {
		part = n.view("attention", "", part, []int{x.Shape()[0], steps, a.Heads, width / a.Heads})
		qkv[i] = n.Transpose(part, "", 0, 2, 1, 3)
	}
	scores := n.Affine(n.MatMul(qkv[0], qkv[1], "", Transposed{B: true}), "", 1/math.Sqrt(float64(width/a.Heads)), 0)
	if a.Causal {
		scores = n.Add(scores, n.causalMask(steps), "")
	}
	if a.Mask != nil {
		scores = n.addMask(layer, scores, a.Mask)
	}
	y := n.Transpose(n.MatMul(n.Softmax(scores, ""), qkv[2], "", Transposed{}), "", 0, 2, 1, 3)
	if n.err != nil {
		return nil
	}
	y = n.view("attention", "", y, x.Shape())
	return n.denseSteps(y, name+"/out_proj", width)
}

// denseSteps adds a dense layer over the last axis.  x [B, T, In] → [B, T, out].
func (n *Net) denseSteps(x *gorgonia.Node, name string, out int) *gorgonia.Node {
	if n.err != nil {
		return nil
	}
	s := x.Shape()
	y := n.Dense(n.view("rows", "", x, []int{s[0] * s[1], s[2]}), name, out, nil)
	if n.err != nil {
		return nil
	}
	return n.view("steps", "", y, []int{s[0], s[1], out})
}

// hidden is added to scores that must not count: its exponential is 0.
const hidden = -1e9

// causalMask is 0 up to the diagonal, and hides what is above it.  [steps, steps]
func (n *Net) causalMask(steps int) *gorgonia.Node {
	mask := make([]float64, steps*steps)
	for i := range steps {
		for j := i + 1; j < steps; j++ {
			mask[i*steps+j] = hidden
		}
	}
	return n.Constant(mask, "", steps, steps)
}

// addMask adds a mask that must not enlarge the scores.
func (n *Net) addMask(layer string, scores, mask *gorgonia.Node) *gorgonia.Node {
	if !n.floats(layer, scores, mask) {
		return nil
	}
	to, err := broadcast(scores.Shape(), mask.Shape())
	if err != nil || !to.Equal([]int(scores.Shape())) {
		n.fail(fmt.Errorf("%s: mask %s does not broadcast to the scores %s: %w", layer, shapeString(mask.Shape()), shapeString(scores.Shape()), ErrShape))
		return nil
	}
	return n.Add(scores, mask, "")
}
