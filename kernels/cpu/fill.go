package cpu

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

func bindFill(b *binding) (func(), error) {
	v := b.Attrs.(kernels.FillAttrs).Value
	switch b.Out[0].Type {
	case arena.Float32:
		return bindFillOf(b, float32(v)), nil
	case arena.Float64:
		return bindFillOf(b, v), nil
	case arena.Uint8:
		return bindFillOf(b, uint8(int64(v))), nil
	case arena.Int32:
		return bindFillOf(b, int32(v)), nil
	}
	return bindFillOf(b, int64(v)), nil
}

func bindFillOf[T any](b *binding, v T) func() {
	y := out[T](b, 0)
	return b.over(len(y), moveGrain, func(lo, hi, _ int) { set(y[lo:hi], v) })
}
