package compile

import (
	"slices"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// portion appends what the gradient of the loss starts with where steps share an update: the step's share of the window's samples, as
// the host says.
func (c *compiler) portion(loss kernels.Spec) (kernels.Value, error) {
	controls, err := c.controls()
	if err != nil {
		return kernels.None, err
	}
	at := kernels.SliceAttrs{Start: []int{kernels.ControlShare}, End: []int{kernels.ControlShare + 1}, Step: []int{1}}
	share := c.Apply(kernels.Decode, kernels.DecodeAttrs{To: loss.Type, Scale: 1}, c.Apply(kernels.Slice, at, controls))
	return c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: loss.Shape}, share), nil
}

// accumulate adds dx to what lies at the gradient's home, and returns the sum.
func (c *compiler) accumulate(name string, dx kernels.Value) (kernels.Value, error) {
	before, err := c.home(ir.Gradients, c.owner, name, c.Spec(dx))
	if err != nil {
		return kernels.None, err
	}
	sum := c.Apply(kernels.Add, nil, before, dx)
	v := &c.Values[sum]
	v.Ref, v.Home = c.Values[before].Ref, true
	return sum, nil
}

// sums makes products where they are added to a gradient, so that there is no second place of the gradient's size.
//
//	dw = aᵀ·dz │ sum = before + dw        becomes        sum = before + aᵀ·dz
func (c *compiler) sums() {
	u := c.uses()
	gone := make([]bool, len(c.Instrs))
	for i := range c.Instrs {
		add := &c.Instrs[i]
		if add.Op != kernels.Add || !c.Values[add.Out[0]].Home || !c.Values[add.In[0]].Home || c.Values[add.In[0]].Ref != c.Values[add.Out[0]].Ref ||
			c.Values[add.In[0]].Ref.Region != ir.Gradients || !c.private(u, add.In[1]) {
			continue
		}
		product := &c.Instrs[u.maker[add.In[1]]]
		a, ok := product.Attrs.(kernels.MatMulAttrs)
		if !ok || product.Op != kernels.MatMul || a.Bias || a.Act != nil || !c.Spec(add.In[0]).Equal(c.Spec(product.Out[0])) {
			continue
		}
		a.Add = true
		product.Attrs, product.In = a, append(slices.Clone(product.In), add.In[0])
		product.Out, product.Label, product.Owner = add.Out, add.Label, add.Owner
		gone[i] = true
	}
	c.drop(gone)
}
