package numeric

// The parameter top of Encode8 and Decode8: the code of a mean has a sign and seven bits, the code
// of a root eight bits.
const (
	TopSigned   = 6
	TopUnsigned = 7
)

// Least8 is the least nonzero value of a block's largest mean or root. A block with a smaller one
// becomes 0: its steps would be negligible, and the values of its codes would be denormal numbers,
// on which a processor is a hundred times slower.
const Least8 = 0x1p-80

// Encode8 returns the code of x ≥ 0: the one whose value is nearest, the larger code for ties.
// Codes are 0 to 2·2^top - 1. Code 0 is the value 0; codes 2^k to 2·2^k - 1 are spread evenly over
// the interval from 8^(k-top-1), exclusive, to 8^(k-top), for k from 0 to top. From 1 on, and for
// NaN, the result is the last code.
func Encode8[T float32 | float64](x T, top int) int {
	if !(x < 1) {
		return 2<<top - 1
	}
	k := top
	for ; k > 0 && x < 0.125; k-- {
		x *= 8
	}
	return 1<<k - 1 + int((8*x-1)*T(int(1)<<k)/7+0.5)
}

// Decode8 returns the value of a code, from 0 to 1.
func Decode8[T float32 | float64](code, top int) T {
	if code == 0 {
		return 0
	}
	k := top
	x := T(0.125)
	for ; code < 1<<k; k-- {
		x *= 0.125
	}
	return x * (1 + 7*T(code-1<<k+1)/T(int(1)<<k))
}
