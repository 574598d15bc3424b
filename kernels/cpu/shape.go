package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/transpose"
)

// Ops that only move elements: reshape, broadcast, slice, concat, transpose. They work on words of
// the element's size, whatever its type. Threads split the output by elements. Transposes of 4 and
// 8 bytes use internal/asm/transpose.

// Sizes of pieces.
const (
	moveGrain = 32 * 1024 // elements of a piece
	block     = 32        // rows that a transpose writes at once
	bandLen   = 1024      // columns that it writes at once: a multiple of the side of every square
)

// byWord calls the binder for the size of an element of output 0.
func byWord(b *binding, f8 func(*binding) func(), f32 func(*binding) func(), f64 func(*binding) func()) (func(), error) {
	if b.Out[0].Shape.Elems() == 0 {
		return nil, nil
	}
	switch b.Out[0].Type.Size() {
	case 1:
		return f8(b), nil
	case 4:
		return f32(b), nil
	case 8:
		return f64(b), nil
	}
	return nil, fmt.Errorf("%s of %v: %w", b.Op.Name, b.Out[0].Spec, kernels.ErrUnsupported)
}

// bindCopy copies the bytes of input 0 from offset on, unless output 0 is the same memory.
func bindCopy(b *binding, offset int64) (func(), error) {
	to := b.bytes(b.Out[0])
	from := b.bytes(b.In[0])[offset:]
	from = from[:len(to)]
	if len(to) == 0 || same(to, from) {
		return nil, nil
	}
	return b.parallelFor(len(to), 4*moveGrain, func(lo, hi, _ int) { copy(to[lo:hi], from[lo:hi]) }), nil
}

// bindReshape prepares a copy of input 0, or nothing where the output is the same memory.
func bindReshape(b *binding) (func(), error) { return bindCopy(b, 0) }

// bindBroadcast prepares a broadcast of input 0 to the output's shape.
func bindBroadcast(b *binding) (func(), error) {
	return byWord(b, bindBroadcastOf[uint8], bindBroadcastOf[uint32], bindBroadcastOf[uint64])
}

// bindBroadcastOf prepares it for one size of element.
func bindBroadcastOf[T asm.Word](b *binding) func() {
	w := broadcastIndex(b.In[0].Shape, b.Out[0].Shape)
	return bindStridedCopy(b, in[T](b, 0), w)
}

// bindStridedCopy fills output 0 with the elements of x that w selects.
func bindStridedCopy[T asm.Word](b *binding, x []T, w stridedIndex) func() {
	y, fill := out[T](b, 0), fillFunc[T](b.dev.level)
	return b.parallelFor(len(y), moveGrain, func(lo, hi, _ int) { gather(y[lo:hi], x, &w, lo, fill) })
}

// bindSlice prepares a slice with steps. A contiguous slice is a copy.
func bindSlice(b *binding) (func(), error) {
	if offset, ok := kernels.Slice.View(b.Attrs, kernels.Specs(b.In)); ok {
		return bindCopy(b, offset)
	}
	return byWord(b, bindSliceOf[uint8], bindSliceOf[uint32], bindSliceOf[uint64])
}

// bindSliceOf prepares it for one size of element.
func bindSliceOf[T asm.Word](b *binding) func() {
	a := b.Attrs.(kernels.SliceAttrs)
	first, w := sliceIndex(b.In[0].Shape, b.Out[0].Shape, a.Start, a.Step)
	return bindStridedCopy(b, in[T](b, 0)[first:], w)
}

// sliceIndex returns the first element of a slice in the whole tensor, and the index of its
// elements from there.
func sliceIndex(whole, slice kernels.Shape, start, step []int) (first int, w stridedIndex) {
	strides := rowMajor(whole)
	for k, d := range slice {
		first += start[k] * strides[k]
		w.addDim(d, step[k]*strides[k])
	}
	return first, w
}

// bindUnslice prepares the gradient of a slice: zeros, with the input at the slice's elements.
func bindUnslice(b *binding) (func(), error) {
	return byWord(b, bindUnsliceOf[uint8], bindUnsliceOf[uint32], bindUnsliceOf[uint64])
}

// bindUnsliceOf prepares it for one size of element.
func bindUnsliceOf[T asm.Word](b *binding) func() {
	a := b.Attrs.(kernels.UnsliceAttrs)
	x, y := in[T](b, 0), out[T](b, 0)
	zero := b.parallelFor(len(y), 4*moveGrain, func(lo, hi, _ int) { clear(y[lo:hi]) })
	if len(x) == 0 {
		return zero
	}
	first, w := sliceIndex(a.Shape, b.In[0].Shape, a.Start, a.Step)
	place := b.parallelFor(len(x), moveGrain, func(lo, hi, _ int) { scatter(y[first:], x[lo:hi], &w, lo) })
	return func() {
		zero()
		place()
	}
}

