package compile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// A loss is the mean over the rows of the batch, so that it does not depend on their number: tails,
// windows and evaluation weigh steps by their rows. Config.Twice lets the compiler find a loss that
// is a sum: it lowers the model for twice the batch, too, and follows how values grow.
//
// The degree of a value is d if it has a factor n^d, for a batch of n rows. Values of single rows,
// parameters and means have degree 0. A sum over twice the elements adds 1, a factor 1/n subtracts
// 1. A constant that doubles with the batch has degree 1, one that stays degree 0.
//
//	x [n, 3] ─► e = (x - y)² (degree 0) ─► Σ e (degree 1)            a sum: refused
//	                                       Σ e ⊙ (1/n) (degree 0)    a mean
//
// Terms of a sum keep degrees of their own: in Σ e + λ‖w‖² the first one has 1, the second one 0.
// The loss is refused if one of its terms certainly has degree 1. Where the degree is not certain
// there is no finding: under nonlinear functions of sums, products with a field of one number a
// row, which may be a weight, and operations that are not listed in degreesOf.

// ErrSumLoss is wrapped by errors about a loss that is a sum over the rows of the batch.
var ErrSumLoss = errors.New("the loss is a sum over the rows of the batch, not their mean")

// SumLossError names the loss and the node that adds the rows up. It wraps ErrSumLoss.
type SumLossError struct {
	Loss string // name of the loss
	Sum  string // label of the instruction that adds the rows up
}

func (e *SumLossError) Error() string {
	return fmt.Sprintf("%v: loss %q, summed by %q", ErrSumLoss, e.Loss, e.Sum)
}

// Unwrap returns ErrSumLoss.
func (e *SumLossError) Unwrap() error { return ErrSumLoss }

// checkLoss returns a *SumLossError if the loss of the program, which is lowered, is certainly a
// sum over the rows of the batch.
func (c *compiler) checkLoss() error {
	if c.cfg.Twice == nil || c.cfg.Batch < 2 || !c.sumsRows() {
		return nil
	}
	model, err := c.cfg.Twice()
	if err != nil {
		return nil // the model is for one batch size: the constants in it cannot be judged
	}
	p := &ir.Program{Batch: model.Batch}
	b := ir.NewBuilder(p, &ir.Homes{})
	_, err = frontend.New(b, model, frontend.Options{Training: c.cfg.Mode == Train, Offloaded: c.cfg.Offload.Offloads}).Forward()
	if err != nil || !sameStructure(c.Program, p) {
		return nil
	}
	g := newLossGrowth(c.Program, p)
	g.follow()
	isSum := func(loss, weight kernels.Value) bool { return weight == kernels.None && g.degrees[loss]&of(1) != 0 }
	if f := c.forward; isSum(f.Loss, f.Weight) {
		return &SumLossError{Loss: c.cfg.Loss.Name(), Sum: g.sums[f.Loss]}
	}
	for i, o := range c.forward.Others {
		if isSum(o.Loss, o.Weight) {
			return &SumLossError{Loss: c.cfg.Others[i].Loss.Name(), Sum: g.sums[o.Loss]}
		}
	}
	return nil
}

// sumsRows reports whether an instruction may add up the rows of the batch: only then the model is
// lowered a second time.
func (c *compiler) sumsRows() bool {
	return slices.ContainsFunc(c.Instrs, func(in ir.Instr) bool {
		n := summed(c.Program, &in)
		return n > 1 && n%c.cfg.Batch == 0
	})
}

// summed returns the number of terms in each element of a sum, or of a product with a vector; 0 for
// other instructions. Products of two matrices are not counted: few losses are made by one, and the
// layers of most models are such products.
func summed(p *ir.Program, in *ir.Instr) int {
	switch in.Op {
	case kernels.Sum:
		return reduced(p, in)
	case kernels.MatMul:
		if k, rows, cols := contracted(p, in); rows == 1 || cols == 1 {
			return k
		}
	}
	return 0
}

// reduced returns the number of elements that a reduction makes one of.
func reduced(p *ir.Program, in *ir.Instr) int {
	return p.Spec(in.In[0]).Shape.Elems() / max(1, p.Spec(in.Out[0]).Shape.Elems())
}

// contracted returns the number of terms in each element of a product, and the rows and columns of
// its matrices.
func contracted(p *ir.Program, in *ir.Instr) (k, rows, cols int) {
	a, y := p.Spec(in.In[0]).Shape, p.Spec(in.Out[0]).Shape
	k = a[len(a)-1]
	if in.Attrs.(kernels.MatMulAttrs).TransA {
		k = a[len(a)-2]
	}
	return k, y[len(y)-2], y[len(y)-1]
}

