package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// dropGrain is the elements of a piece of a dropout. It is a multiple of four, which share a counter.
const dropGrain = 8 * 1024

// A dropCall is the arguments of a dropout kernel. The assembly knows the fields' offsets.
type dropCall[T float] struct {
	x, y    []T
	n       int
	counter [4]uint32                       // of the first element
	keys    [numeric.PhiloxRounds][2]uint64 // of the rounds, zero-extended
	least   uint32                          // the word that an element must at least have to stay
	scale   T                               // of those that stay
}

// dropOf returns the kernel for T at a level.
func dropOf[T float](l level) func(c *dropCall[T]) {
	if k, ok := any(drop32(l)).(func(c *dropCall[T])); ok {
		return k
	}
	return goDrop[T]
}

func bindDropout(b *binding) (func(), error) {
	switch b.In[0].Type {
	case arena.Float32:
		return bindDropoutOf[float32](b), nil
	case arena.Float64:
		return bindDropoutOf[float64](b), nil
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

func bindDropoutOf[T float](b *binding) func() {
	a := b.Attrs.(kernels.DropoutAttrs)
	x, controls, y := in[T](b, 0), in[float64](b, 1), out[T](b, 0)
	key := a.Key()
	first := dropCall[T]{least: a.Threshold(), scale: T(1 / (1 - a.Rate))}
	for i := range first.keys {
		first.keys[i] = [2]uint64{uint64(key[0]), uint64(key[1])}
		key[0] += numeric.PhiloxW0
		key[1] += numeric.PhiloxW1
	}
	kernel, calls := dropOf[T](b.dev.level), make([]dropCall[T], b.dev.pool.threads())
	for i := range calls {
		calls[i] = first
	}
	return b.over(len(x), dropGrain, func(lo, hi, worker int) {
		c := &calls[worker]
		c.x, c.y, c.n = x[lo:hi], y[lo:hi], hi-lo
		c.counter = a.Counter(lo/4, controls[kernels.ControlStep])
		kernel(c)
	})
}

// goDrop is the portable kernel.
func goDrop[T float](c *dropCall[T]) {
	x, y, counter := c.x[:c.n], c.y[:c.n], c.counter
	key := [2]uint32{uint32(c.keys[0][0]), uint32(c.keys[0][1])}
	for i := 0; i < len(x); i += 4 {
		words := numeric.Philox(counter, key)
		counter[0]++
		for k, v := range x[i:min(i+4, len(x))] {
			if words[k] >= c.least {
				y[i+k] = v * c.scale
			} else {
				y[i+k] = 0
			}
		}
	}
}