// scatter copies src, elements from lo on, to the elements of dst that w selects.
func scatter[T asm.Word](dst, src []T, w *stridedIndex, lo int) {
	if w.rank == 0 {
		copy(dst, src)
		return
	}
	last := w.rank - 1
	inner, step := w.dims[last], w.stride[last]
	for len(src) > 0 {
		n := min(inner-lo%inner, len(src))
		at := w.offset(lo)
		if step == 1 {
			copy(dst[at:at+n], src)
		} else {
			for i, v := range src[:n] {
				dst[at+i*step] = v
			}
		}
		src, lo = src[n:], lo+n
	}
}

// bindConcat prepares a concatenation along an axis: each output row is the rows of the inputs, one
// after another.
func bindConcat(b *binding) (func(), error) {
	axis := b.Attrs.(kernels.ConcatAttrs).Axis
	to := b.bytes(b.Out[0])
	outer := b.Out[0].Shape[:axis].Elems()
	if len(to) == 0 {
		return nil, nil
	}
	// An output row is the elements from the axis on, for one index of the dimensions before it.
	row := len(to) / outer
	var parts [][]byte
	for _, o := range b.In {
		parts = append(parts, b.bytes(o))
	}
	return b.parallelFor(outer, 4*moveGrain/row, func(lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			at := to[i*row : (i+1)*row]
			for _, p := range parts {
				n := len(p) / outer
				at = at[copy(at, p[i*n:(i+1)*n]):]
			}
		}
	}), nil
}

// bindTranspose prepares a permutation of dimensions.
func bindTranspose(b *binding) (func(), error) {
	return byWord(b, bindTransposeOf[uint8], bindTransposeOf[uint32], bindTransposeOf[uint64])
}

// bindTransposeOf prepares it for one size of element: by bands where it moves the last dimension,
// otherwise as a strided copy.
func bindTransposeOf[T asm.Word](b *binding) func() {
	strides := rowMajor(b.In[0].Shape)
	var w stridedIndex
	for k, p := range b.Attrs.(kernels.TransposeAttrs).Perm {
		w.addDim(b.Out[0].Shape[k], strides[p])
	}
	x, y := in[T](b, 0), out[T](b, 0)
	if w.rank < 2 || w.stride[w.rank-1] == 1 {
		return bindStridedCopy(b, x, w)
	}
	return bindTransposeBands(b, y, x, w)
}

// bindTransposeBands transposes bands of rows of matrices: their columns are the output's last
// dimension, their rows the dimension that is contiguous in the input.
func bindTransposeBands[T asm.Word](b *binding, y, x []T, w stridedIndex) func() {
	last := w.rank - 1
	row := 0 // the output's dimension that is contiguous in x
	var from, to stridedIndex
	outStride := len(y)
	var rowStride int
	// The other dimensions select a matrix; from and to are its first elements in x and y.
	for k := range last {
		outStride /= w.dims[k]
		if w.stride[k] == 1 {
			row, rowStride = k, outStride
			continue
		}
		from.dims[from.rank], from.stride[from.rank] = w.dims[k], w.stride[k]
		to.dims[to.rank], to.stride[to.rank] = w.dims[k], outStride
		from.rank++
		to.rank++
	}
	rows, cols, step := w.dims[row], w.dims[last], w.stride[last]
	bands := ceilDiv(rows, block)
	squares, side := transpose.At[T](b.dev.level)
	return b.parallelFor(from.elems()*bands, moveGrain/(block*cols), func(lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			r := i % bands * block
			src, dst := x[from.offset(i/bands)+r:], y[to.offset(i/bands)+r*rowStride:]
			n := min(block, rows-r)
			// Whole squares by assembly, the edges in Go.
			if squares == nil || n < side || cols < side {
				transpose.Portable(dst, src, n, cols, rowStride, step)
				continue
			}
			h, w := n&^(side-1), cols&^(side-1)
			for c := 0; c < w; c += bandLen {
				squares(dst[c:], src[c*step:], h, min(bandLen, w-c), rowStride, step)
			}
			if h < n {
				transpose.Portable(dst[h*rowStride:], src[h:], n-h, w, rowStride, step)
			}
			if w < cols {
				transpose.Portable(dst[w:], src[w*step:], n, cols-w, rowStride, step)
			}
		}
	})
}