// sameStructure reports whether two programs have the same instructions on the same values.
func sameStructure(p, q *ir.Program) bool {
	return len(p.Values) == len(q.Values) && len(p.Constants) == len(q.Constants) && slices.EqualFunc(p.Instrs, q.Instrs, func(a, b ir.Instr) bool {
		return a.Op == b.Op && slices.Equal(a.In, b.In) && slices.Equal(a.Out, b.Out)
	})
}

// degrees is the set of degrees of the terms of a value. The empty set is that of 0.
type degrees uint16

const (
	lowest            = -3                // degree of the first bit; the last one is 3
	constant  degrees = 1 << -lowest      // degree 0
	above     degrees = 7 << (1 - lowest) // degrees 1 to 3
	uncertain degrees = 1 << 15           // a term whose degree is not known
)

// positive reports whether a term certainly grows with the batch.
func (d degrees) positive() bool { return d&above != 0 }

// of returns the set of one degree.
func of(degree int) degrees {
	if degree < lowest || degree > -lowest {
		return uncertain
	}
	return 1 << (degree - lowest)
}

// only returns the degree of a set of one.
func (d degrees) only() (degree int, ok bool) {
	for i := lowest; i <= -lowest; i++ {
		if d == of(i) {
			return i, true
		}
	}
	return 0, false
}

// times returns the degrees of a product.
func (d degrees) times(e degrees) degrees {
	if d == 0 || e == 0 {
		return 0
	}
	var out degrees
	if (d|e)&uncertain != 0 {
		out = uncertain
	}
	for i := lowest; i <= -lowest; i++ {
		for k := lowest; k <= -lowest; k++ {
			if d&of(i) != 0 && e&of(k) != 0 {
				out |= of(i + k)
			}
		}
	}
	return out
}

// over returns the degrees of a quotient.
func (d degrees) over(e degrees) degrees {
	if n, ok := e.only(); ok {
		return d.times(of(-n))
	}
	return uncertain
}

// lossGrowth follows the degrees of the values of a program, which is lowered for one batch and for
// twice the batch.
type lossGrowth struct {
	one, two *ir.Program
	degrees  []degrees // by value
	sums     []string  // by value: label of the instruction that added rows up; "": none
	makers   []int     // by value: index of its instruction; -1: it has a home
}

func newLossGrowth(one, two *ir.Program) *lossGrowth {
	n := len(one.Values)
	g := &lossGrowth{one: one, two: two, degrees: make([]degrees, n), sums: make([]string, n), makers: make([]int, n)}
	for v := range g.makers {
		g.makers[v] = -1
	}
	for i := range one.Instrs {
		for _, o := range one.Instrs[i].Out {
			g.makers[o] = i
		}
	}
	return g
}

// follow computes the degrees of all values.
func (g *lossGrowth) follow() {
	for i, v := range g.one.Values {
		if v.Home {
			g.degrees[i] = constant
		}
	}
	for i := range g.one.Constants { // equal ones do not grow; of others nothing is known
		a, b := g.one.Constants[i], g.two.Constants[i]
		if !slices.Equal(a.Data, b.Data) {
			g.degrees[a.Value] = uncertain
		}
	}
	for i := range g.one.Instrs {
		in := &g.one.Instrs[i]
		d := g.degreesOf(in, &g.two.Instrs[i])
		for _, o := range in.Out {
			g.degrees[o] = d
			for _, v := range in.In {
				if g.sums[o] == "" && g.degrees[v].positive() {
					g.sums[o] = g.sums[v]
				}
			}
			if g.sums[o] == "" && d.positive() {
				g.sums[o] = in.Label
			}
		}
	}
}

// degreesOf returns the degrees of the result of an instruction, which is two in the other program.
func (g *lossGrowth) degreesOf(in, two *ir.Instr) degrees {
	d := make([]degrees, 2)
	for k := range min(2, len(in.In)) {
		d[k] = g.degrees[in.In[k]]
	}
	switch in.Op {
	case kernels.Fill:
		return ratio(in.Attrs.(kernels.FillAttrs).Value, two.Attrs.(kernels.FillAttrs).Value)
	case kernels.Reshape, kernels.Transpose, kernels.Broadcast, kernels.Neg, kernels.Mean:
		return d[0]
	case kernels.Affine:
		a, b := in.Attrs.(kernels.AffineAttrs), two.Attrs.(kernels.AffineAttrs)
		return d[0].times(ratio(a.Scale, b.Scale)) | ratio(a.Shift, b.Shift)
	case kernels.Sum:
		return d[0].times(ratio(float64(reduced(g.one, in)), float64(reduced(g.two, two))))
	case kernels.Add, kernels.Sub:
		return d[0] | d[1]
	case kernels.Mul:
		if g.weight(in.In[0]) || g.weight(in.In[1]) {
			return uncertain
		}
		return d[0].times(d[1])
	case kernels.Div:
		if g.weight(in.In[0]) || g.weight(in.In[1]) {
			return uncertain
		}
		return d[0].over(d[1])
	case kernels.Square:
		return d[0].times(d[0])
	case kernels.MatMul:
		return g.product(in, two)
	}
	return g.bounded(in, two)
}

