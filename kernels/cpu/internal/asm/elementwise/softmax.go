package elementwise

import (
	"math"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/reduce"
)

// SoftmaxKernels are the functions of a level for one type over contiguous rows of n logits x. A
// label below 0 is no class: its loss and gradient are NaN. dst may be an operand of the same
// shape.
type SoftmaxKernels[T asm.Float] struct {
	Softmax, LogSoftmax         func(dst, x []T, n int)
	SoftmaxGrad, LogSoftmaxGrad func(dst, y, dy []T, n int)
	CrossEntropy                func(dst, x []T, label []int32, n int)
	CrossEntropyGrad            func(dst, x []T, label []int32, dy []T, n int)
	CrossEntropyDense           func(dst, x, target []T, n int)
	CrossEntropyDenseGrad       func(dst, x, target, dy []T, n int)
}

// expRun is the number of exponentials that are held on the stack at once.
const expRun = 128

// longRow is the longest row for assembly, which adds a row in 16 float32 sums and cannot be
// interrupted.
const longRow = 1 << 18

// SoftmaxAt returns the functions of level l for rows of n elements.
func SoftmaxAt[T asm.Float](l asm.Level, n int) *SoftmaxKernels[T] {
	if n > longRow || n == 0 {
		l = asm.Portable
	}
	var zero T
	if _, single := any(zero).(float32); single {
		return any(softmax32(l)).(*SoftmaxKernels[T])
	}
	return any(&goSoftmax64).(*SoftmaxKernels[T])
}

// The Go twins.
var (
	goSoftmax32 = newGoSoftmax[float32]()
	goSoftmax64 = newGoSoftmax[float64]()
)

// newGoSoftmax returns functions over rows that call the functions of one row.
func newGoSoftmax[T asm.Float]() SoftmaxKernels[T] {
	return SoftmaxKernels[T]{
		Softmax:        eachRow(softmaxRow[T]),
		LogSoftmax:     eachRow(logSoftmaxRow[T]),
		SoftmaxGrad:    eachPair(softmaxGradRow[T]),
		LogSoftmaxGrad: eachPair(logSoftmaxGradRow[T]),
		CrossEntropy: func(dst, x []T, label []int32, n int) {
			for i := range dst {
				dst[i] = crossEntropy(x[i*n:(i+1)*n], int(label[i]))
			}
		},
		CrossEntropyGrad: func(dst, x []T, label []int32, dy []T, n int) {
			for i, g := range dy {
				crossEntropyGrad(dst[i*n:(i+1)*n], x[i*n:(i+1)*n], int(label[i]), g)
			}
		},
		CrossEntropyDense: func(dst, x, target []T, n int) {
			for i := range dst {
				dst[i] = crossEntropyDense(x[i*n:(i+1)*n], target[i*n:(i+1)*n])
			}
		},
		CrossEntropyDenseGrad: func(dst, x, target, dy []T, n int) {
			for i, g := range dy {
				crossEntropyDenseGrad(dst[i*n:(i+1)*n], x[i*n:(i+1)*n], target[i*n:(i+1)*n], g)
			}
		},
	}
}

// eachRow returns a function that calls row for each row.
func eachRow[T asm.Float](row func(dst, x []T)) func(dst, x []T, n int) {
	return func(dst, x []T, n int) {
		for i := 0; i < len(x); i += n {
			row(dst[i:i+n], x[i:i+n])
		}
	}
}

// eachPair is eachRow for two operands.
func eachPair[T asm.Float](row func(dst, y, dy []T)) func(dst, y, dy []T, n int) {
	return func(dst, y, dy []T, n int) {
		for i := 0; i < len(y); i += n {
			row(dst[i:i+n], y[i:i+n], dy[i:i+n])
		}
	}
}

