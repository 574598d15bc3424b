package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// whereTile is the elements that are chosen at once. An operand that is broadcast is first copied to a
// tile of the worker's in the workspace.
const whereTile = 1024

// whereWork returns a tile for each operand that is broadcast, for each worker.
func whereWork(d *Device, _ any, in, out []kernels.Spec) int64 {
	bytes := int64(0)
	for _, s := range in {
		if !s.Shape.Equal(out[0].Shape) {
			bytes += whereTile * s.Type.Size()
		}
	}
	return bytes * int64(d.pool.threads())
}

// bindWhere prepares a choice. The bits of the condition are read as words: shifted by one they are 0
// for 0 and -0 alone.
func bindWhere(b *binding) (func(), error) {
	switch b.In[0].Type {
	case arena.Float32:
		return byWord(b, bindWhereOf[uint32, uint8], bindWhereOf[uint32, uint32], bindWhereOf[uint32, uint64])
	case arena.Float64:
		return byWord(b, bindWhereOf[uint64, uint8], bindWhereOf[uint64, uint32], bindWhereOf[uint64, uint64])
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

// bindWhereOf prepares it for words of the condition and of the elements.
func bindWhereOf[C, T asm.Word](b *binding) func() {
	work := b.work()
	cond, work := newTiled[C](b, 0, work)
	x, work := newTiled[T](b, 1, work)
	y, _ := newTiled[T](b, 2, work)
	to := out[T](b, 0)
	return b.parallelFor(len(to), moveGrain, func(lo, hi, worker int) {
		for ; lo < hi; lo += whereTile {
			n := min(whereTile, hi-lo)
			dst := to[lo : lo+n]
			c, a, other := cond.at(lo, n, worker), x.at(lo, n, worker), y.at(lo, n, worker)
			for i := range dst {
				v := other[i]
				if c[i]<<1 != 0 {
					v = a[i]
				}
				dst[i] = v
			}
		}
	})
}

// tiled is an operand that is read in tiles of the output's elements.
type tiled[T asm.Word] struct {
	data  []T
	index stridedIndex
	tiles []T // one for each worker; nil: the operand has the layout of the output
	fill  func(dst []T, v T)
}

// newTiled returns input k, with tiles at the start of work, and the rest of work.
func newTiled[T asm.Word](b *binding, k int, work []byte) (tiled[T], []byte) {
	t := tiled[T]{data: in[T](b, k)}
	if b.In[k].Shape.Equal(b.Out[0].Shape) {
		return t, work
	}
	t.index, t.fill = broadcastIndex(b.In[k].Shape, b.Out[0].Shape), fillFunc[T](b.dev.level)
	bytes := int(b.In[k].Type.Size()) * whereTile * b.dev.pool.threads()
	t.tiles = asm.View[T](work[:bytes])
	return t, work[bytes:]
}

// at returns n elements from element lo of the output on.
func (t *tiled[T]) at(lo, n, worker int) []T {
	if t.tiles == nil {
		return t.data[lo : lo+n]
	}
	dst := t.tiles[worker*whereTile:][:n]
	gather(dst, t.data, &t.index, lo, t.fill)
	return dst
}
