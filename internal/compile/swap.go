package compile

import "github.com/evenkeel/evenkeel/kernels"

// swap takes the gradient of a rectifier before max pooling at the pooled result, of which there is less, in place of the whole one,
// which then need not live until the backward pass:
//
//	reluGrad(y, maxPoolGrad(index, dp)) → maxPoolGrad(index, reluGrad(p, dp))    p, index = maxPool(y)
//
// The bits are the same. Where a window's gradient goes, y is p: both sides let the same gradients through, added up in the same order;
// elsewhere both are +0, also for NaN, which is not above 0. A leaky rectifier multiplies: there windows must not overlap.
func (c *compiler) swap() {
	u := c.uses()
	for i := range c.Instrs {
		rect := &c.Instrs[i]
		if rect.Op != kernels.ReluGrad && rect.Op != kernels.LeakyReluGrad || !c.private(u, rect.In[1]) {
			continue
		}
		back := &c.Instrs[u.maker[rect.In[1]]]
		if back.Op != kernels.MaxPoolGrad || u.maker[back.In[0]] < 0 {
			continue
		}
		pool := &c.Instrs[u.maker[back.In[0]]]
		if a := back.Attrs.(kernels.PoolGradAttrs); pool.Op != kernels.MaxPool || pool.In[0] != rect.In[0] ||
			rect.Op == kernels.LeakyReluGrad && (a.Stride[0] < a.Kernel[0] || a.Stride[1] < a.Kernel[1]) {
			continue
		}
		// The rectifier's gradient goes where that of pooling was, and makes a value of the pooled shape.
		between := c.Values[back.In[1]]
		between.Name, between.Home, between.Of = rect.Label, false, kernels.None
		v := c.Add(between)
		first, last := *rect, *back
		first.In, first.Out = []kernels.Value{pool.Out[0], back.In[1]}, []kernels.Value{v}
		last.In, last.Out = []kernels.Value{back.In[0], v}, rect.Out
		*back, *rect = first, last
	}
}
