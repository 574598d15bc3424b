package cuda

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// Operations that move elements are passes without steps, over operands with their own strides.

// move appends y = x, element by element over dims.
func (b *binding) move(dims kernels.Shape, x operand, from address, y operand, to address) {
	if dims.Elems() > 0 {
		b.launchEach(each{dims: dims, x: []operand{x}, y: y, move: true}, []address{from}, to)
	}
}

// contiguous is an operand with the strides of its own shape.
func contiguous(s kernels.Spec) operand { return operand{s.Type, 0, rowMajor(s.Shape)} }

func bindBroadcast(b *binding) error {
	x, y := b.In[0], b.Out[0]
	b.move(y.Shape, operand{x.Type, 0, spread(x.Shape, y.Shape)}, b.in(0), contiguous(y.Spec), b.out(0))
	return nil
}

func bindTranspose(b *binding) error {
	x, y := contiguous(b.In[0].Spec), b.Out[0]
	st := make([]int, len(x.strides))
	for i, p := range b.Attrs.(kernels.TransposeAttrs).Perm {
		st[i] = x.strides[p]
	}
	b.move(y.Shape, operand{y.Type, 0, st}, b.in(0), contiguous(y.Spec), b.out(0))
	return nil
}

// cut returns the operand of a range of a tensor of shape s, from indices start on in steps of
// step.
func cut(t arena.DType, s kernels.Shape, start, step []int) operand {
	o := operand{t, 0, rowMajor(s)}
	for i := range o.strides {
		o.start += start[i] * o.strides[i]
		o.strides[i] *= step[i]
	}
	return o
}

func bindSlice(b *binding) error {
	a, x, y := b.Attrs.(kernels.SliceAttrs), b.In[0], b.Out[0]
	if offset, ok := kernels.Slice.View(a, kernels.Specs(b.In)); ok {
		b.copy(b.out(0), b.in(0)+address(offset), y.Bytes())
		return nil
	}
	b.move(y.Shape, cut(x.Type, x.Shape, a.Start, a.Step), b.in(0), contiguous(y.Spec), b.out(0))
	return nil
}

func bindUnslice(b *binding) error {
	a, x, y := b.Attrs.(kernels.UnsliceAttrs), b.In[0], b.Out[0]
	b.fill(b.out(0), 0, y.Bytes())
	b.move(x.Shape, contiguous(x.Spec), b.in(0), cut(y.Type, y.Shape, a.Start, a.Step), b.out(0))
	return nil
}

func bindConcat(b *binding) error {
	axis, y := b.Attrs.(kernels.ConcatAttrs).Axis, contiguous(b.Out[0].Spec)
	for k, x := range b.In {
		b.move(x.Shape, contiguous(x.Spec), b.in(k), operand{y.t, y.start, y.strides}, b.out(0))
		y.start += x.Shape[axis] * y.strides[axis]
	}
	return nil
}

// bindFill sets bytes if all bytes of the value are equal, and elements otherwise.
func bindFill(b *binding) error {
	value, y := b.Attrs.(kernels.FillAttrs).Value, b.Out[0]
	image := make([]byte, y.Type.Size())
	kernels.Store(image, y.Type, []float64{value})
	same := true
	for _, v := range image {
		same = same && v == image[0]
	}
	if same {
		b.fill(b.out(0), image[0], y.Bytes())
		return nil
	}
	var element uint64
	for i, v := range image {
		element |= uint64(v) << (8 * i)
	}
	n := y.Shape.Elems()
	b.launch("index", "fill_"+width(y.Type), strided(b.props, int64(n), blockThreads), line(blockThreads), 0,
		b.out(0), element, int64(n))
	return nil
}

// width is the part of a kernel's name for the size of elements.
func width(t arena.DType) string {
	switch t.Size() {
	case 1:
		return "8"
	case 4:
		return "32"
	}
	return "64"
}
