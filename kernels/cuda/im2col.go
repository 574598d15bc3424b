package cuda

import "github.com/evenkeel/evenkeel/kernels"

// bindIm2Col uses a thread for each element of the rows.
func bindIm2Col(b *binding) error {
	return b.launchPatches("im2col", b.Attrs.(kernels.Im2ColAttrs), b.In[0].Shape, b.Out[0].Shape)
}

// bindCol2Im uses a thread for each pixel of the image.
func bindCol2Im(b *binding) error {
	return b.launchPatches("col2im", b.Attrs.(kernels.Col2ImAttrs).Im2ColAttrs, b.Out[0].Shape, b.In[0].Shape)
}

// launchPatches launches either, for images x and rows y.
func (b *binding) launchPatches(name string, a kernels.Im2ColAttrs, x, y kernels.Shape) error {
	n := b.Out[0].Shape.Elems()
	if n == 0 {
		return nil
	}
	args := []any{b.in(0), b.out(0), int64(n)}
	var reach [2]int // beyond the last pixel that a window can cover
	for i := range reach {
		reach[i] = x[2+i] + 2*a.Pad[i] + y[1+i]*a.Stride[i] + a.Kernel[i]*a.Dilation[i]
	}
	if err := fits(x[2]*x[3], y[3], reach[0], reach[1]); err != nil {
		return err
	}
	for _, v := range []int{x[1], x[2], x[3], y[1], y[2], a.Kernel[0], a.Kernel[1], a.Stride[0], a.Stride[1], a.Dilation[0], a.Dilation[1],
		a.Pad[0], a.Pad[1]} {
		args = append(args, int32(v))
	}
	b.launch("im2col", name+"_"+suffix(b.Out[0].Type), strided(b.props, int64(n), blockThreads), line(blockThreads), 0, args...)
	return nil
}
