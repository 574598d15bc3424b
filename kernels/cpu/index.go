package cpu

import (
	"math"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/elementwise"
)

// A stridedIndex maps the elements of an output to elements of an operand. Neighbouring dimensions
// are merged where one stride covers both: x [4, 5] broadcast to [3, 4, 5] has dims (3, 20) and
// strides (0, 1). Strides are in elements, 0 where the operand is broadcast.
type stridedIndex struct {
	rank   int
	dims   [maxRank]int // of the output, row-major
	stride [maxRank]int // of the operand
}

// addDim appends a dimension on the right.
func (w *stridedIndex) addDim(dim, stride int) {
	if dim == 1 {
		return
	}
	// The new dimension continues the last one: one stride covers both.
	if k := w.rank - 1; k >= 0 && w.stride[k] == dim*stride {
		w.dims[k] *= dim
		w.stride[k] = stride
		return
	}
	w.dims[w.rank], w.stride[w.rank] = dim, stride
	w.rank++
}

// broadcastIndex returns the index of an operand of shape s that is broadcast to shape out.
func broadcastIndex(s, out kernels.Shape) stridedIndex {
	var w stridedIndex
	skip := len(out) - len(s)
	strides := rowMajor(s)
	for k, d := range out {
		switch {
		case k < skip || s[k-skip] == 1:
			w.addDim(d, 0)
		default:
			w.addDim(d, strides[k-skip])
		}
	}
	return w
}

// rowMajor returns the strides of a contiguous tensor in elements.
func rowMajor(s kernels.Shape) [maxRank]int {
	var strides [maxRank]int
	n := 1
	for k := len(s) - 1; k >= 0; k-- {
		strides[k] = n
		n *= s[k]
	}
	return strides
}

// contiguous reports whether output element i is operand element i.
func (w *stridedIndex) contiguous() bool { return w.rank == 0 || w.rank == 1 && w.stride[0] == 1 }

// elems returns the number of elements of the output.
func (w *stridedIndex) elems() int {
	n := 1
	for _, d := range w.dims[:w.rank] {
		n *= d
	}
	return n
}

// gather sets dst to the operand's elements for the output's elements from lo on. fill sets a run
// along a broadcast last dimension.
func gather[T asm.Word | float](dst, src []T, w *stridedIndex, lo int, fill func(dst []T, v T)) {
	if w.rank == 0 {
		copy(dst, src)
		return
	}
	last := w.rank - 1
	inner, step := w.dims[last], w.stride[last]
	var at [maxRank]int
	pos := 0
	// at is the position of element lo in each dimension, pos its element in src.
	for k, i := last, lo; k >= 0; k-- {
		at[k] = i % w.dims[k]
		i /= w.dims[k]
		pos += at[k] * w.stride[k]
	}
	for len(dst) > 0 {
		n := min(inner-at[last], len(dst))
		row := dst[:n]
		switch step {
		case 0:
			fill(row, src[pos])
		case 1:
			copy(row, src[pos:pos+n])
		default:
			for i, p := 0, pos; i < n; i, p = i+1, p+step {
				row[i] = src[p]
			}
		}
		dst = dst[n:]
		pos -= at[last] * step
		at[last] = 0
		// The next row: carry into the dimensions on the left.
		for k := last - 1; k >= 0; k-- {
			at[k]++
			pos += w.stride[k]
			if at[k] < w.dims[k] {
				break
			}
			pos -= w.dims[k] * w.stride[k]
			at[k] = 0
		}
	}
}

// fillFunc returns the function of a level that sets all elements to v.
func fillFunc[T asm.Word](l asm.Level) func(dst []T, v T) {
	var f any = asm.Fill[T]
	switch any(f).(type) {
	case func([]uint32, uint32):
		fill := elementwise.At[float32](l).Fill
		f = func(dst []uint32, v uint32) { fill(asm.As[float32](dst), math.Float32frombits(v)) }
	case func([]uint64, uint64):
		fill := elementwise.At[float64](l).Fill
		f = func(dst []uint64, v uint64) { fill(asm.As[float64](dst), math.Float64frombits(v)) }
	}
	return f.(func([]T, T))
}
