package cpu

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/reduce"
)

// bindSumSquares prepares the sum of squares of x, in float64. The order is that of a sum over all
// axes: see reduce.go. Threads split x by pieces.
func bindSumSquares(b *binding) (func(), error) {
	switch b.In[0].Type {
	case arena.Float32:
		return bindSumSquaresOf[float32](b), nil
	case arena.Float64:
		return bindSumSquaresOf[float64](b), nil
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

// sumSquaresWork returns the bytes of the partial sums.
func sumSquaresWork(_ *Device, _ any, in, _ []kernels.Spec) int64 {
	n := in[0].Shape.Elems()
	if n <= pieceLen {
		return 0
	}
	return int64(ceilDiv(n, pieceLen)) * 8
}

// bindSumSquaresOf binds the sum for T: one call for a short x, otherwise pieces whose sums are
// added in order.
func bindSumSquaresOf[T float](b *binding) func() {
	x, y := in[T](b, 0), out[float64](b, 0)
	squares := reduce.At[T](b.dev.level).Rows[reduce.FoldSquares]
	// One piece: no workspace.
	if len(x) <= pieceLen {
		return func() {
			y[0] = 0
			squares(y, x, len(x))
		}
	}
	part := asm.View[float64](b.work())[:ceilDiv(len(x), pieceLen)]
	pieces := b.parallelFor(len(x), pieceLen, func(lo, hi, _ int) {
		total := part[lo/pieceLen:][:1]
		total[0] = 0
		squares(total, x[lo:hi], hi-lo)
	})
	return func() {
		pieces()
		total := 0.0
		for _, v := range part {
			total += v
		}
		y[0] = total
	}
}

// bindClipNorm prepares the scale that limits the global norm to Max: min(u, Max/√Σ), or NaN where
// Σ overflows. Inputs are sums of squares, and u is an earlier scale or 1.
func bindClipNorm(b *binding) (func(), error) {
	a, y, u := b.Attrs.(kernels.ClipNormAttrs), out[float64](b, 0), []float64{1}
	var sums [][]float64
	if a.Scaled {
		u = in[float64](b, 0)
	}
	for k := a.First(); k < len(b.In); k++ {
		sums = append(sums, in[float64](b, k))
	}
	return func() {
		total := 0.0
		for _, s := range sums {
			total += s[0]
		}
		y[0] = u[0]
		if scale := a.Max/math.Sqrt(total) + (total - total); !(scale >= u[0]) { // NaN stays NaN, and so does Inf - Inf
			y[0] = scale
		}
	}, nil
}
