package cuda

import "github.com/evenkeel/evenkeel/kernels"

// Operations on lines of n elements along an axis, which are step apart.

// bindCumSum uses a warp for each line where its elements are neighbours, else a thread.
func bindCumSum(b *binding) error {
	a, x := b.Attrs.(kernels.CumSumAttrs), b.In[0]
	if x.Shape.Elems() == 0 {
		return nil
	}
	n, step := x.Shape[a.Axis], x.Shape[a.Axis+1:].Elems()
	lines := int64(x.Shape.Elems() / n)
	reverse := int32(0)
	if a.Reverse {
		reverse = 1
	}
	if step == 1 {
		b.launch("cumsum", "cumsum_row_"+suffix(x.Type), strided(b.props, 32*lines, blockThreads), line(blockThreads), 0,
			b.in(0), b.out(0), int64(n), lines, reverse)
		return nil
	}
	b.launch("cumsum", "cumsum_line_"+suffix(x.Type), strided(b.props, lines, blockThreads), line(blockThreads), 0,
		b.in(0), b.out(0), int64(n), int64(step), lines, reverse)
	return nil
}

// bindTopK uses a block for each line.
func bindTopK(b *binding) error {
	a, x := b.Attrs.(kernels.TopKAttrs), b.In[0]
	if x.Shape.Elems() == 0 {
		return nil
	}
	n, step := x.Shape[a.Axis], x.Shape[a.Axis+1:].Elems()
	lines := x.Shape.Elems() / n
	b.launch("topk", "topk_"+suffix(x.Type), line(rowBlocks(lines)), line(rowThreads(n)), 0,
		b.in(0), b.out(0), b.out(1), int64(n), int64(step), int64(a.K), int64(lines))
	return nil
}

// bindTopKGrad clears the result, and uses a thread for each element of dy.
func bindTopKGrad(b *binding) error {
	a, dy := b.Attrs.(kernels.TopKGradAttrs), b.In[1]
	b.fill(b.out(0), 0, b.Out[0].Bytes())
	count := int64(dy.Shape.Elems())
	if count == 0 {
		return nil
	}
	b.launch("topk", "topkGrad_"+suffix(dy.Type), strided(b.props, count, blockThreads), line(blockThreads), 0,
		b.in(0), b.in(1), b.out(0), int64(a.N), int64(dy.Shape[a.Axis+1:].Elems()), int64(dy.Shape[a.Axis]), count)
	return nil
}
