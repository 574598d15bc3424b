package compile

import "github.com/evenkeel/evenkeel/kernels"

// rectify moves a rectifier into the batch normalization that it follows, and its gradient into that of the normalization, which
// computes by the very arithmetic of the forward pass what the rectifier let through:
//
//	relu(batchNorm(x)) → batchNorm{Relu}(x)    batchNormGrad(x, reluGrad(y, dy)) → batchNormGrad{Relu}(x, dy)
func (c *compiler) rectify() {
	u := c.uses()
	gone := make([]bool, len(c.Instrs))
	made := make(map[kernels.Value]bool) // results of normalizations with a rectifier
	for i := range c.Instrs {
		in := &c.Instrs[i]
		a, ok := in.Attrs.(kernels.BatchNormAttrs)
		if !ok || a.Relu || in.Op != kernels.BatchNorm {
			continue
		}
		j := c.next(u, in.Out[0])
		if j < 0 || c.Instrs[j].Op != kernels.Relu {
			continue
		}
		a.Relu = true
		in.Attrs, in.Label, gone[j] = a, c.Instrs[j].Label, true
		in.Out[0] = c.Instrs[j].Out[0]
		made[in.Out[0]] = true
	}
	for i := range c.Instrs {
		in := &c.Instrs[i]
		if in.Op != kernels.BatchNormGrad || !c.private(u, in.In[5]) {
			continue
		}
		a, rect := in.Attrs.(kernels.BatchNormAttrs), &c.Instrs[u.maker[in.In[5]]]
		if a.Relu || rect.Op != kernels.ReluGrad || !made[rect.In[0]] || !c.normalizes(u, rect.In[0], in.In[3]) {
			continue
		}
		a.Relu = true
		gone[u.maker[in.In[5]]] = true
		in.Attrs, in.In[5] = a, rect.In[1]
	}
	c.drop(gone)
}

// normalizes reports whether y and mean are results of one batch normalization.
func (c *compiler) normalizes(u uses, y, mean kernels.Value) bool {
	norm := u.maker[mean]
	return norm >= 0 && c.Instrs[norm].Out[0] == y
}
