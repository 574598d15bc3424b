package cpu

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// labels are class indices or row numbers in any integer type.
type labels struct {
	u8  []uint8
	i32 []int32
	i64 []int64
}

func newLabels(b *binding, k int) labels {
	switch b.In[k].Type {
	case arena.Uint8:
		return labels{u8: in[uint8](b, k)}
	case arena.Int32:
		return labels{i32: in[int32](b, k)}
	}
	return labels{i64: in[int64](b, k)}
}

// at returns label i, or -1 where it is not below n.
func (l *labels) at(i, n int) int {
	var v int64
	switch {
	case l.i32 != nil:
		v = int64(l.i32[i])
	case l.u8 != nil:
		v = int64(l.u8[i])
	default:
		v = l.i64[i]
	}
	if v < 0 || v >= int64(n) {
		return -1
	}
	return int(v)
}

func bindCrossEntropy(b *binding) (func(), error) {
	switch b.In[0].Type {
	case arena.Float32:
		return bindCrossEntropyOf[float32](b)
	case arena.Float64:
		return bindCrossEntropyOf[float64](b)
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

// bindCrossEntropyOf binds all six ops on (logits [R, C], labels [R] or target [R, C]), by row.
func bindCrossEntropyOf[T float](b *binding) (func(), error) {
	rows, n := b.In[0].Shape[0], b.In[0].Shape[1]
	x, y := in[T](b, 0), out[T](b, 0)
	var label labels
	var target, dy []T
	if b.In[1].Type.Float() {
		target = in[T](b, 1)
	} else {
		label = newLabels(b, 1)
	}
	if len(b.In) > 2 {
		dy = in[T](b, 2)
	}
	row := func(i int) []T { return x[i*n : (i+1)*n] }
	want := func(i int) []T { return target[i*n : (i+1)*n] }
	var f func(i int)
	grain := softGrain
	switch b.Op {
	case kernels.CrossEntropy:
		f = func(i int) { y[i] = crossEntropy(row(i), label.at(i, n)) }
	case kernels.CrossEntropyGrad:
		f = func(i int) { crossEntropyGrad(y[i*n:(i+1)*n], row(i), label.at(i, n), dy[i]) }
	case kernels.CrossEntropyDense:
		f = func(i int) { y[i] = crossEntropyDense(row(i), want(i)) }
	case kernels.CrossEntropyDenseGrad:
		f = func(i int) { crossEntropyDenseGrad(y[i*n:(i+1)*n], row(i), want(i), dy[i]) }
	case kernels.Correct:
		grain = cheapGrain
		f = func(i int) { y[i] = T(truth(argmax(row(i)) == label.at(i, n))) }
	case kernels.CorrectDense:
		grain = cheapGrain
		f = func(i int) { y[i] = T(truth(argmax(row(i)) == argmax(want(i)))) }
	}
	return b.over(rows, grain/max(n, 1), func(lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			f(i)
		}
	}), nil
}

// crossEntropy returns log Σ exp(x - x[label]). The label's own term is 1 and enters by log1p, so that a small loss keeps
// its digits.
func crossEntropy[T float](x []T, label int) T {
	if label < 0 {
		return T(math.NaN())
	}
	m := maxOf(x)
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
		set(dst, T(math.NaN()))
		return
	}
	expInto(dst, x, maxOf(x))
	own := float64(dst[label])
	dst[label] = 0
	others := sumOf(dst)
	scale := T(float64(dy) / (others + own))
	for i, v := range dst {
		dst[i] = v * scale
	}
	dst[label] = T(-others / (others + own) * float64(dy))
}

// crossEntropyDense computes -Σ target logsoftmax(x).
func crossEntropyDense[T float](x, target []T) T {
	m := maxOf(x)
	log := T(math.Log(sumExp(x, m)))
	total := 0.0
	for i, t := range target[:len(x)] {
		total += float64(t) * float64(log-(x[i]-m))
	}
	return T(total)
}

// crossEntropyDenseGrad computes dx = (softmax(x) Σtarget - target) dy.
func crossEntropyDenseGrad[T float](dst, x, target []T, dy T) {
	m := maxOf(x)
	scale := T(sumOf(target) / sumExp(x, m))
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

// argmax returns the lowest index of the largest element.
func argmax[T float](x []T) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}
