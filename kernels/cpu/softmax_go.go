package cpu

import (
	"math"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/reduce"
)

// softmaxKernels are the functions of rows of n elements that follow one another, of one level for one type. Labels below 0
// are none. dst may be an operand of the same shape.
type softmaxKernels[T float] struct {
	softmax, logSoftmax         func(dst, x []T, n int)
	softmaxGrad, logSoftmaxGrad func(dst, y, dy []T, n int)
	crossEntropy                func(dst, x []T, label []int32, n int)
	crossEntropyGrad            func(dst, x []T, label []int32, dy []T, n int)
	crossEntropyDense           func(dst, x, target []T, n int)
	crossEntropyDenseGrad       func(dst, x, target, dy []T, n int)
}

// longRow is the longest row for the assembly: it sums a row in 16 float32, and nothing stops it halfway.
const longRow = 1 << 18

// softmaxAt returns the functions of a level for rows of n elements.
func softmaxAt[T float](l asm.Level, n int) *softmaxKernels[T] {
	if n > longRow || n == 0 {
		l = asm.Portable
	}
	var zero T
	if _, single := any(zero).(float32); single {
		return any(softmax32(l)).(*softmaxKernels[T])
	}
	return any(&goSoftmax64).(*softmaxKernels[T])
}

var (
	goSoftmax32 = newGoSoftmax[float32]()
	goSoftmax64 = newGoSoftmax[float64]()
)

// newGoSoftmax calls the functions of one row.
func newGoSoftmax[T float]() softmaxKernels[T] {
	return softmaxKernels[T]{
		softmax:        eachRow(softmaxRow[T]),
		logSoftmax:     eachRow(logSoftmaxRow[T]),
		softmaxGrad:    eachPair(softmaxGradRow[T]),
		logSoftmaxGrad: eachPair(logSoftmaxGradRow[T]),
		crossEntropy: func(dst, x []T, label []int32, n int) {
			for i := range dst {
				dst[i] = crossEntropy(x[i*n:(i+1)*n], int(label[i]))
			}
		},
		crossEntropyGrad: func(dst, x []T, label []int32, dy []T, n int) {
			for i, g := range dy {
				crossEntropyGrad(dst[i*n:(i+1)*n], x[i*n:(i+1)*n], int(label[i]), g)
			}
		},
		crossEntropyDense: func(dst, x, target []T, n int) {
			for i := range dst {
				dst[i] = crossEntropyDense(x[i*n:(i+1)*n], target[i*n:(i+1)*n])
			}
		},
		crossEntropyDenseGrad: func(dst, x, target, dy []T, n int) {
			for i, g := range dy {
				crossEntropyDenseGrad(dst[i*n:(i+1)*n], x[i*n:(i+1)*n], target[i*n:(i+1)*n], g)
			}
		},
	}
}

func eachRow[T float](row func(dst, x []T)) func(dst, x []T, n int) {
	return func(dst, x []T, n int) {
		for i := 0; i < len(x); i += n {
			row(dst[i:i+n], x[i:i+n])
		}
	}
}

func eachPair[T float](row func(dst, y, dy []T)) func(dst, y, dy []T, n int) {
	return func(dst, y, dy []T, n int) {
		for i := 0; i < len(y); i += n {
			row(dst[i:i+n], y[i:i+n], dy[i:i+n])
		}
	}
}

func softmaxRow[T float](dst, x []T) {
	expInto(dst, x, reduce.Max(x))
	scale := T(1 / reduce.Sum(dst))
	for i, v := range dst {
		dst[i] = v * scale
	}
}

// sumExp returns the sum of exp(x - m).
func sumExp[T float](x []T, m T) float64 {
	var tile [softRun]T
	total := 0.0
	for len(x) > 0 {
		n := min(len(x), softRun)
		expInto(tile[:n], x[:n], m)
		total += float64(reduce.SumRun(tile[:n]))
		x = x[n:]
	}
	return total
}

func logSoftmaxRow[T float](dst, x []T) {
	m := reduce.Max(x)
	log := T(math.Log(sumExp(x, m)))
	for i, v := range x {
		dst[i] = v - m - log
	}
}

// softmaxGradRow computes dx = y (dy - y·dy).
func softmaxGradRow[T float](dst, y, dy []T) {
	dot := T(reduce.Dot(y, dy))
	dy, dst = dy[:len(y)], dst[:len(y)]
	for i, v := range y {
		dst[i] = v * (dy[i] - dot)
	}
}

// logSoftmaxGradRow computes dx = dy - exp(y) Σdy.
func logSoftmaxGradRow[T float](dst, y, dy []T) {
	sum := T(reduce.Sum(dy))
	var tile [softRun]T
	for len(y) > 0 {
		n := min(len(y), softRun)
		expInto(tile[:n], y[:n], 0)
		for i, p := range tile[:n] {
			dst[i] = dy[i] - p*sum
		}
		y, dy, dst = y[n:], dy[n:], dst[n:]
	}
}

// crossEntropy returns log Σ exp(x - x[label]). The label's own term is 1 and enters by log1p, so that a small loss keeps
// its digits.
func crossEntropy[T float](x []T, label int) T {
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

// crossEntropyGrad computes dx = (softmax(x) - onehot(label)) dy. The label's own element is minus the sum of the
// others, which does not cancel.
func crossEntropyGrad[T float](dst, x []T, label int, dy T) {
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

// crossEntropyDense computes -Σ target logsoftmax(x).
func crossEntropyDense[T float](x, target []T) T {
	m := reduce.Max(x)
	log := T(math.Log(sumExp(x, m)))
	total := 0.0
	for i, t := range target[:len(x)] {
		total += float64(t) * float64(log-(x[i]-m))
	}
	return T(total)
}

// crossEntropyDenseGrad computes dx = (softmax(x) Σtarget - target) dy.
func crossEntropyDenseGrad[T float](dst, x, target []T, dy T) {
	m := reduce.Max(x)
	scale := T(reduce.Sum(target) / sumExp(x, m))
	var tile [softRun]T
	for len(x) > 0 {
		n := min(len(x), softRun)
		expInto(tile[:n], x[:n], m)
		for i, p := range tile[:n] {
			dst[i] = (T(p*scale) - target[i]) * dy
		}
		x, target, dst = x[n:], target[n:], dst[n:]
	}
}
