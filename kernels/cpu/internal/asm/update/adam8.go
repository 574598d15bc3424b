package update

import (
	"math"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// A Rule8 is a Rule whose states are 8-bit codes in blocks of kernels.Block8 elements, instead of S
// and V. A mean is Scales[2b]·value(M[i]), the root of a mean of squares is
// Scales[2b+1]·value(Root[i]). The assembly reads the fields at fixed offsets.
type Rule8[T asm.Float] struct {
	Rule[T]
	M      []int8  // [elements] codes of means
	Root   []uint8 // [elements] codes of roots
	Scales []T     // [blocks, 2] largest mean and root of each block

	MeanCodec, RootCodec Codec[T]
}

// FillCodecs computes the tables of both codecs. It must be called before the first update.
func (r *Rule8[T]) FillCodecs() {
	r.MeanCodec.fill(numeric.TopSigned)
	for i := range 128 { // the bytes of negative codes
		r.MeanCodec.values[uint8(-i)] = -r.MeanCodec.values[i]
	}
	r.RootCodec.fill(numeric.TopUnsigned)
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
		p, m, root, largest := r.P[from:to], r.M[from:to], r.Root[from:to], r.Scales[2*b:][:2]
		g := r.grads(tile[:], p, from)
		s, v := means[:len(p)], sizes[:len(p)]
		for i, code := range m {
			s[i] = b1*(largest[0]*r.MeanCodec.values[uint8(code)]) + r1*g[i]
			v[i] = hypot(b2*(largest[1]*r.RootCodec.values[root[i]]), r2*g[i])
			p[i] -= shrink*p[i] + rate*s[i]/(v[i]+eps)
		}
		most := [2]T{}
		for i, x := range s {
			if x = T(math.Abs(float64(x))); x > most[0] { // false where x is NaN
				most[0] = x
			}
			if v[i] > most[1] {
				most[1] = v[i]
			}
		}
		for k, x := range most {
			if largest[k] = 0; x >= numeric.Least8 {
				largest[k] = x
			}
		}
		r.MeanCodec.encodeMeans(m, s, largest[0])
		r.RootCodec.encodeRoots(root, v, largest[1])
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
