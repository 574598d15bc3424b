// Package number reads decimal numbers of text formats, rounded once. Blanks, underscores,
// hexadecimal digits, NaN and infinities are no numbers.
package number

import (
	"math"
	"strconv"
	"unsafe"
)

// decimal is a decimal number: mantissa·10^exponent.
type decimal struct {
	mantissa uint64
	exponent int
	negative bool
	exact    bool // mantissa holds all digits
}

// parseDecimal reads the decimal number that b is. ok is false if b is not one, as a number with
// blanks, underscores or hexadecimal digits.
func parseDecimal(b []byte) (d decimal, ok bool) {
	i := 0
	if i < len(b) && (b[i] == '-' || b[i] == '+') {
		d.negative = b[i] == '-'
		i++
	}
	first := i
	for ; i < len(b) && b[i]-'0' <= 9; i++ {
		d.mantissa = d.mantissa*10 + uint64(b[i]-'0')
	}
	digits := i - first
	if i < len(b) && b[i] == '.' {
		i++
		from := i
		for ; i < len(b) && b[i]-'0' <= 9; i++ {
			d.mantissa = d.mantissa*10 + uint64(b[i]-'0')
		}
		d.exponent = from - i
		digits += i - from
	}
	if digits == 0 {
		return d, false
	}
	d.exact = digits <= 19 // 10^19 fits into 64 bits
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		sign := 1
		if i < len(b) && (b[i] == '-' || b[i] == '+') {
			if b[i] == '-' {
				sign = -1
			}
			i++
		}
		from, e := i, 0
		for ; i < len(b) && b[i]-'0' <= 9; i++ {
			e = min(e*10+int(b[i]-'0'), 1e6)
		}
		if i == from {
			return d, false
		}
		d.exponent += sign * e
	}
	return d, i == len(b)
}

// powers are the powers of ten that a float64 holds.
var powers = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// float64 returns the nearest float64 where one operation computes it: mantissa and power are exact.
// Source: Clinger, How to read floating point numbers accurately, PLDI 1990.
func (d decimal) float64() (x float64, ok bool) {
	if !d.exact || d.mantissa >= 1<<53 || d.exponent < -22 || d.exponent > 22 {
		return 0, false
	}
	if x = float64(d.mantissa); d.exponent < 0 {
		x /= powers[-d.exponent]
	} else {
		x *= powers[d.exponent]
	}
	if d.negative {
		x = -x
	}
	return x, true
}

// float32 returns the nearest float32, unless the nearest float64 is the middle of two of them, where
// its own rounding decides. All that float64 computes is within the range of float32.
func (d decimal) float32() (x float32, ok bool) {
	wide, ok := d.float64()
	const below = 1<<29 - 1 // bits of a float64 below those of a float32
	if !ok || math.Float64bits(wide)&below == 1<<28 {
		return 0, false
	}
	return float32(wide), true
}

// Float64 returns the nearest float64 to the number that b is. wrong is "" or what is wrong with b.
func Float64(b []byte) (x float64, wrong string) {
	d, ok := parseDecimal(b)
	if !ok {
		return 0, NotNumber
	}
	if x, ok := d.float64(); ok {
		return x, ""
	}
	x, err := strconv.ParseFloat(text(b), 64)
	if err != nil {
		return 0, OutOfRange
	}
	return x, ""
}

// Float32 returns the nearest float32 to the number that b is, as Float64 does.
func Float32(b []byte) (x float32, wrong string) {
	d, ok := parseDecimal(b)
	if !ok {
		return 0, NotNumber
	}
	if x, ok := d.float32(); ok {
		return x, ""
	}
	wide, err := strconv.ParseFloat(text(b), 32)
	if err != nil {
		return 0, OutOfRange
	}
	return float32(wide), ""
}

// What is wrong with a value.
const (
	NotNumber  = "no number"
	NotWhole   = "no whole number"
	OutOfRange = "out of range"
)

// Int returns the whole number that b is, which must be lo to hi, as Float64 does. It has no point
// and no exponent.
func Int(b []byte, lo, hi int64) (x int64, wrong string) {
	digits := b
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		digits = b[1:]
	}
	if len(digits) == 0 {
		return 0, NotWhole
	}
	m, significant := uint64(0), 0
	for _, c := range digits {
		if c-'0' > 9 {
			return 0, NotWhole
		}
		if m = m*10 + uint64(c-'0'); m > 0 || significant > 0 {
			significant++
		}
	}
	negative := b[0] == '-'
	switch {
	case significant > 19: // 10^19 fits into 64 bits
		return 0, OutOfRange
	case negative && m <= 1<<63:
		x = int64(-m)
	case m < 1<<63:
		x = int64(m)
	default:
		return 0, OutOfRange
	}
	if x < lo || x > hi {
		return 0, OutOfRange
	}
	return x, ""
}

// text returns b as a string, which must not be kept.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
