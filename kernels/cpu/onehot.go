package cpu

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// bindOneHot prepares rows of zeros with a 1 at each label. Threads split rows.
func bindOneHot(b *binding) (func(), error) {
	if b.Out[0].Type == arena.Float64 {
		return bindOneHotOf[float64](b), nil
	}
	return bindOneHotOf[float32](b), nil
}

// bindOneHotOf prepares them for T.
func bindOneHotOf[T float](b *binding) func() {
	y, label := out[T](b, 0), newLabels(b, 0)
	n := b.Attrs.(kernels.OneHotAttrs).Classes
	return b.parallelFor(b.In[0].Shape[0], moveGrain/n, func(lo, hi, _ int) {
		clear(y[lo*n : hi*n])
		for i := lo; i < hi; i++ {
			if k := label.at(i, n); k >= 0 {
				y[i*n+k] = 1
			}
		}
	})
}
