package cuda

import "github.com/evenkeel/evenkeel/kernels"

// rowThreads is the number of threads of a block for n neighbouring elements: a multiple of a warp.
func rowThreads(n int) int { return max(32, min((n+31)/32*32, blockThreads)) }

// rowBlocks is the number of blocks for a number of rows, over which they loop.
func rowBlocks(rows int) int { return min(rows, 1<<20) }

func bindSoftmax(b *binding) error {
	names := map[*kernels.Op]string{
		kernels.Softmax: "softmax", kernels.LogSoftmax: "logSoftmax",
		kernels.SoftmaxGrad: "softmaxGrad", kernels.LogSoftmaxGrad: "logSoftmaxGrad",
	}
	x := b.In[0]
	axis := b.Attrs.(kernels.SoftmaxAttrs).Axis
	n, step := x.Shape[axis], x.Shape[axis+1:].Elems()
	if x.Shape.Elems() == 0 {
		return nil
	}
	lines := x.Shape.Elems() / n
	args := []any{b.in(0), b.in(len(b.In) - 1), b.out(0), int64(n), int64(step), int64(lines)}
	if step == 1 {
		b.launch("softmax", names[b.Op]+"_row"+"_"+suffix(x.Type), line(rowBlocks(lines)), line(rowThreads(n)), 0, args...)
		return nil
	}
	b.launch("softmax", names[b.Op]+"_line"+"_"+suffix(x.Type), strided(b.props, int64(lines), blockThreads),
		line(blockThreads), 0, args...)
	return nil
}

func bindCrossEntropy(b *binding) error {
	names := map[*kernels.Op]string{
		kernels.CrossEntropy: "loss", kernels.CrossEntropyGrad: "lossGrad",
		kernels.CrossEntropyDense: "denseLoss", kernels.CrossEntropyDenseGrad: "denseLossGrad",
		kernels.Correct: "correct", kernels.CorrectDense: "denseCorrect",
	}
	rows, n := b.In[0].Shape[0], b.In[0].Shape[1]
	args := []any{b.in(0), b.in(1)}
	if !b.In[1].Type.Float() {
		args = append(args, numberType(b.In[1].Type))
	}
	if len(b.In) == 3 {
		args = append(args, b.in(2))
	}
	args = append(args, b.out(0), int64(rows), int64(n))
	b.launch("crossentropy", names[b.Op]+"_"+suffix(b.In[0].Type), line(rowBlocks(rows)), line(rowThreads(n)), 0, args...)
	return nil
}
