package cpu

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// bindSumSquares adds the squares of fixed pieces in float64, then the pieces in order.
func bindSumSquares(b *binding) (func(), error) {
	switch b.In[0].Type {
	case arena.Float32:
		return bindSumSquaresOf[float32](b), nil
	case arena.Float64:
		return bindSumSquaresOf[float64](b), nil
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

func sumSquaresWork(_ *Device, _ any, in, _ []kernels.Spec) int64 {
	n := in[0].Shape.Elems()
	if n <= pieceLen {
		return 0
	}
	return int64((n+pieceLen-1)/pieceLen) * 8
}

func bindSumSquaresOf[T float](b *binding) func() {
	x, y := in[T](b, 0), out[float64](b, 0)
	if len(x) <= pieceLen {
		return func() { y[0] = squaresOf(x) }
	}
	part := view[float64](b.work())[:(len(x)+pieceLen-1)/pieceLen]
	pieces := b.over(len(x), pieceLen, func(lo, hi, _ int) { part[lo/pieceLen] = squaresOf(x[lo:hi]) })
	return func() {
		pieces()
		total := 0.0
		for _, v := range part {
			total += v
		}
		y[0] = total
	}
}

// squaresOf adds the squares of x in float64, over four accumulators.
func squaresOf[T float](x []T) float64 {
	var a, b, c, d float64
	for ; len(x) >= 4; x = x[4:] {
		v0, v1, v2, v3 := float64(x[0]), float64(x[1]), float64(x[2]), float64(x[3])
		a += v0 * v0
		b += v1 * v1
		c += v2 * v2
		d += v3 * v3
	}
	for _, v := range x {
		a += float64(v) * float64(v)
	}
	return (a + b) + (c + d)
}

// bindClipNorm turns sums of squares into the scale that holds the global norm at Max.
func bindClipNorm(b *binding) (func(), error) {
	limit := b.Attrs.(kernels.ClipNormAttrs).Max
	y := out[float64](b, 0)
	var sums [][]float64
	for k := range b.In {
		sums = append(sums, in[float64](b, k))
	}
	return func() {
		total := 0.0
		for _, s := range sums {
			total += s[0]
		}
		y[0] = 1
		if scale := limit / math.Sqrt(total); !(scale >= 1) { // NaN stays NaN
			y[0] = scale
		}
	}, nil
}
