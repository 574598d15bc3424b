package compile

import (
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// update appends the guard's checks and the optimizer.
//
// The loss and the variances of batch normalization are checked first: running statistics follow
// each step, also where parameters do not. By default every gradient is kept until the loss and all gradients are known to be finite, and
// only then a parameter changes:
//
//	gradients → region Gradients │ check loss, variances, gradients │ sum of squares, scale │ update each
//
// GuardEach checks each gradient right before its own update, so that a gradient is a value of
// scratch and is not kept:
//
//	check loss, variances │ gradient, check, update │ gradient, check, update │ …
//
// Running statistics are updated last.
//
// In a window of several steps gradients are kept and added up; the last step checks and applies
// the sums. They are kept where the loss is scaled, too: an update that overflows is skipped as a
// whole.
func (c *compiler) update(grads []kernels.Value) error {
	u := &c.cfg.Update
	if u.Op == nil {
		return fmt.Errorf("training without an optimizer's operation: %w", kernels.ErrUnsupported)
	}
	guard, err := c.Status()
	if err != nil {
		return err
	}
	if _, err := c.Controls(); err != nil {
		return err
	}
	c.Label, c.Owner, c.Mark = "check loss", "guard", ""
	if !c.cfg.Idle { // else it has no loss of its own
		guard = c.Apply(kernels.CheckFinite, kernels.CheckFiniteAttrs{Code: ir.LossCode}, c.loss, guard)
	}
	if c.weight != kernels.None {
		if guard, err = c.checkWeight(guard); err != nil {
			return err
		}
	}
	if !c.cfg.Idle {
		guard = c.checkVariances(guard)
	}
	trained := c.trained(grads)
	if c.cfg.Idle {
		c.zeroGradients(trained, grads)
	}
	scale, keep := kernels.None, u.KeepsGradients()
	if keep {
		if guard, scale, err = c.keepAll(trained, grads, guard); err != nil {
			return err
		}
	}
	if u.Window.Updates() {
		if err := c.keepResults(trained, grads); err != nil {
			return err
		}
		if err := c.applyAll(trained, grads, guard, scale); err != nil {
			return err
		}
	}
	c.updateStatistics(guard)
	c.Guard = guard
	return nil
}

// applyAll appends the updates. Unless gradients are kept, it checks each first.
func (c *compiler) applyAll(trained []frontend.Param, grads []kernels.Value, guard, scale kernels.Value) error {
	if c.shards() {
		return c.applyShards(trained, grads, guard, scale)
	}
	for i, p := range trained {
		if !c.cfg.Update.KeepsGradients() {
			guard = c.check(p, i, grads, guard)
		}
		out, err := c.apply(p, p.Value, grads[p.Value], guard, scale)
		if err != nil {
			return err
		}
		c.Needed = append(c.Needed, out...)
	}
	return nil
}

// keepAll keeps the gradients of a step and, if it updates, sums them over the ranks and checks them
// all. It returns the status word after that, and the factor of the update: see scale.
func (c *compiler) keepAll(trained []frontend.Param, grads []kernels.Value, guard kernels.Value) (_, scale kernels.Value, err error) {
	if c.shards() {
		return c.keepShards(trained, grads, guard)
	}
	if c.cfg.Update.homesGradients() {
		if err := c.keepGradients(trained, grads); err != nil {
			return guard, kernels.None, err
		}
	}
	updates := c.cfg.Update.Window.Updates()
	if c.sharesStep() {
		if updates {
			c.sumGradients(trained, grads)
		}
		if guard, err = c.agree(guard); err != nil {
			return guard, kernels.None, err
		}
	}
	if !updates {
		return guard, kernels.None, nil
	}
	for i, p := range trained {
		guard = c.check(p, i, grads, guard)
	}
	if scale, err = c.scale(trained, grads); err != nil {
		return guard, kernels.None, err
	}
	return c.checkNorm(trained, scale, guard), scale, nil
}

// checkVariances appends the check that the variances of the batch are finite, and returns the status
// word after them.
func (c *compiler) checkVariances(guard kernels.Value) kernels.Value {
	for _, s := range c.forward.Statistics {
		if !s.Variance {
			continue
		}
		name := c.Values[s.Home].Name
		c.Label, c.Owner, c.Mark = "check "+name, ir.OwnerOf(name), ""
		a := kernels.CheckFiniteAttrs{Code: ir.FirstVariance + int32(len(c.Variances))}
		guard = c.Apply(kernels.CheckFinite, a, s.Batch, guard)
		c.Variances = append(c.Variances, name)
	}
	return guard
}

// trained returns the parameters to update, in the order in which their gradients are made, and
// records it in the program.
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
	// In this order an update under GuardEach can follow each gradient at once.
	slices.SortStableFunc(ps, func(a, b frontend.Param) int { return made[grads[a.Value]] - made[grads[b.Value]] })
	for _, p := range ps {
		c.Trained = append(c.Trained, p.Name)
	}
	c.recordReady(ps, grads)
	return ps
}

