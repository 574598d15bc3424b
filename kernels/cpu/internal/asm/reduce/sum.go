package reduce

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// runLen is the most elements that are added in their own type.
const runLen = 256

// Sum returns Σx: runs of runLen elements are added in their own type, and their sums in float64.
func Sum[T asm.Float](x []T) float64 {
	total := 0.0
	for len(x) > runLen {
		total += float64(SumRun(x[:runLen]))
		x = x[runLen:]
	}
	return total + float64(SumRun(x))
}

// SumRun returns Σx, added in T with eight partial sums.
func SumRun[T asm.Float](x []T) T {
	var a, b, c, d, e, f, g, h T
	for ; len(x) >= 8; x = x[8:] {
		a += x[0]
		b += x[1]
		c += x[2]
		d += x[3]
		e += x[4]
		f += x[5]
		g += x[6]
		h += x[7]
	}
	for _, v := range x {
		a += v
	}
	return ((a + b) + (c + d)) + ((e + f) + (g + h))
}

// Dot returns Σxy, in runs as Sum does. y has at least as many elements as x.
func Dot[T asm.Float](x, y []T) float64 {
	y = y[:len(x)]
	total := 0.0
	for len(x) > runLen {
		total += float64(dotRun(x[:runLen], y[:runLen]))
		x, y = x[runLen:], y[runLen:]
	}
	return total + float64(dotRun(x, y))
}

// dotRun returns Σxy, added in T with four partial sums.
func dotRun[T asm.Float](x, y []T) T {
	var a, b, c, d T
	for ; len(x) >= 4 && len(y) >= 4; x, y = x[4:], y[4:] {
		a += x[0] * y[0]
		b += x[1] * y[1]
		c += x[2] * y[2]
		d += x[3] * y[3]
	}
	y = y[:len(x)]
	for i, v := range x {
		a += v * y[i]
	}
	return (a + b) + (c + d)
}
