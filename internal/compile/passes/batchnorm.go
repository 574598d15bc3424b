package passes

import (
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// FuseBatchNormReLU makes a ReLU part of the batch normalization before it. The gradient of the
// normalization then recomputes, with the arithmetic of the forward pass, which elements the ReLU
// passed, and the ReLU's result need not stay live for its own gradient.
//
//	y, mean, variance = batchNorm x γ β                z, mean, variance = batchNorm{ReLU} x γ β
//	z = relu y                                 ──►     …
//	…                                                  dx = batchNormGrad{ReLU} x γ β mean variance dz
//	dy = reluGrad z dz
//	dx = batchNormGrad x γ β mean variance dy
//
// It applies where nothing else reads y or dy. The bits are the same.
func FuseBatchNormReLU(p *ir.Program) {
	u := usesOf(p)
	gone := make([]bool, len(p.Instrs))
	fused := make(map[kernels.Value]bool) // results of normalizations with a ReLU
	for i := range p.Instrs {
		in := &p.Instrs[i]
		a, ok := in.Attrs.(kernels.BatchNormAttrs)
		if !ok || a.ReLU || in.Op != kernels.BatchNorm {
			continue
		}
		j := u.next(in.Out[0])
		if j < 0 || p.Instrs[j].Op != kernels.ReLU {
			continue
		}
		a.ReLU = true
		in.Attrs, in.Label, gone[j] = a, p.Instrs[j].Label, true
		in.Out[0] = p.Instrs[j].Out[0]
		fused[in.Out[0]] = true
	}
	for i := range p.Instrs {
		in := &p.Instrs[i] // of BatchNormGrad, operands: 0 x, 1 γ, 2 β, 3 mean, 4 variance, 5 dy
		if in.Op != kernels.BatchNormGrad || !u.private(in.In[5]) {
			continue
		}
		a, relu := in.Attrs.(kernels.BatchNormAttrs), &p.Instrs[u.maker[in.In[5]]]
		if a.ReLU || relu.Op != kernels.ReLUGrad || !fused[relu.In[0]] || !u.sameNorm(relu.In[0], in.In[3]) {
			continue
		}
		a.ReLU = true
		gone[u.maker[in.In[5]]] = true
		in.Attrs, in.In[5] = a, relu.In[1]
	}
	remove(p, gone)
}

// sameNorm reports whether y and mean are results of one batch normalization.
func (u uses) sameNorm(y, mean kernels.Value) bool {
	norm := u.maker[mean]
	return norm >= 0 && u.p.Instrs[norm].Out[0] == y
}
