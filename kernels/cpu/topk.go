package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// topkGrain is the elements of a piece. Threads split lines.
const topkGrain = 16 * 1024

// bindTopK prepares a selection.
func bindTopK(b *binding) (func(), error) {
	switch b.Out[0].Type {
	case arena.Float32:
		return bindTopKOf[float32](b), nil
	case arena.Float64:
		return bindTopKOf[float64](b), nil
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.Out[0].Spec, kernels.ErrUnsupported)
}

// bindTopKOf prepares it for T.
func bindTopKOf[T float](b *binding) func() {
	a, s := b.Attrs.(kernels.TopKAttrs), b.In[0].Shape
	x, y, index := in[T](b, 0), out[T](b, 0), out[int64](b, 1)
	if len(x) == 0 {
		return nil
	}
	n, step := s[a.Axis], s[a.Axis+1:].Elems()
	return b.parallelFor(len(x)/n, topkGrain/n, func(lo, hi, _ int) {
		for l := lo; l < hi; l++ {
			h := selection[T]{y: y[l/step*a.K*step+l%step:], index: index[l/step*a.K*step+l%step:], step: step}
			h.selectFrom(x[l/step*n*step+l%step:], n, a.K)
		}
	})
}

// selection is the elements of a line that are selected so far, in the memory of the result.
//
// Invariant: it is a binary heap in which no element comes before its children, in the order of the
// result. So the one that leaves first is at its top.
type selection[T float] struct {
	y     []T
	index []int64
	step  int // from one element of the line to the next
	n     int
}

// selectFrom selects the first k of n elements of a line and puts them into order. It takes
// n·log k steps.
func (h *selection[T]) selectFrom(x []T, n, k int) {
	for i := range n {
		v := x[i*h.step]
		switch {
		case h.n < k:
			h.n++
			h.rise(h.n-1, v, int64(i))
		case numeric.Descending(v, h.y[0]) < 0: // an equal one comes later
			h.sink(v, int64(i))
		}
	}
	// The last of all goes to the end, and the heap shrinks.
	for h.n > 1 {
		h.n--
		v, at := h.y[h.n*h.step], h.index[h.n*h.step]
		h.set(h.n, h.y[0], h.index[0])
		h.sink(v, at)
	}
}

// set writes element i.
func (h *selection[T]) set(i int, v T, at int64) { h.y[i*h.step], h.index[i*h.step] = v, at }

// after reports whether element i comes after v, which is at place at.
func (h *selection[T]) after(i int, v T, at int64) bool {
	c := numeric.Descending(h.y[i*h.step], v)
	return c > 0 || c == 0 && h.index[i*h.step] > at
}

// rise puts v at the free place i, or above.
func (h *selection[T]) rise(i int, v T, at int64) {
	for i > 0 {
		up := (i - 1) / 2
		if h.after(up, v, at) {
			break
		}
		h.set(i, h.y[up*h.step], h.index[up*h.step])
		i = up
	}
	h.set(i, v, at)
}

// sink replaces the top by v, and puts it where it belongs.
func (h *selection[T]) sink(v T, at int64) {
	i := 0
	for {
		down := 2*i + 1
		if down >= h.n {
			break
		}
		if right := down + 1; right < h.n && h.after(right, h.y[down*h.step], h.index[down*h.step]) {
			down = right
		}
		if !h.after(down, v, at) {
			break
		}
		h.set(i, h.y[down*h.step], h.index[down*h.step])
		i = down
	}
	h.set(i, v, at)
}

// bindTopKGrad prepares the gradient of a selection.
func bindTopKGrad(b *binding) (func(), error) {
	return byWord(b, nil, bindTopKGradOf[uint32], bindTopKGradOf[uint64])
}

// bindTopKGradOf prepares it for words of the elements' size.
func bindTopKGradOf[T uint32 | uint64](b *binding) func() {
	a, s := b.Attrs.(kernels.TopKGradAttrs), b.In[0].Shape
	index, dy, dx := in[int64](b, 0), in[T](b, 1), out[T](b, 0)
	k, step := s[a.Axis], s[a.Axis+1:].Elems()
	// A row is all lines for one index of the dimensions before the axis.
	row := a.N * step
	return b.parallelFor(len(dx)/row, topkGrain/row, func(lo, hi, _ int) {
		clear(dx[lo*row : hi*row])
		for r := lo; r < hi; r++ {
			to := dx[r*row : (r+1)*row]
			for i, at := range index[r*k*step : (r+1)*k*step] {
				if at >= 0 && at < int64(a.N) {
					to[int(at)*step+i%step] = dy[r*k*step+i]
				}
			}
		}
	})
}
