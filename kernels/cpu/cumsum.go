package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// Running sums along an axis, in float64. Threads split lines. Lines whose elements are not neighbours
// are added side by side, so that memory is read in rows.
const (
	cumsumGrain = 16 * 1024 // elements of a piece
	cumsumWidth = 64        // lines that are added side by side
)

// bindCumSum prepares a running sum.
func bindCumSum(b *binding) (func(), error) {
	switch b.Out[0].Type {
	case arena.Float32:
		return bindCumSumOf[float32](b), nil
	case arena.Float64:
		return bindCumSumOf[float64](b), nil
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.Out[0].Spec, kernels.ErrUnsupported)
}

// bindCumSumOf prepares it for T.
func bindCumSumOf[T float](b *binding) func() {
	a, s := b.Attrs.(kernels.CumSumAttrs), b.In[0].Shape
	x, y := in[T](b, 0), out[T](b, 0)
	if len(x) == 0 {
		return nil
	}
	n, step := s[a.Axis], s[a.Axis+1:].Elems()
	outer := len(x) / (n * step)
	first, by := 0, step // first element of a line, and the distance to the next
	if a.Reverse {
		first, by = (n-1)*step, -step
	}
	if step == 1 {
		return b.parallelFor(outer, cumsumGrain/n, func(lo, hi, _ int) {
			for l := lo; l < hi; l++ {
				sum := 0.0
				for i, at := 0, l*n+first; i < n; i, at = i+1, at+by {
					sum += float64(x[at])
					y[at] = T(sum)
				}
			}
		})
	}
	bands := ceilDiv(step, cumsumWidth)
	return b.parallelFor(outer*bands, cumsumGrain/(n*min(step, cumsumWidth)), func(lo, hi, _ int) {
		for l := lo; l < hi; l++ {
			var sums [cumsumWidth]float64
			start := l % bands * cumsumWidth
			width := min(cumsumWidth, step-start)
			for i, at := 0, l/bands*n*step+first+start; i < n; i, at = i+1, at+by {
				from, to := x[at:at+width], y[at:at+width]
				for k, v := range from {
					sums[k] += float64(v)
					to[k] = T(sums[k])
				}
			}
		}
	})
}
