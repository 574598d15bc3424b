package cpu

import (
	"fmt"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/reduce"
)

// checkGrain is the bytes of a piece of a check, whose speed is that of memory.
const checkGrain = 256 * 1024

// A number is NaN or infinite when all bits of its exponent are set. So the check compares the
// largest exponent of all elements, as an integer, with that of infinity. A float32 has its
// exponent in each word, a float64 in each upper word.
const (
	exponent32, infinite32 = 0x7f800000_7f800000, 0x7f800000
	exponent64, infinite64 = 0x7ff00000_00000000, 0x7ff00000
)

// bindCheck prepares CheckFinite: it sets the guard to its code if an element is NaN or infinite,
// unless the guard is set. Threads split elements.
func bindCheck(b *binding) (func(), error) {
	guard, code := in[int32](b, 1), b.Attrs.(kernels.CheckFiniteAttrs).Code
	x, largest := in[uint32](b, 0), reduce.LargestAt(b.dev.level)
	var mask uint64
	var infinite uint32
	switch b.In[0].Type {
	case arena.Float32:
		mask, infinite = exponent32, infinite32
	case arena.Float64:
		mask, infinite = exponent64, infinite64
	default:
		return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
	}
	if len(x) <= checkGrain/4 {
		return func() {
			if guard[0] == 0 && largest(x, mask) >= infinite {
				guard[0] = code
			}
		}, nil
	}
	var found atomic.Bool
	look := b.parallelFor(len(x), checkGrain/4, func(lo, hi, _ int) {
		if !found.Load() && largest(x[lo:hi], mask) >= infinite {
			found.Store(true)
		}
	})
	return func() {
		if guard[0] != 0 {
			return
		}
		found.Store(false)
		look()
		if found.Load() {
			guard[0] = code
		}
	}, nil
}
