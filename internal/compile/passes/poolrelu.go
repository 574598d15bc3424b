package passes

import (
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// PoolReLUGrad computes the gradient of a ReLU before max pooling on the pooled result, which is
// smaller. The ReLU's own result then need not stay live until the backward pass.
//
//	p, index = maxPool y                          p, index = maxPool y
//	dy = maxPoolGrad index dp              ──►    dq = reluGrad p dp
//	dx = reluGrad y dy                            dx = maxPoolGrad index dq
//
// The bits are the same. At each maximum y = p, so old and new code pass the same gradients and add
// them in the same order; elsewhere both give +0, also for NaN, which is not above 0. A leaky ReLU
// would round a sum of overlapping windows differently, so with it pooling windows must not overlap.
func PoolReLUGrad(p *ir.Program) {
	u := usesOf(p)
	for i := range p.Instrs {
		relu := &p.Instrs[i]
		if relu.Op != kernels.ReLUGrad && relu.Op != kernels.LeakyReLUGrad || !u.private(relu.In[1]) {
			continue
		}
		unpool := &p.Instrs[u.maker[relu.In[1]]]
		if unpool.Op != kernels.MaxPoolGrad || u.maker[unpool.In[0]] < 0 {
			continue
		}
		pool := &p.Instrs[u.maker[unpool.In[0]]]
		if a := unpool.Attrs.(kernels.PoolGradAttrs); pool.Op != kernels.MaxPool || pool.In[0] != relu.In[0] ||
			relu.Op == kernels.LeakyReLUGrad && (a.Stride[0] < a.Kernel[0] || a.Stride[1] < a.Kernel[1]) {
			continue
		}
		// The two instructions swap positions: the ReLU's gradient now comes first, and v, its
		// result, has the pooled shape.
		pooled := &p.Values[unpool.In[1]]
		v := p.Add(ir.Value{Name: relu.Label, Owner: pooled.Owner, Spec: pooled.Spec, Of: kernels.None})
		first, second := *relu, *unpool
		first.In, first.Out = []kernels.Value{pool.Out[0], unpool.In[1]}, []kernels.Value{v}
		second.In, second.Out = []kernels.Value{unpool.In[0], v}, relu.Out
		*unpool, *relu = first, second
	}
}
