package elementwise

import (
	"math"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// Functions in float32 arithmetic. Range reductions and polynomials are those of Cephes (S.
// Moshier), single/expf.c, logf.c and tanhf.c; exponents are read from and written to the bits
// instead of by frexp and ldexp, and results may be denormal. Errors against float64 are below 2
// ulp for exp and log, and below 3 ulp for tanh, sigmoid and softplus: see math_test.go.

// Constants of exp and log.
const (
	log2e   = 1.44269504088896341
	ln2Hi32 = 0.693359375 // exact in few bits, so that k*ln2Hi32 is exact
	ln2Lo32 = -2.12194440e-4
	// roundMagic32 added to a small number leaves its nearest integer in the low bits.
	roundMagic32 = 3 << 22
	roundBits32  = 0x4b400000 // the bits of roundMagic32
	sqrtHalf32   = 0x3f3504f3 // the bits of √½
)

// expSplit returns k and r with x = k ln 2 + r, |r| <= ln 2 / 2. x is first clamped to the range in
// which exp is neither 0 nor Inf.
func expSplit(x float32) (r float32, k int32) {
	if x > 89 {
		x = 89
	}
	if x < -104 {
		x = -104
	}
	t := x*log2e + roundMagic32
	k = int32(math.Float32bits(t)) - roundBits32
	f := t - roundMagic32
	return x - f*ln2Hi32 - f*ln2Lo32, k
}

// expPoly returns exp(r) for |r| <= ln 2 / 2.
func expPoly(r float32) float32 { return expTail(r) + 1 }

// expTail returns exp(r) - 1 for |r| <= ln 2 / 2.
func expTail(r float32) float32 {
	p := float32(1.9875691500e-4)
	p = p*r + 1.3981999507e-3
	p = p*r + 8.3334519073e-3
	p = p*r + 4.1665795894e-2
	p = p*r + 1.6666665459e-1
	p = p*r + 5.0000001201e-1
	return p*(r*r) + r
}

// expScale returns p times 2 to the k, for k in -151..129: in two factors, so that neither leaves
// the range.
func expScale(p float32, k int32) float32 {
	h := k >> 1
	return p * math.Float32frombits(uint32(h+127)<<23) * math.Float32frombits(uint32(k-h+127)<<23)
}

// exp32 returns exp(x) = 2^k·exp(r).
func exp32(x float32) float32 {
	r, k := expSplit(x)
	return expScale(expPoly(r), k)
}

// sigmoid32 computes exp of a negative number only, so that small results keep all their digits.
// The sign is selected by a conditional move: a branch would mispredict half of all signs.
func sigmoid32(x float32) float32 {
	bits := math.Float32bits(x)
	r, k := expSplit(math.Float32frombits(bits | 1<<31))
	e := expScale(expPoly(r), k)
	top := math.Float32bits(e)
	if int32(bits) >= 0 {
		top = 0x3f800000 // 1
	}
	return math.Float32frombits(top) / (1 + e)
}

// tanh32 is t/(t+2) with t = exp(2|x|) - 1, where the 1 is subtracted before rounding.
func tanh32(x float32) float32 {
	bits := math.Float32bits(x)
	a := math.Float32frombits(bits &^ (1 << 31))
	if a > 10 {
		a = 10
	}
	r, k := expSplit(2 * a)
	scale := math.Float32frombits(uint32(k+127) << 23)
	t := scale*expTail(r) + (scale - 1)
	return math.Float32frombits(math.Float32bits(t/(t+2)) | bits&(1<<31))
}

// log32 returns log(x) = e·ln 2 + log(1+m), where 1+m is in [√½, √2).
func log32(x float32) float32 {
	if !(x > 0) || x > math.MaxFloat32 {
		return float32(math.Log(float64(x)))
	}
	e := int32(0)
	if x < 0x1p-126 {
		x *= 0x1p32
		e = -32
	}
	b := math.Float32bits(x) - sqrtHalf32
	e += int32(b) >> 23
	m := math.Float32frombits(b&0x007fffff+sqrtHalf32) - 1 // [√½, √2) - 1
	z := m * m
	p := float32(7.0376836292e-2)
	p = p*m - 1.1514610310e-1
	p = p*m + 1.1676998740e-1
	p = p*m - 1.2420140846e-1
	p = p*m + 1.4249322787e-1
	p = p*m - 1.6668057665e-1
	p = p*m + 2.0000714765e-1
	p = p*m - 2.4999993993e-1
	p = p*m + 3.3333331174e-1
	f := float32(e)
	return m + (p*m*z + f*ln2Lo32 - 0.5*z) + f*ln2Hi32
}

// softplus32 is log(1+exp(x)) without overflow. The rounding error of 1+e is corrected to first order.
func softplus32(x float32) float32 {
	e := exp32(math.Float32frombits(math.Float32bits(x) | 1<<31))
	u := 1 + e
	return max(x, 0) + (log32(u) + (e-(u-1))/u)
}

// sigmoid64 is sigmoid32 in float64.
func sigmoid64(x float64) float64 {
	e := math.Exp(-math.Abs(x))
	if x >= 0 {
		return 1 / (1 + e)
	}
	return e / (1 + e)
}

// softplus is log(1+exp(x)) without overflow.
func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// expInto sets dst to exp(a - shift).
func expInto[T asm.Float](dst, a []T, shift T) {
	switch d := any(dst).(type) {
	case []float32:
		exps32(d, any(a).([]float32), float32(shift))
	case []float64:
		s := float64(shift)
		for i, x := range any(a).([]float64)[:len(d)] {
			d[i] = math.Exp(x - s)
		}
	}
}

// exps32 is expInto for float32.
func exps32(dst, a []float32, shift float32) {
	a = a[:len(dst)]
	for i, x := range a {
		r, k := expSplit(x - shift)
		dst[i] = expScale(expPoly(r), k)
	}
}
