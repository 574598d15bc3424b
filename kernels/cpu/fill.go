package cpu

import (
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// bindFill prepares an output of one value. Threads split elements.
func bindFill(b *binding) (func(), error) {
	v := b.Attrs.(kernels.FillAttrs).Value
	switch b.Out[0].Type {
	case arena.Float32:
		return bindFillOf(b, math.Float32bits(float32(v))), nil
	case arena.Float64:
		return bindFillOf(b, math.Float64bits(v)), nil
	case arena.Uint8:
		return bindFillOf(b, uint8(int64(v))), nil
	case arena.Int32:
		return bindFillOf(b, uint32(int32(v))), nil
	}
	return bindFillOf(b, uint64(int64(v))), nil
}

// bindFillOf prepares a fill by words.
func bindFillOf[T asm.Word](b *binding, v T) func() {
	y, fill := out[T](b, 0), fillFunc[T](b.dev.level)
	return b.parallelFor(len(y), moveGrain, func(lo, hi, _ int) { fill(y[lo:hi], v) })
}
