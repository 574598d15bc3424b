package update

import (
	"math"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// A Rule8 is a Rule whose states are 8-bit codes in blocks of kernels.Block8 elements, instead of S
// and V. In block b the root of a mean of squares is Largest[b]·value(Root[i]), and a mean is
// Largest[b]·unit(Root[i])·span·value(M[i]). Coef[1] is the rule's coefficient times span. The
// assembly reads the fields at fixed offsets.
type Rule8[T asm.Float] struct {
	Rule[T]
	M       []int8  // [elements] codes of means
	Root    []uint8 // [elements] codes of roots
	Largest []T     // [blocks] largest root of each block

	HalfInverse          T      // 1/(2·span): assembly multiplies by twice the reciprocal of a unit
	RootNoise, MeanNoise uint32 // of the step's element 0 of a block
}

// goAdam8 is Kernels.Adam8.
func goAdam8[T asm.Float](r *Rule8[T], lo, hi int) { r.adam8(0, lo, hi) }

// goAdamW8 is Kernels.AdamW8.
func goAdamW8[T asm.Float](r *Rule8[T], lo, hi int) { r.adam8(r.Coef[7], lo, hi) }

// adam8 decodes a block to the stack, updates it, and encodes it again. shrink is the factor of
// weight decay.
func (r *Rule8[T]) adam8(shrink T, lo, hi int) {
	rate, b1, r1, b2, r2, eps := r.Coef[0], r.Coef[1], r.Coef[2], r.Coef[3], r.Coef[4], r.Coef[6]
	var means, sizes, tile [kernels.Block8]T
	for b := lo; b < hi; b++ {
		from, to := b*kernels.Block8, min((b+1)*kernels.Block8, len(r.P))
		p, m, root, largest := r.P[from:to], r.M[from:to], r.Root[from:to], r.Largest[b]
		g := r.grads(tile[:], p, from)
		s, v, most := means[:len(p)], sizes[:len(p)], T(0)
		for i, code := range m {
			size, unit := numeric.DecodeRoot(root[i])
			s[i] = b1*(T(numeric.DecodeMean(code))*(largest*T(unit))) + r1*g[i]
			v[i] = hypot(b2*(largest*T(size)), r2*g[i])
			p[i] -= shrink*p[i] + rate*s[i]/(v[i]+eps)
			if v[i] > most { // not where v is NaN
				most = v[i]
			}
		}
		if largest > 0 {
			most = min(most, largest*numeric.Jump8)
		}
		r.Largest[b] = 0
		if most >= numeric.Least8 {
			r.Largest[b] = most
		}
		r.encode(m, root, s, v, r.Largest[b])
	}
}

// encode sets the codes of a block to those of means s and roots v, whose largest root is most.
func (r *Rule8[T]) encode(m []int8, root []uint8, s, v []T, most T) {
	if most == 0 {
		clear(m)
		clear(root)
		return
	}
	// The product of both factors is 1/most. A single one would be denormal for a huge most.
	shrink := T(1)
	if most > 1 {
		shrink = 0x1p-8
	}
	by, half, noise := 1/(most*shrink), r.HalfInverse, uint32(0)
	for i, size := range v {
		code := numeric.EncodeRoot(float32(size*shrink*by), r.RootNoise+noise)
		_, unit := numeric.DecodeRoot(code)
		root[i] = code
		m[i] = numeric.EncodeMean(float32(s[i]*shrink*by*T(2/unit)*half), r.MeanNoise+noise)
		noise += numeric.DitherElement
	}
}

// hypot returns √(x² + y²), also where a square overflows or underflows.
func hypot[T asm.Float](x, y T) T {
	a, b := float64(x), float64(y)
	if s := a*a + b*b; s > 0x1p-900 && s < 0x1p1000 || a == 0 && b == 0 {
		return T(math.Sqrt(s))
	}
	return T(math.Hypot(a, b))
}
