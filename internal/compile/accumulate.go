package compile

import (
	"slices"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// portion appends what the gradient of the loss starts with where steps share an update, or the loss is scaled: the step's share of the window's
// samples times the scale, as the host says.
func (c *compiler) portion(loss kernels.Spec) (kernels.Value, error) {
	share, err := c.ControlAt(kernels.ControlShare)
	if err != nil {
		return kernels.None, err
	}
	share = c.Apply(kernels.Decode, kernels.DecodeAttrs{To: loss.Type, Scale: 1}, share)
	return c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: loss.Shape}, share), nil
}

// accumulate adds dx to what lies at the gradient's home, and returns the sum.
func (c *compiler) accumulate(name string, dx kernels.Value) (kernels.Value, error) {
	before, err := c.Home(ir.Gradients, c.Owner, name, c.Spec(dx))
	if err != nil {
		return kernels.None, err
	}
	sum := c.Apply(kernels.Add, nil, before, dx)
	v := &c.Values[sum]
	v.Ref, v.Home = c.Values[before].Ref, true
	return sum, nil
}

// sums makes products of the backward pass where they are added to a gradient, so that there is no second place of the gradient's size: to what
// lies in the gradient's home, or to what other readers of the same weight contribute.
//
//	dw = aᵀ·dz │ sum = before + dw        becomes        sum = before + aᵀ·dz
func (c *compiler) sums() {
	u := c.uses()
	gone := make([]bool, len(c.Instrs))
	for i := range c.Instrs {
		add := &c.Instrs[i]
		if add.Op != kernels.Add || !add.Back {
			continue
		}
		k, ok := c.addend(u, add)
		if !ok {
			continue
		}
		at, before := u.maker[add.In[k]], add.In[1-k]
		product := c.Instrs[at]
		a := product.Attrs.(kernels.MatMulAttrs)
		a.Add = true
		product.Attrs, product.In = a, append(slices.Clone(product.In), before)
		product.Out, product.Label, product.Owner = add.Out, add.Label, add.Owner
		if u.maker[before] < at {
			gone[i] = true // it stays where the product was
		} else {
			at, gone[at] = int32(i), true
		}
		c.Instrs[at] = product
		u.maker[product.Out[0]] = at
	}
	c.drop(gone)
}

// addend returns which operand of an addition is a product that is only added there: of two the later one.
func (c *compiler) addend(u uses, add *ir.Instr) (k int, ok bool) {
	last := int32(-1)
	for i, v := range add.In {
		if !c.private(u, v) || v == add.In[1-i] || !c.Spec(add.In[1-i]).Equal(c.Spec(v)) {
			continue
		}
		at := u.maker[v]
		product := &c.Instrs[at]
		a, is := product.Attrs.(kernels.MatMulAttrs)
		if is && product.Op == kernels.MatMul && !a.Bias && !a.Add && a.Act == nil && at > last {
			k, ok, last = i, true, at
		}
	}
	return k, ok
}
