package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// Integer arithmetic. Threads split elements. Operands of any type are widened, in tiles of the
// worker's in the workspace, to 64 bits.

// integerTile is the elements of a tile.
const integerTile = 1024

// integers are the types of elements.
type integers interface{ uint8 | int32 | int64 }

// integerWork returns two tiles for each worker.
func integerWork(d *Device, _ any, _, _ []kernels.Spec) int64 {
	return 2 * integerTile * arena.Int64.Size() * int64(d.pool.threads())
}

// bindInteger prepares a function of integers.
func bindInteger(b *binding) (func(), error) {
	switch b.Out[0].Type {
	case arena.Uint8:
		return bindIntegerOf[uint8](b), nil
	case arena.Int32:
		return bindIntegerOf[int32](b), nil
	case arena.Int64:
		return bindIntegerOf[int64](b), nil
	}
	return nil, fmt.Errorf("%s to %v: %w", b.Op.Name, b.Out[0].Spec, kernels.ErrUnsupported)
}

// bindIntegerOf prepares it for results of type T.
func bindIntegerOf[T integers](b *binding) func() {
	y, tiles := out[T](b, 0), asm.View[int64](b.work())
	if len(y) == 0 {
		return nil
	}
	f := integerFunc(b.Attrs.(kernels.IntegerAttrs).Func)
	first, second := widening(b, 0), func([]int64, int) {}
	if len(b.In) == 2 {
		second = widening(b, 1)
	}
	return b.parallelFor(len(y), cheapGrain, func(lo, hi, worker int) {
		for ; lo < hi; lo += integerTile {
			n := min(integerTile, hi-lo)
			at := tiles[worker*2*integerTile:]
			x, z := at[:n], at[integerTile:][:n]
			first(x, lo)
			second(z, lo)
			f(x, z)
			for i, v := range x {
				y[lo+i] = T(v)
			}
		}
	})
}

// integerFunc returns a function that computes x = f(x, z).
func integerFunc(f kernels.IntegerFunc) func(x, z []int64) {
	switch f {
	case kernels.IntegerAdd:
		return func(x, z []int64) {
			for i, v := range z[:len(x)] {
				x[i] += v
			}
		}
	case kernels.IntegerSub:
		return func(x, z []int64) {
			for i, v := range z[:len(x)] {
				x[i] -= v
			}
		}
	case kernels.IntegerMul:
		return func(x, z []int64) {
			for i, v := range z[:len(x)] {
				x[i] *= v
			}
		}
	case kernels.IntegerConvert:
		return func(x, z []int64) {}
	}
	return func(x, z []int64) {
		for i, v := range z[:len(x)] {
			x[i] = f.Of(x[i], v)
		}
	}
}

// widening returns a function that writes elements of operand k, from element lo of the output on.
func widening(b *binding, k int) func(dst []int64, lo int) {
	switch b.In[k].Type {
	case arena.Uint8:
		return wideningOf[uint8](b, k)
	case arena.Int32:
		return wideningOf[int32](b, k)
	}
	return wideningOf[int64](b, k)
}

// wideningOf returns it for elements of type T.
func wideningOf[T integers](b *binding, k int) func(dst []int64, lo int) {
	x, w := in[T](b, k), broadcastIndex(b.In[k].Shape, b.Out[0].Shape)
	if w.rank == 0 { // the output has one element
		return func(dst []int64, _ int) { dst[0] = int64(x[0]) }
	}
	inner, step := w.dims[w.rank-1], w.stride[w.rank-1]
	return func(dst []int64, lo int) {
		for len(dst) > 0 {
			n := min(inner-lo%inner, len(dst))
			at := w.offset(lo)
			for i := range dst[:n] {
				dst[i] = int64(x[at])
				at += step
			}
			dst, lo = dst[n:], lo+n
		}
	}
}
