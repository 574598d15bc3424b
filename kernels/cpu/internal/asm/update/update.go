// Package update holds the inner kernels of optimizers: one pass over parameter, gradient and
// states, in place, for float32 and float64.
//
// zz_update_amd64.s (AVX2 and AVX-512) is written by internal/gen/update; portable.go, adam8.go,
// adam16.go and adafactor.go hold the Go twins. Levels round differently in the last place:
// assembly fuses multiplications with additions.
//
// Sources: Adam (Kingma and Ba, 2015), AdamW (Loshchilov and Hutter, 2019), Lion (Chen et al.,
// 2023), 8-bit states (Dettmers et al., 2022), Adafactor (Shazeer and Stern, 2018).
package update

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// A Rule is the arguments of an update. The assembly reads the fields at fixed offsets.
type Rule[T asm.Float] struct {
	P, G    []T // parameter and gradient
	S, V    []T // states: momentum or mean, and mean of squares; nil where the rule has none
	Prepare int // 1: prepare gradients, 0: use them as they are

	// A prepared gradient is clip(Scale·(Down·g), Min, Max) + Decay·p. Down keeps Scale a normal
	// number if their product is not.
	Scale, Max, Min, Decay, Down T
	Coef                         [8]T // coefficients: see the rule's function
}

// Kernels are the functions of a level for one type. Each updates elements lo..hi-1. In the
// formulas c is Coef and g the prepared gradient.
type Kernels[T asm.Float] struct {
	SGD      func(r *Rule[T], lo, hi int) // p -= c[0]·g
	Momentum func(r *Rule[T], lo, hi int) // s = c[1]·s + g; p -= c[0]·s
	Nesterov func(r *Rule[T], lo, hi int) // s = c[1]·s + g; p -= c[0]·(c[1]·s + g)
	RMSProp  func(r *Rule[T], lo, hi int) // s = c[1]·s + c[2]·g²; p -= c[0]·g / (√s + c[3])
	// S = c[1]·s + c[2]·g; v = c[3]·v + c[4]·g²; p -= c[0]·s / (√(c[5]·v) + c[6]).
	Adam  func(r *Rule[T], lo, hi int)
	AdamW func(r *Rule[T], lo, hi int) // as Adam, and p -= c[7]·p
	// T = c[1]·s + c[2]·g; s = c[3]·s + c[4]·g; p -= c[0]·(sign(t) + c[5]·p); c[6] = 1, c[7] = -0.
	Lion func(r *Rule[T], lo, hi int)

	Adam16, AdamW16 func(r *Rule16[T], lo, hi int) // as Adam and AdamW
	// The same on blocks lo..hi-1; assembly needs whole blocks.
	Adam8, AdamW8 func(r *Rule8[T], lo, hi int)
}

// At returns the functions of level l.
func At[T asm.Float](l asm.Level) *Kernels[T] {
	var t T
	if _, single := any(t).(float32); single {
		return any(kernels32(l)).(*Kernels[T])
	}
	return any(kernels64(l)).(*Kernels[T])
}