// product returns the degrees of a product of matrices.
func (g *lossGrowth) product(in, two *ir.Instr) degrees {
	a := in.Attrs.(kernels.MatMulAttrs)
	if g.weight(in.In[0]) || g.weight(in.In[1]) || a.Act != nil || a.Bias || a.Add {
		return uncertain
	}
	k, _, _ := contracted(g.one, in)
	k2, _, _ := contracted(g.two, two)
	return g.degrees[in.In[0]].times(g.degrees[in.In[1]]).times(ratio(float64(k), float64(k2)))
}

// rowwise are operations that keep rows apart, or whose results do not grow with their number.
var rowwise = map[*kernels.Op]bool{
	kernels.Decode: true, kernels.Concat: true, kernels.Gather: true, kernels.Max: true, kernels.Dropout: true,
	kernels.Conv: true, kernels.MaxPool: true, kernels.AvgPool: true,
	kernels.BatchNorm: true, kernels.LayerNorm: true, kernels.GroupNorm: true,
	kernels.CrossEntropy: true, kernels.CrossEntropyDense: true,
}

// bounded returns the degrees of other operations: 0 for functions of rows that do not grow.
func (g *lossGrowth) bounded(in, two *ir.Instr) degrees {
	for _, v := range in.In {
		if g.degrees[v]&^constant != 0 {
			return uncertain
		}
	}
	switch {
	case in.Op == kernels.Softmax || in.Op == kernels.LogSoftmax: // along the rows, it shrinks with their number
		return g.along(in.Attrs.(kernels.SoftmaxAttrs).Axis, in, two)
	case in.Op == kernels.CumSum: // along the rows, it grows
		return g.along(in.Attrs.(kernels.CumSumAttrs).Axis, in, two)
	case in.Op == kernels.Where:
		if slices.ContainsFunc(in.In, g.weight) {
			return uncertain
		}
		return constant
	case in.Op == kernels.Slice: // a part of the batch, or not
		a, b := g.one.Spec(in.In[0]).Shape.Elems(), g.two.Spec(two.In[0]).Shape.Elems()
		c, d := g.one.Spec(in.Out[0]).Shape.Elems(), g.two.Spec(two.Out[0]).Shape.Elems()
		if a*d != b*c {
			return uncertain
		}
		return constant
	case in.Op.Elem != nil || rowwise[in.Op]:
		return constant
	}
	return uncertain
}

// along returns 0 for an operation along an axis that does not grow with the batch.
func (g *lossGrowth) along(axis int, in, two *ir.Instr) degrees {
	if g.one.Spec(in.Out[0]).Shape[axis] != g.two.Spec(two.Out[0]).Shape[axis] {
		return uncertain
	}
	return constant
}

// weight reports whether v is a field of the batch with one number a row, as it comes: it may be a
// weight that makes a mean of a sum.
func (g *lossGrowth) weight(v kernels.Value) bool {
	for g.makers[v] >= 0 {
		switch in := &g.one.Instrs[g.makers[v]]; in.Op {
		case kernels.Reshape, kernels.Transpose, kernels.Broadcast, kernels.Decode:
			v = in.In[0]
		case kernels.Gather: // of resident data
			return g.one.Values[in.In[0]].Ref.Region == ir.Resident && g.one.Spec(v).Shape.Elems() == g.one.Batch
		default:
			return false
		}
	}
	val := &g.one.Values[v]
	return val.Ref.Region == ir.Slot && val.Spec.Shape.Elems() == g.one.Batch
}

// ratio returns the degree of a constant that is a in the one program and b in the other.
func ratio(a, b float64) degrees {
	switch {
	case a == 0 && b == 0:
		return 0
	case a == b:
		return constant
	}
	for degree := -2; degree <= 2; degree++ {
		if f := [...]float64{0.25, 0.5, 1, 2, 4}[degree+2]; a != 0 && b == a*f {
			return of(degree)
		}
	}
	return uncertain
}
