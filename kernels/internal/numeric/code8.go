package numeric

import "math"

// The 8-bit codes of Adam8. Both are the upper bits of a float32, so that the precision is relative
// and a conversion is a shift. Noise rounds stochastically: if all its values are equally likely,
// the value of the code is right on average.
//
// The code of a root is unsigned. Each power of two has 8 codes, from 1.125·2⁻³² (code 0) to 1 (code
// 255). A root is a share of the largest one of its block.
//
// The code of a mean has a sign and 7 bits. A mean is a share of span·unit·largest, where unit is
// the power of two of the element's root. The magnitude of code c is that of the float32 whose 9
// upper bits after the sign are c + 1920, less 2⁻⁷: from 0 (code 0) to 1.93 (code 127), in steps of
// 2⁻¹¹ near 0 and of a 16th to a 32nd of the value far from it.
const (
	RootBits = 20                 // lower bits of a float32 that the code of a root lacks
	RootLow  = 761 << RootBits    // bits of the value of code 0
	MeanBits = 19                 // the same for a mean
	MeanLow  = 1920 << MeanBits   // bits of 2⁻⁷, the value that is subtracted
	UnitMask = 0xff << 23         // exponent of a float32
	meanZero = 0x1p-7             // the number with the bits MeanLow
	meanMost = 0x1.fp0 - meanZero // value of code 127
	meanRoom = 1.125 * 2          // a root is rounded down by at most 1.125, its unit by 2
)

// Least8 is the least nonzero value of a block's largest root. A block with a smaller one becomes 0:
// its steps would be negligible, and the values of its codes would be denormal numbers, on which a
// processor is a hundred times slower.
const Least8 = 0x1p-80

// Jump8 is the most that a block's largest root grows by in an update, as a factor, unless it was 0.
// An element with a larger one gets the last code, and so do the others soon if they grow too. One
// gradient can so not push the roots of all others below the range of codes.
const Jump8 = 0x1p16

// EncodeRoot returns the code of a root x, a share of the largest one. Shares below the value of
// code 0 become code 0, those above 1 and NaN code 255.
func EncodeRoot(x float32, noise uint32) uint8 {
	if !(x < 1) {
		x = 1
	}
	x = max(x, math.Float32frombits(RootLow))
	return uint8((math.Float32bits(x) + noise>>(32-RootBits) - RootLow) >> RootBits)
}

// DecodeRoot returns the value of a code, and its unit: the largest power of two that is not larger.
func DecodeRoot(code uint8) (value, unit float32) {
	b := uint32(code)<<RootBits + RootLow
	return math.Float32frombits(b), math.Float32frombits(b & UnitMask)
}

// EncodeMean returns the code of a mean x, a share of span·unit·largest. Shares above the value of
// the last code, and NaN, get the last code.
func EncodeMean(x float32, noise uint32) int8 {
	b := math.Float32bits(x)
	negative := int32(b) >> 31
	b = math.Float32bits(math.Float32frombits(b&^(1<<31)) + meanZero)
	code := min(int32((b+noise>>(32-MeanBits)-MeanLow)>>MeanBits), 127)
	return int8((code ^ negative) - negative)
}

// DecodeMean returns the share that a code stands for.
func DecodeMean(code int8) float32 {
	if code < 0 {
		return -DecodeMean(max(-code, -127))
	}
	return math.Float32frombits(uint32(code)<<MeanBits+MeanLow) - meanZero
}

// MeanSpan returns the span of the codes of means. By the inequality of Cauchy and Schwarz a mean is
// at most (1-β₁)/√(1-β₂)/√(1-β₁²/β₂) times the root: no mean is out of range if β₁² < β₂.
func MeanSpan(beta1, beta2 float64) float64 {
	ratio := min(beta1*beta1/beta2, 0.99) // 0.99: else the precision would get lost
	return meanRoom / meanMost * (1 - beta1) / math.Sqrt((1-beta2)*(1-ratio))
}

// Dither returns the noise by which update t rounds the root and the mean of element 0 of a block;
// element i adds i·DitherElement to both. The numbers of successive updates, and of neighbours, are
// spread evenly (Weyl, 1916): a share p of any run of updates rounds up, nearly exactly, where
// random bits would make a random walk. The multipliers are the golden ratio, √2 and √3 modulo 1,
// times 2³².
func Dither(t uint32) (root, mean uint32) { return t * DitherRoot, t * DitherMean }

// The constants of Dither.
const (
	DitherRoot    = 0x9E3779B9
	DitherMean    = 0x6A09E667
	DitherElement = 0xBB67AE85
)
