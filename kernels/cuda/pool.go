package cuda

import "github.com/evenkeel/evenkeel/kernels"

// bindPool prepares pooling and its gradients: a thread computes an element of output 0.
func bindPool(b *binding) error {
	var a kernels.PoolAttrs
	x, y := b.In[0].Shape, b.Out[0].Shape // the image, and the result of its windows
	name, args := "avgPool", []any{b.in(0), b.out(0)}
	switch b.Op {
	case kernels.MaxPool:
		name, args = "maxPool_"+width(b.Out[1].Type), append(args, b.out(1))
	case kernels.MaxPoolGrad:
		name, args = "maxPoolGrad_"+width(b.In[0].Type), []any{b.in(0), b.in(1), b.out(0)}
	case kernels.AvgPoolGrad:
		name = "avgPoolGrad"
	}
	switch attrs := b.Attrs.(type) {
	case kernels.PoolAttrs:
		a = attrs
	case kernels.PoolGradAttrs:
		a, x, y = attrs.PoolAttrs, y, x
	}
	counted := int32(0)
	if a.CountPad {
		counted = 1
	}
	n := b.Out[0].Shape.Elems()
	args = append(args, int64(n), int32(x[2]), int32(x[3]), int32(y[2]), int32(y[3]), int32(a.Kernel[0]), int32(a.Kernel[1]),
		int32(a.Stride[0]), int32(a.Stride[1]), int32(a.Pad[0]), int32(a.Pad[1]), counted)
	b.launch("pool", name+"_"+suffix(b.Out[0].Type), strided(b.props, int64(n), blockThreads), line(blockThreads), 0,
		args...)
	return nil
}