// keepGradients gives each gradient a home, or adds it to the contents of its home, and replaces it
// in grads.
func (c *compiler) keepGradients(ps []frontend.Param, grads []kernels.Value) error {
	for _, p := range ps {
		c.Label, c.Owner = "d"+p.Name, ir.OwnerOf(p.Name)
		v, err := c.keepGradient(c.homeName(p.Name, p.Name), grads[p.Value], c.cfg.Update.Window.adds())
		if err != nil {
			return err
		}
		if !c.cfg.Update.Window.Updates() {
			c.Needed = append(c.Needed, v)
		}
		grads[p.Value] = v
	}
	return nil
}

// keepGradient returns dx at its home in region Gradients; where add is set, the sum of dx and the
// home's contents.
func (c *compiler) keepGradient(name string, dx kernels.Value, add bool) (kernels.Value, error) {
	if !add {
		return c.assignHome(ir.Gradients, c.Owner, name, dx)
	}
	before, err := c.Home(ir.Gradients, c.Owner, name, c.Spec(dx))
	if err != nil {
		return kernels.None, err
	}
	// The sum has the same home: it is written over its operand.
	sum := c.Apply(kernels.Add, nil, before, dx)
	v := &c.Values[sum]
	v.Ref, v.Home = c.Values[before].Ref, true
	return sum, nil
}

// assignHome returns v at a home in region r, with the builder's label: v itself where its
// instruction can write there, else a copy. A gradient may be a reshape of a product, [2, 3, 4] of
// [6, 4]: then the product writes to the home, and v is a view of it.
func (c *compiler) assignHome(r arena.Region, owner, name string, v kernels.Value) (kernels.Value, error) {
	ref, err := c.Homes.Place(r, owner, name, c.Spec(v))
	if err != nil {
		return kernels.None, err
	}
	// dw is often a reshape of a product: let the product write to the home.
	made := v
	if r == ir.Gradients {
		made = c.unreshaped(v)
	}
	if in := c.Maker(made); in != nil {
		in.Label, in.Owner = c.Label, c.Owner
	} else {
		v = c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: c.Spec(v).Shape}, v)
		made = v
	}
	// MachineGraph.SetGrad needs the address now; package schedule sets it again, from the alias.
	c.Values[v].Ref = ref
	val := &c.Values[made]
	val.Name, val.Owner, val.Ref, val.Home = c.Label, c.Owner, ref, true
	return v, nil
}

// unreshaped follows reshapes from v back to their operand.
func (c *compiler) unreshaped(v kernels.Value) kernels.Value {
	for i := len(c.Instrs) - 1; i >= 0; i-- {
		if in := &c.Instrs[i]; in.Op == kernels.Reshape && in.Out[0] == v && !c.Values[v].Home {
			v = in.In[0]
		}
	}
	return v
}

// check appends the check that the gradient of the i-th trained parameter is finite, and returns
// the status word after it.
func (c *compiler) check(p frontend.Param, i int, grads []kernels.Value, guard kernels.Value) kernels.Value {
	c.Label, c.Owner = "check d"+p.Name, ir.OwnerOf(p.Name)
	a := kernels.CheckFiniteAttrs{Code: ir.FirstGradient + int32(i)}
	return c.Apply(kernels.CheckFinite, a, grads[p.Value], guard)
}

// scale appends the factor that the update multiplies all gradients by: that of Update.Factor, times
// limit / norm where the global norm of the gradients exceeds its limit. It is None where there is
// neither a factor nor a limit. If Update.Norm is set, the square of that norm, times the square of
// the factor, becomes a result.
func (c *compiler) scale(ps []frontend.Param, grads []kernels.Value) (factor kernels.Value, err error) {
	u := &c.cfg.Update
	if factor, err = c.factor(); err != nil || u.ClipNorm <= 0 && !u.Norm || len(ps) == 0 {
		return factor, err
	}
	var squares []kernels.Value
	for _, p := range ps {
		c.Label, c.Owner = fmt.Sprintf("norm d%s", p.Name), ir.OwnerOf(p.Name)
		squares = append(squares, c.Apply(kernels.SumSquares, nil, grads[p.Value]))
	}
	if c.shards() {
		c.sumSquares(squares)
	}
	if u.Norm {
		if err := c.globalNorm(squares, factor); err != nil {
			return kernels.None, err
		}
	}
	if u.ClipNorm <= 0 {
		return factor, nil
	}
	in := squares
	if factor != kernels.None {
		in = append([]kernels.Value{factor}, squares...)
	}
	c.Label, c.Owner = "clip norm", "clip"
	return c.Apply(kernels.ClipNorm, kernels.ClipNormAttrs{Max: u.ClipNorm, Scaled: factor != kernels.None}, in...), nil
}

