package compile

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// A model with weights minimises the mean of its losses over all weights of a window:
//
//	L = Σ w·loss / W, W = Σ w     both sums over the steps of the window
//
// Only the last step knows W. In a step that has an update of its own, the gradient of the loss is
// w / W. In all others it is w·share, and the update multiplies the sum of gradients by
//
//	factor = 1 / Σ share·w
//
// The host sends share = loss scale / samples of the window, the same in all steps of the window,
// since the losses of a step are summed. (Without weights share is that times the rows of the
// step.) The factor undoes it. Σ share·w has a home in region Gradients. Where W is 0 the update
// must be skipped: 1 / W is infinite, which the guard finds.

// weightOwner is the owner of instructions and homes of weights.
const weightOwner = "weights"

// weigh appends the sums of a step: c.loss = Σ w·loss and c.weight = Σ w.
func (c *compiler) weigh() {
	f := c.forward
	c.Label, c.Owner, c.Mark = "weighted loss", weightOwner, ""
	sum := c.Apply(kernels.Sum, kernels.ReduceAttrs{}, c.weighted(f.Loss))
	c.Label = "sum of weights"
	c.weight = c.Apply(kernels.Sum, kernels.ReduceAttrs{}, f.Weight)
	// The root of a negative weight is NaN. So the loss is NaN where a weight is below 0, and sum
	// itself elsewhere: adding 0·Σ√w changes no bit of it.
	c.Label = "root of weights, which must be 0 or more"
	roots := c.Apply(kernels.Sum, kernels.ReduceAttrs{}, c.Apply(kernels.Sqrt, nil, f.Weight))
	c.Label = "weighted loss"
	c.loss = c.Apply(kernels.Add, nil, sum, c.Apply(kernels.Affine, kernels.AffineAttrs{Scale: 0}, roots))
}

// weighted returns v times the weights, element by element; v itself if there are none.
func (c *compiler) weighted(v kernels.Value) kernels.Value {
	if c.forward.Weight == kernels.None {
		return v
	}
	return c.Apply(kernels.Mul, nil, v, c.weightLike(v))
}

// weightLike returns the weights in the shape of v.
func (c *compiler) weightLike(v kernels.Value) kernels.Value {
	w, shape := c.forward.Weight, c.Spec(v).Shape
	if c.Spec(w).Shape.Equal(shape) {
		return w
	}
	return c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: shape}, w)
}

// weightSeed appends the gradient of the losses.
func (c *compiler) weightSeed(loss kernels.Value) (kernels.Value, error) {
	w := c.weightLike(loss)
	if !c.cfg.Update.Factor(true) {
		return c.Apply(kernels.Div, nil, w, c.weight), nil
	}
	share, err := c.share(c.Spec(c.weight))
	if err != nil {
		return kernels.None, err
	}
	return c.Apply(kernels.Mul, nil, w, share), nil
}

// checkWeight appends the check that the weights of the window are not all 0, and returns the
// status word after it. Where the update has a factor, it first adds the step's weights to those of
// the window; c.weight is then Σ share·w.
func (c *compiler) checkWeight(guard kernels.Value) (kernels.Value, error) {
	u := &c.cfg.Update
	if u.Factor(true) {
		c.Label, c.Owner = "weights of the window", weightOwner
		share, err := c.share(c.Spec(c.weight))
		if err != nil {
			return kernels.None, err
		}
		sum, err := c.keepGradient("sum of weights", c.Apply(kernels.Mul, nil, c.weight, share), u.Window.adds())
		if err != nil {
			return kernels.None, err
		}
		if !u.Window.Updates() {
			c.Needed = append(c.Needed, sum)
			return guard, nil
		}
		c.weight = sum
	}
	c.Label, c.Owner = "check weights", weightOwner
	inverse := c.Apply(kernels.Inverse, nil, c.weight)
	return c.Apply(kernels.CheckFinite, kernels.CheckFiniteAttrs{Code: ir.WeightCode}, inverse, guard), nil
}

// weightFactor appends 1 / Σ share·w, as updates read it.
func (c *compiler) weightFactor() kernels.Value {
	c.Label, c.Owner = "1 / weights", weightOwner
	wide := c.Apply(kernels.Decode, kernels.DecodeAttrs{To: arena.Float64, Scale: 1}, c.weight)
	return c.Apply(kernels.Inverse, nil, c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: kernels.Shape{}}, wide))
}
