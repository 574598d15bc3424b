package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// bindTruncate prepares a conversion of floats to int64. Threads split elements.
func bindTruncate(b *binding) (func(), error) {
	switch b.In[0].Type {
	case arena.Float32:
		return bindTruncateOf[float32](b), nil
	case arena.Float64:
		return bindTruncateOf[float64](b), nil
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

// bindTruncateOf prepares it for T.
func bindTruncateOf[T float](b *binding) func() {
	x, y := in[T](b, 0), out[int64](b, 0)
	return b.parallelFor(len(y), cheapGrain, func(lo, hi, _ int) {
		for i, v := range x[lo:hi] {
			y[lo+i] = numeric.ToInt64(float64(v))
		}
	})
}
