package cpu

import (
	"fmt"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// checkGrain is the bytes of a piece of a check, which reads at the speed of memory.
const checkGrain = 256 * 1024

// bindCheck is CheckFinite: it looks at exponents as integers, eight bytes at a time.
func bindCheck(b *binding) (func(), error) {
	guard, code := in[int32](b, 1), b.Attrs.(kernels.CheckFiniteAttrs).Code
	x := b.bytes(b.In[0])
	var bad func(x []byte) bool
	switch b.In[0].Type {
	case arena.Float32:
		bad = bad32
	case arena.Float64:
		bad = func(x []byte) bool { return carries(view[uint64](x), clear64, one64, carry64) }
	default:
		return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
	}
	var found atomic.Bool
	look := b.over(len(x), checkGrain, func(lo, hi, _ int) {
		if !found.Load() && bad(x[lo:hi]) {
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

// A float32 is NaN or infinite when all bits of its exponent are set: then, with the sign cleared, adding one to the
// exponent carries into the sign's place. Two at once: the carry of the lower never reaches the upper.
const (
	clear32 = 0x7fffffff_7fffffff
	one32   = 0x00800000_00800000
	carry32 = 0x80000000_80000000
	clear64 = 0x7fffffff_ffffffff
	one64   = 0x00100000_00000000
	carry64 = 0x80000000_00000000
)

// bad32 reports whether one of x, float32 at an address that is a multiple of 4, is not finite.
func bad32(x []byte) bool {
	if len(x) > 0 && misaligned(x, 8) {
		if bad32tail(x[:4]) {
			return true
		}
		x = x[4:]
	}
	whole := len(x) &^ 7
	return carries(view[uint64](x[:whole]), clear32, one32, carry32) || bad32tail(x[whole:])
}

func bad32tail(x []byte) bool {
	v := view[uint32](x)
	return len(v) > 0 && (v[0]&0x7fffffff+0x00800000)>>31 != 0
}

// carries reports whether adding one to the exponents of some word of x, signs cleared, carries.
func carries(x []uint64, mask, one, carry uint64) bool {
	var a, b, c, d uint64
	for ; len(x) >= 4; x = x[4:] {
		a |= x[0]&mask + one
		b |= x[1]&mask + one
		c |= x[2]&mask + one
		d |= x[3]&mask + one
	}
	for _, v := range x {
		a |= v&mask + one
	}
	return (a|b|c|d)&carry != 0
}
