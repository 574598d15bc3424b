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
// In a step that has an update of its own, the gradient of the loss is w / W, times the loss scale
// if there is one. In a window of several steps only the last one knows W. There the gradient is
//
//	w·share / unit     unit = Σ w over the first step of the window, or 1 if that is 0
//
// and the update multiplies the sum of gradients by 1 / (Σ w·share / unit). The host sends share;
// it includes the loss scale and is the same in all steps of a window. unit makes results
// independent of the unit of weights. Both sums and unit have homes in region Gradients. Where W is
// 0 the update must be skipped: 1 / W is infinite, which the guard finds.

// weigh appends the sums of a step: Σ w·loss and Σ w. name is that of the node of weights.
func (c *compiler) weigh(name string, losses, weights kernels.Value) (loss, weight kernels.Value) {
	c.Label, c.Owner, c.Mark = "weighted loss", ir.WeightOwner, ""
	sum := c.Apply(kernels.Sum, kernels.ReduceAttrs{}, c.Apply(kernels.Mul, nil, losses, c.weightLike(weights, losses)))
	c.Label = "sum of weights"
	weight = c.Apply(kernels.Sum, kernels.ReduceAttrs{}, weights)
	// The root of a negative weight is NaN. So the loss is NaN where a weight is below 0, and sum
	// itself elsewhere: adding 0·Σ√w changes no bit of it.
	c.Label = ir.WeightRoots(name)
	roots := c.Apply(kernels.Sum, kernels.ReduceAttrs{}, c.Apply(kernels.Sqrt, nil, weights))
	c.Label = "weighted loss"
	return c.Apply(kernels.Add, nil, sum, c.Apply(kernels.Affine, kernels.AffineAttrs{Scale: 0}, roots)), weight
}

// weighted returns v times the weights, element by element; v itself if there are none.
func (c *compiler) weighted(v kernels.Value) kernels.Value {
	if c.forward.Weight == kernels.None {
		return v
	}
	return c.Apply(kernels.Mul, nil, v, c.weightLike(c.forward.Weight, v))
}

// weightLike returns the weights w in the shape of v.
func (c *compiler) weightLike(w, v kernels.Value) kernels.Value {
	shape := c.Spec(v).Shape
	if c.Spec(w).Shape.Equal(shape) {
		return w
	}
	return c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: shape}, w)
}

// weightSeed appends the gradient of the losses.
func (c *compiler) weightSeed(loss kernels.Value) (kernels.Value, error) {
	u, w, unit := &c.cfg.Update, c.weightLike(c.forward.Weight, loss), c.weight
	if !u.Sums() && !u.Scaled {
		return c.Apply(kernels.Div, nil, w, unit), nil
	}
	share, err := c.share(c.Spec(c.weight))
	if err != nil {
		return kernels.None, err
	}
	if u.Sums() {
		if unit, err = c.weightUnit(); err != nil {
			return kernels.None, err
		}
	}
	c.perWeight = c.Apply(kernels.Div, nil, share, unit)
	return c.Apply(kernels.Mul, nil, w, c.perWeight), nil
}

// weightUnit returns the unit of weights of the window, which its first step writes.
func (c *compiler) weightUnit() (kernels.Value, error) {
	name := ofObjective(ir.WeightUnit, c.cfg.Objective)
	if c.cfg.Update.Window.adds() {
		return c.Home(ir.Gradients, ir.WeightOwner, name, c.Spec(c.weight))
	}
	weight := c.weight
	if c.sharesStep() {
		weight = c.sumNow(ir.WeightUnit, weight)
	}
	c.Label, c.Owner = name, ir.WeightOwner
	zero := c.zero(c.Spec(c.weight))
	unit := c.Apply(kernels.Add, nil, weight, c.Apply(kernels.Equal, nil, weight, zero))
	unit, err := c.assignHome(ir.Gradients, ir.WeightOwner, name, unit)
	if err == nil {
		c.Needed = append(c.Needed, unit)
	}
	return unit, err
}

// checkWeight appends the check that the weights of the window are not all 0, and returns the
// status word after it. In a window of several steps, it first adds the step's weights to those of
// the window; c.weight is then Σ w·share / unit.
func (c *compiler) checkWeight(guard kernels.Value) (kernels.Value, error) {
	u := &c.cfg.Update
	if u.Sums() {
		c.Label, c.Owner = "weights of the window", ir.WeightOwner
		sum, err := c.keepGradient(ofObjective(ir.WeightSum, c.cfg.Objective), c.Apply(kernels.Mul, nil, c.weight, c.perWeight), u.Window.adds())
		if err != nil {
			return kernels.None, err
		}
		if !u.Window.Updates() {
			c.Needed = append(c.Needed, sum)
			return guard, nil
		}
		if c.weight = sum; c.sharesStep() {
			c.weight = c.sumNow(ir.WeightSum, sum)
		}
	}
	c.Label, c.Owner = "check weights", ir.WeightOwner
	inverse := c.Apply(kernels.Inverse, nil, c.weight)
	return c.Apply(kernels.CheckFinite, kernels.CheckFiniteAttrs{Code: ir.WeightCode}, inverse, guard), nil
}

// weightFactor appends the inverse of the weights of the window, as updates read it.
func (c *compiler) weightFactor() kernels.Value {
	c.Label, c.Owner = "1 / weights", ir.WeightOwner
	wide := c.decode(arena.Float64, c.weight)
	return c.Apply(kernels.Inverse, nil, c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: kernels.Shape{}}, wide))
}
