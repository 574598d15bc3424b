package update

import (
	"github.com/evenkeel/evenkeel/internal/float16"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// A Rule16 is a Rule whose states are bfloat16, instead of S and V. They are rounded
// stochastically, by noise that depends on the element's parameter, gradient and Key. The assembly
// reads the fields at fixed offsets.
type Rule16[T asm.Float] struct {
	Rule[T]
	M, V []uint16 // means and means of squares
	Key  uint32   // the step's share of the noise
}

// goAdam16 is Kernels.Adam16.
func goAdam16[T asm.Float](r *Rule16[T], lo, hi int) { r.adam16(0, lo, hi) }

// goAdamW16 is Kernels.AdamW16.
func goAdamW16[T asm.Float](r *Rule16[T], lo, hi int) { r.adam16(r.Coef[7], lo, hi) }

// adam16 widens the states of runLen elements to the stack, updates them, and rounds them again.
func (r *Rule16[T]) adam16(shrink T, lo, hi int) {
	var noise [runLen]uint32
	var s, v [runLen]T
	for ; lo < hi; lo += runLen {
		n := min(hi-lo, runLen)
		some := r.Rule
		some.P, some.G, some.S, some.V = r.P[lo:lo+n], r.G[lo:lo+n], s[:n], v[:n]
		m, squares := r.M[lo:lo+n], r.V[lo:lo+n]
		for i, p := range some.P {
			// Key holds the step.
			noise[i] = numeric.Noise(numeric.Word(p), numeric.Word(some.G[i])+r.Key, 0)
			s[i], v[i] = T(float16.FromBFloat16(m[i])), T(float16.FromBFloat16(squares[i]))
		}
		some.adam(shrink, numeric.MostSquared32, 0, n) // bfloat16 has the range of float32
		for i, bits := range noise[:n] {
			m[i] = float16.DitherBFloat16(float32(s[i]), uint16(bits))
			squares[i] = float16.DitherBFloat16(float32(v[i]), uint16(bits>>16))
		}
	}
}
