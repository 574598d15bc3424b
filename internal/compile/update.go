package compile

import (
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// update appends the checks and the optimizer to the program.
//
// The usual way keeps every gradient until loss and gradients are known to be finite, and only then changes a parameter:
//
//	gradients → Gradients │ check loss, check each │ sum of squares, scale │ update each │ move running statistics
//
// The lean way checks the loss at once and each gradient just before its own update, so that a gradient dies in scratch;
// only clipping by global norm makes it keep them.
//
// In a window of several steps gradients are kept too, and added up; the last step checks and applies the sums. They are kept where the loss is
// scaled as well: an update that overflows is left out as a whole.
func (c *compiler) update(loss kernels.Value, grads []kernels.Value) error {
	if c.Update.Op == nil {
		return fmt.Errorf("training without an optimizer's operation: %w", kernels.ErrUnsupported)
	}
	guard, err := c.Status()
	if err != nil {
		return err
	}
	controls, err := c.Controls()
	if err != nil {
		return err
	}
	c.Label, c.Owner, c.Mark = "check loss", "guard", ""
	guard = c.Apply(kernels.CheckFinite, kernels.CheckFiniteAttrs{Code: ir.LossCode}, loss, guard)
	trained := c.trained(grads)
	keep := !c.Update.Lean || c.Update.ClipNorm > 0 || c.Update.Window != Alone || c.Update.Scaled
	scale := kernels.None
	if keep {
		if err := c.keepGradients(trained, grads); err != nil {
			return err
		}
		if !c.Update.Window.Updates() {
			c.updateStatistics(guard)
			c.Guard = guard
			return nil
		}
		for i, p := range trained {
			guard = c.check(p, i, grads, guard)
		}
		if scale, err = c.scale(trained, grads); err != nil {
			return err
		}
	}
	for i, p := range trained {
		if !keep {
			guard = c.check(p, i, grads, guard)
		}
		in := []kernels.Value{p.Value, grads[p.Value], guard, controls}
		if scale != kernels.None {
			in = append(in, scale)
		}
		if in, err = c.states(p, in); err != nil {
			return err
		}
		c.Label, c.Owner = "update "+p.Name, ir.OwnerOf(p.Name)
		c.Roots = append(c.Roots, c.ApplyAll(c.Update.Op, c.Update.Attrs, in...)...)
	}
	c.updateStatistics(guard)
	c.Guard = guard
	return nil
}

// states appends what the optimizer keeps for p to the operands of its update.
func (c *compiler) states(p frontend.Param, in []kernels.Value) ([]kernels.Value, error) {
	if c.Update.States == nil {
		return in, nil
	}
	region := ir.State
	if c.Offload.State {
		region = ir.HostState
	}
	for _, s := range c.Update.States(c.Spec(p.Value)) {
		v, err := c.Home(region, ir.OwnerOf(p.Name), p.Name+"/"+s.Name, s.Spec)
		if err != nil {
			return nil, err
		}
		in = append(in, v)
	}
	return in, nil
}

// trained returns the parameters to update, in the order in which their gradients are made.
func (c *compiler) trained(grads []kernels.Value) []frontend.Param {
	made := make(map[kernels.Value]int)
	for i, in := range c.Instrs {
		for _, o := range in.Out {
			made[o] = i
		}
	}
	var ps []frontend.Param
	for _, p := range c.forward.Params {
		if !p.Frozen {
			ps = append(ps, p)
		}
	}
	slices.SortStableFunc(ps, func(a, b frontend.Param) int { return made[grads[a.Value]] - made[grads[b.Value]] })
	for _, p := range ps {
		c.Trained = append(c.Trained, p.Name)
	}
	return ps
}

// keepGradients gives each gradient a home, or adds it to what is there. One that is another's too, or that no instruction makes, is copied there.
func (c *compiler) keepGradients(ps []frontend.Param, grads []kernels.Value) error {
	for _, p := range ps {
		c.Label, c.Owner = "d"+p.Name, ir.OwnerOf(p.Name)
		keep := c.settleGradient
		if c.Update.Window.adds() {
			keep = c.accumulate
		}
		v, err := keep(p.Name, grads[p.Value])
		if err != nil {
			return err
		}
		if !c.Update.Window.Updates() {
			c.Roots = append(c.Roots, v)
		}
		grads[p.Value] = v
	}
	return nil
}

func (c *compiler) settleGradient(name string, dx kernels.Value) (kernels.Value, error) {
	return c.settle(ir.Gradients, c.Owner, name, dx)
}

// settle returns v at a home in region r, under the present label: v itself where nothing speaks against it, else a copy. A
// gradient may also be the view of a value that is made there.
func (c *compiler) settle(r arena.Region, owner, name string, v kernels.Value) (kernels.Value, error) {
	ref, err := c.Builder.Homes.Place(r, owner, name, c.Spec(v))
	if err != nil {
		return kernels.None, err
	}
	made := v
	if r == ir.Gradients {
		made = c.reshaped(v)
	}
	if in := c.Maker(made); in != nil {
		in.Label, in.Owner = c.Label, c.Owner
	} else {
		v = c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: c.Spec(v).Shape}, v)
		made = v
	}
	c.Values[v].Ref = ref // known to whoever asks before the program is placed
	val := &c.Values[made]
	val.Name, val.Owner, val.Ref, val.Home = c.Label, c.Owner, ref, true
	return v, nil
}