// softmaxRow computes exp(x - max) / Σ exp(x - max).
func softmaxRow[T asm.Float](dst, x []T) {
	expInto(dst, x, reduce.Max(x))
	scale := T(1 / reduce.Sum(dst))
	for i, v := range dst {
		dst[i] = v * scale
	}
}

// sumExp returns the sum of exp(x - m).
func sumExp[T asm.Float](x []T, m T) float64 {
	var tile [expRun]T
	total := 0.0
	for len(x) > 0 {
		n := min(len(x), expRun)
		expInto(tile[:n], x[:n], m)
		total += float64(reduce.SumRun(tile[:n]))
		x = x[n:]
	}
	return total
}

// logSoftmaxRow computes x - max - log Σ exp(x - max).
func logSoftmaxRow[T asm.Float](dst, x []T) {
	m := reduce.Max(x)
	log := T(math.Log(sumExp(x, m)))
	for i, v := range x {
		dst[i] = v - m - log
	}
}

// softmaxGradRow computes dx = y (dy - y·dy).
func softmaxGradRow[T asm.Float](dst, y, dy []T) {
	dot := T(reduce.Dot(y, dy))
	dy, dst = dy[:len(y)], dst[:len(y)]
	for i, v := range y {
		dst[i] = v * (dy[i] - dot)
	}
}

// logSoftmaxGradRow computes dx = dy - exp(y) Σdy.
func logSoftmaxGradRow[T asm.Float](dst, y, dy []T) {
	sum := T(reduce.Sum(dy))
	var tile [expRun]T
	for len(y) > 0 {
		n := min(len(y), expRun)
		expInto(tile[:n], y[:n], 0)
		for i, p := range tile[:n] {
			dst[i] = dy[i] - p*sum
		}
		y, dy, dst = y[n:], dy[n:], dst[n:]
	}
}

// CrossEntropy returns log Σ exp(x - x[label]). The label's own term is 1 and enters by log1p, so
// that a small loss keeps its digits.
func crossEntropy[T asm.Float](x []T, label int) T {
	if label < 0 {
		return T(math.NaN())
	}
	m := reduce.Max(x)
	others := sumExp(x[:label], m) + sumExp(x[label+1:], m)
	d := float64(x[label] - m)
	if d < -1 {
		return T(math.Log(others+math.Exp(d)) - d)
	}
	return T(math.Log1p(others * math.Exp(-d)))
}

// CrossEntropyGrad computes dx = (softmax(x) - onehot(label)) dy. The label's own element is minus
// the sum of the others, which does not cancel.
func crossEntropyGrad[T asm.Float](dst, x []T, label int, dy T) {
	if label < 0 {
		asm.Fill(dst, T(math.NaN()))
		return
	}
	expInto(dst, x, reduce.Max(x))
	own := float64(dst[label])
	dst[label] = 0
	others := reduce.Sum(dst)
	scale := T(float64(dy) / (others + own))
	for i, v := range dst {
		dst[i] = v * scale
	}
	dst[label] = T(-others / (others + own) * float64(dy))
}

// CrossEntropyDense computes -Σ target logsoftmax(x).
func crossEntropyDense[T asm.Float](x, target []T) T {
	m := reduce.Max(x)
	log := T(math.Log(sumExp(x, m)))
	total := 0.0
	for i, t := range target[:len(x)] {
		total += float64(t) * float64(log-(x[i]-m))
	}
	return T(total)
}

// CrossEntropyDenseGrad computes dx = (softmax(x) Σtarget - target) dy.
func crossEntropyDenseGrad[T asm.Float](dst, x, target []T, dy T) {
	m := reduce.Max(x)
	scale := T(reduce.Sum(target) / sumExp(x, m))
	var tile [expRun]T
	for len(x) > 0 {
		n := min(len(x), expRun)
		expInto(tile[:n], x[:n], m)
		for i, p := range tile[:n] {
			dst[i] = (T(p*scale) - target[i]) * dy
		}
		x, target, dst = x[n:], target[n:], dst[n:]
	}
}
