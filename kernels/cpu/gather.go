package cpu

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// bindRows is Gather: rows of input 0 at the indices of input 1, zeros where there is no such row.
func bindRows(b *binding) (func(), error) {
	to, from := b.bytes(b.Out[0]), b.bytes(b.In[0])
	n, rows := b.In[0].Shape[0], b.In[1].Shape[0]
	index := newLabels(b, 1)
	if len(to) == 0 {
		return nil, nil
	}
	size := len(to) / rows
	return b.over(rows, 4*moveGrain/size, func(lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			dst := to[i*size : (i+1)*size]
			if k := index.at(i, n); k >= 0 {
				copy(dst, from[k*size:(k+1)*size])
			} else {
				clear(dst)
			}
		}
	}), nil
}

func bindOneHot(b *binding) (func(), error) {
	if b.Out[0].Type == arena.Float64 {
		return bindOneHotOf[float64](b), nil
	}
	return bindOneHotOf[float32](b), nil
}

func bindOneHotOf[T float](b *binding) func() {
	y, label := out[T](b, 0), newLabels(b, 0)
	n := b.Attrs.(kernels.OneHotAttrs).Classes
	return b.over(b.In[0].Shape[0], moveGrain/n, func(lo, hi, _ int) {
		clear(y[lo*n : hi*n])
		for i := lo; i < hi; i++ {
			if k := label.at(i, n); k >= 0 {
				y[i*n+k] = 1
			}
		}
	})
}

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