// reshaped follows reshapes from v back to what they are of.
func (c *compiler) reshaped(v kernels.Value) kernels.Value {
	for i := len(c.Instrs) - 1; i >= 0; i-- {
		if in := &c.Instrs[i]; in.Op == kernels.Reshape && in.Out[0] == v && !c.Values[v].Home {
			v = in.In[0]
		}
	}
	return v
}

// check appends the test that the gradient of the i-th trained parameter is finite.
func (c *compiler) check(p frontend.Param, i int, grads []kernels.Value, guard kernels.Value) kernels.Value {
	c.Label, c.Owner = "check d"+p.Name, ir.OwnerOf(p.Name)
	return c.Apply(kernels.CheckFinite, kernels.CheckFiniteAttrs{Code: ir.FirstGradient + int32(i)}, grads[p.Value], guard)
}

// scale appends what updates multiply gradients by: 1 / the loss scale, and less where their global norm is above its limit; None without either.
func (c *compiler) scale(ps []frontend.Param, grads []kernels.Value) (kernels.Value, error) {
	unscale, limit := kernels.None, c.Update.ClipNorm
	if c.Update.Scaled {
		c.Label, c.Owner = "unscale", "loss scale"
		one, err := c.ControlAt(kernels.ControlUnscale)
		if err != nil {
			return kernels.None, err
		}
		unscale = c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: kernels.Shape{}}, one)
	}
	if limit <= 0 || len(ps) == 0 {
		return unscale, nil
	}
	var in []kernels.Value
	if c.Update.Scaled {
		in = append(in, unscale)
	}
	for _, p := range ps {
		c.Label, c.Owner = fmt.Sprintf("norm d%s", p.Name), ir.OwnerOf(p.Name)
		in = append(in, c.Apply(kernels.SumSquares, nil, grads[p.Value]))
	}
	c.Label, c.Owner = "clip norm", "clip"
	return c.Apply(kernels.ClipNorm, kernels.ClipNormAttrs{Max: limit, Scaled: c.Update.Scaled}, in...), nil
}

// updateStatistics appends the update of the running statistics. An update changes nothing once the status word is set.
func (c *compiler) updateStatistics(guard kernels.Value) {
	now := make(map[kernels.Value]kernels.Value) // by home: its contents after the updates so far
	for _, s := range c.forward.Statistics {
		at := s.Home
		if v, ok := now[s.Home]; ok {
			at = v
		}
		name := c.Values[s.Home].Name
		c.Label, c.Owner, c.Mark = "update "+name, ir.OwnerOf(name), ""
		now[s.Home] = c.Apply(kernels.RunningStat, s.Attrs, at, s.Batch, guard)
		c.Roots = append(c.Roots, now[s.Home])
	}
}
