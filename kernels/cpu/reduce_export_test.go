package cpu

import (
	"sync/atomic"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// ReducePulled reduces x, of spec s, as a call of op does, but from copies of its elements that are made when they are
// wanted. It returns the result and the most elements that were wanted at once.
func ReducePulled(d *Device, op *kernels.Op, a kernels.ReduceAttrs, s kernels.Spec, x []byte) (y []byte, most int64) {
	if s.Type == arena.Float32 {
		return reducePulled[float32](d, op, a, s, x)
	}
	return reducePulled[float64](d, op, a, s, x)
}

func reducePulled[T float](d *Device, op *kernels.Op, a kernels.ReduceAttrs, s kernels.Spec, x []byte) ([]byte, int64) {
	out, err := op.Infer(a, []kernels.Spec{s})
	if err != nil {
		panic(err)
	}
	y := aligned(out[0].Bytes(), 64)
	work := aligned(reduceWork(d, a, []kernels.Spec{s}, out), 64)
	var most atomic.Int64
	tiles := make([][maxPull]T, d.pool.threads())
	run := reduceFrom(&binding{dev: d}, op, a, s.Shape, asm.View[T](y), work, nil, func(lo, n, worker int) []T {
		if int64(n) > most.Load() {
			most.Store(int64(n))
		}
		tile := tiles[worker][:n]
		copy(tile, asm.View[T](x)[lo:lo+n])
		return tile
	})
	if run != nil {
		run()
	}
	return y, most.Load()
}