// total adds numbers as ClipNorm adds squares: in order, in their type.
func (c *compiler) total(numbers []kernels.Value) kernels.Value {
	sum := numbers[0]
	for _, n := range numbers[1:] {
		sum = c.Apply(kernels.Add, nil, sum, n)
	}
	return sum
}

// globalNorm makes the sum of squares, times the square of factor unless that is None, a result.
func (c *compiler) globalNorm(squares []kernels.Value, factor kernels.Value) error {
	c.Label, c.Owner, c.Mark = NormName, "results", ""
	sum := c.total(squares)
	switch {
	case factor != kernels.None:
		sum = c.Apply(kernels.Mul, nil, c.Apply(kernels.Mul, nil, sum, factor), factor)
	case len(squares) == 1: // a copy: the sum keeps the parameter's label, which errors name
		sum = c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: kernels.Shape{}}, sum)
	}
	return c.result(NormName, sum)
}

// factor appends the factor of Update.Factor, None where there is none.
func (c *compiler) factor() (kernels.Value, error) {
	u, weighted := &c.cfg.Update, c.weight != kernels.None
	switch {
	case !u.Factor(weighted):
		return kernels.None, nil
	case weighted && u.Sums():
		return c.weightFactor(), nil
	}
	c.Label, c.Owner = "unscale", "loss scale"
	one, err := c.ControlAt(kernels.ControlUnscale)
	if err != nil {
		return kernels.None, err
	}
	return c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: kernels.Shape{}}, one), nil
}

// checkNorm appends the check that the scale of a clipped norm is finite, and returns the status word
// after it. Squares are added in float64, so only those of float64 gradients can overflow.
func (c *compiler) checkNorm(ps []frontend.Param, scale, guard kernels.Value) kernels.Value {
	double := func(p frontend.Param) bool { return c.Spec(p.Value).Type == arena.Float64 }
	if c.cfg.Update.ClipNorm <= 0 || !slices.ContainsFunc(ps, double) {
		return guard
	}
	c.Label, c.Owner = "check norm", "clip"
	return c.Apply(kernels.CheckFinite, kernels.CheckFiniteAttrs{Code: ir.FirstGradient}, scale, guard)
}

// apply appends the update of p, whose value or shard is w, by the gradient dx, times scale unless that
// is None. It returns the results.
func (c *compiler) apply(p frontend.Param, w, dx, guard, scale kernels.Value) ([]kernels.Value, error) {
	rule := c.cfg.Update.RuleFor(p.Name, c.Spec(p.Value))
	controls, err := c.Controls()
	if rule.Controls != "" {
		controls, err = c.ControlsAt(rule.Controls)
	}
	if err != nil {
		return nil, err
	}
	in := []kernels.Value{w, dx, guard, controls}
	if scale != kernels.None {
		in = append(in, scale)
	}
	if rule.States != nil {
		region := ir.State
		if c.cfg.Offload.State {
			region = ir.HostState
		}
		for _, s := range rule.States(c.Spec(w)) {
			v, err := c.Home(region, ir.OwnerOf(p.Name), c.homeName(p.Name, p.Name+"/"+s.Name), s.Spec)
			if err != nil {
				return nil, err
			}
			in = append(in, v)
		}
	}
	c.Label, c.Owner = "update "+p.Name, ir.OwnerOf(p.Name)
	if !slices.Contains(c.rules, rule.Op) {
		c.rules = append(c.rules, rule.Op)
	}
	return slices.Clone(c.ApplyAll(rule.Op, rule.Attrs, in...)), nil
}

// homeName returns the name of a home of gradients or state of a parameter. It names the objective
// where another one trains the parameter too.
func (c *compiler) homeName(param, name string) string {
	if own := c.cfg.Update.Own; own != nil && own(param) {
		return ofObjective(name, c.cfg.Objective)
	}
	return name
}

// updateStatistics appends the update of the running statistics. An update changes nothing once the
// status word is set.
func (c *compiler) updateStatistics(guard kernels.Value) {
	// A layer that is applied twice in a step updates its statistics twice, one after the other.
	now := make(map[kernels.Value]kernels.Value) // by home: its contents after the updates so far
	for _, s := range c.forward.Statistics {
		at := s.Home
		if v, ok := now[s.Home]; ok {
			at = v
		}
		name := c.Values[s.Home].Name
		c.Label, c.Owner, c.Mark = "update "+name, ir.OwnerOf(name), ""
		now[s.Home] = c.Apply(kernels.RunningStat, s.Attrs, at, s.Mean, guard)
		c.Needed = append(c.Needed, now[s.Home])
	}
}
