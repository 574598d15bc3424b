package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/dropout"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// Dropout: y = x/(1 - rate), or 0 with probability rate. Random words depend on the seed, the step
// and the element's index only: see internal/asm/dropout. Threads split elements.

// dropGrain is the elements of a piece. It is a multiple of four, because four elements share a
// counter.
const dropGrain = 8 * 1024

// bindDropout prepares a dropout.
func bindDropout(b *binding) (func(), error) {
	switch b.In[0].Type {
	case arena.Float32:
		return bindDropoutOf[float32](b), nil
	case arena.Float64:
		return bindDropoutOf[float64](b), nil
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

// bindDropoutOf binds the kernel for T. The keys of Philox's rounds do not change; the counter
// depends on the step and the first element of a piece.
func bindDropoutOf[T float](b *binding) func() {
	a := b.Attrs.(kernels.DropoutAttrs)
	x, controls, y := in[T](b, 0), in[float64](b, 1), out[T](b, 0)
	key := a.Key()
	first := dropout.Args[T]{Threshold: a.Threshold(), Scale: T(1 / (1 - a.Rate))}
	for i := range first.Keys {
		first.Keys[i] = [2]uint64{uint64(key[0]), uint64(key[1])}
		key[0] += numeric.PhiloxW0
		key[1] += numeric.PhiloxW1
	}
	kernel, calls := dropout.At[T](b.dev.level), make([]dropout.Args[T], b.dev.pool.threads())
	for i := range calls {
		calls[i] = first
	}
	return b.parallelFor(len(x), dropGrain, func(lo, hi, worker int) {
		c := &calls[worker]
		c.X, c.Y, c.N = x[lo:hi], y[lo:hi], hi-lo
		c.Counter = a.Counter(lo/4, controls[kernels.ControlStep])
		kernel(c)
	})
}
