package cpu

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

// Sizes of prefetching.
const (
	// tableBytes is the least bytes of a table whose rows are assumed to be in no cache.
	tableBytes = 2 << 20
	// aheadBytes is the bytes of rows that are prefetched before a row is copied. A core can wait
	// for about 3 KB, in lines of 64 bytes, at once.
	aheadBytes = 4 << 10
)

// bindGatherRows prepares Gather: output row i is row index[i] of the table, zeros where there is
// no such row. Threads split output rows. Rows of a large table come from memory, each from another
// page, so they are prefetched some rows ahead.
func bindGatherRows(b *binding) (func(), error) {
	to, from := b.bytes(b.Out[0]), b.bytes(b.In[0])
	n, rows := b.In[0].Shape[0], b.In[1].Shape[0]
	index := newLabels(b, 1)
	if len(to) == 0 {
		return nil, nil
	}
	size := len(to) / rows
	switch {
	case size == 4 && b.Out[0].Type.Size() == 4:
		return bindGatherWords(b, asm.View[uint32](to), asm.View[uint32](from), index), nil
	case size == 8 && b.Out[0].Type.Size() == 8:
		return bindGatherWords(b, asm.View[uint64](to), asm.View[uint64](from), index), nil
	}
	bring, ahead := gemm.For(b.dev.level, arena.Float32).Prefetch, 1+aheadBytes/size
	if len(from) < tableBytes {
		bring = nil
	}
	return b.parallelFor(rows, 4*moveGrain/size, func(lo, hi, _ int) {
		if bring != nil {
			// The rows of the first aheadBytes are prefetched at once, later rows one by one while
			// others are copied.
			for i := lo; i < min(lo+ahead, hi); i++ {
				bring(from[max(index.at(i, n), 0)*size:], 1, 0, size)
			}
		}
		for i := lo; i < hi; i++ {
			if bring != nil && i+ahead < hi {
				bring(from[max(index.at(i+ahead, n), 0)*size:], 1, 0, size)
			}
			dst := to[i*size : (i+1)*size]
			if k := index.at(i, n); k >= 0 {
				copy(dst, from[k*size:(k+1)*size])
			} else {
				clear(dst)
			}
		}
	}), nil
}

// bindGatherWords prepares a gather of rows of one element, such as labels.
func bindGatherWords[T asm.Word](b *binding, to, from []T, index labels) func() {
	return b.parallelFor(len(to), moveGrain, func(lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			var v T
			if k := index.at(i, len(from)); k >= 0 {
				v = from[k]
			}
			to[i] = v
		}
	})
}
