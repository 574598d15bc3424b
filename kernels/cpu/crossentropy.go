package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/elementwise"
)

// Cross entropy of logits [R, C] with class indices [R] or distributions [R, C], its gradients, and
// whether the largest logit is the label's. Threads split rows. Rows are computed by
// internal/asm/elementwise.

// labels are class indices or row numbers in any integer type.
type labels struct {
	u8  []uint8
	i32 []int32
	i64 []int64
}

// newLabels returns input k as labels.
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

// bindCrossEntropy prepares any of the six ops.
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
	if rows == 0 {
		return nil, nil
	}
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
	k := elementwise.SoftmaxAt[T](b.dev.level, n)
	var f func(lo, hi, worker int)
	grain := softGrain
	switch b.Op {
	case kernels.CrossEntropy:
		labels := label.buffers(b, grain/max(n, 1), n)
		f = func(lo, hi, worker int) { k.CrossEntropy(y[lo:hi], x[lo*n:hi*n], labels(lo, hi, worker), n) }
	case kernels.CrossEntropyGrad:
		labels := label.buffers(b, grain/max(n, 1), n)
		read := withoutOverlap(b, x, grain, n)
		f = func(lo, hi, worker int) {
			k.CrossEntropyGrad(y[lo*n:hi*n], read(lo*n, hi*n, worker), labels(lo, hi, worker), dy[lo:hi], n)
		}
	case kernels.CrossEntropyDense:
		f = func(lo, hi, _ int) { k.CrossEntropyDense(y[lo:hi], x[lo*n:hi*n], target[lo*n:hi*n], n) }
	case kernels.CrossEntropyDenseGrad:
		f = func(lo, hi, _ int) {
			k.CrossEntropyDenseGrad(y[lo*n:hi*n], x[lo*n:hi*n], target[lo*n:hi*n], dy[lo:hi], n)
		}
	case kernels.Correct:
		grain = cheapGrain
		f = eachIndex(func(i int) { y[i] = T(elementwise.Truth(argmax(x[i*n:(i+1)*n]) == label.at(i, n))) })
	case kernels.CorrectDense:
		grain = cheapGrain
		f = eachIndex(func(i int) { y[i] = T(elementwise.Truth(argmax(x[i*n:(i+1)*n]) == argmax(target[i*n:(i+1)*n]))) })
	}
	return b.parallelFor(rows, grain/max(n, 1), f), nil
}

// eachIndex returns a function that calls f with each index of a range.
func eachIndex(f func(i int)) func(lo, hi, worker int) {
	return func(lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			f(i)
		}
	}
}

// buffers returns a function that returns labels lo..hi-1, at most most of them, as int32; -1 for a
// label that is not below n.
func (l *labels) buffers(b *binding, most, n int) func(lo, hi, worker int) []int32 {
	each := make([][]int32, b.dev.pool.threads())
	for i := range each {
		each[i] = make([]int32, max(most, 1))
	}
	return func(lo, hi, worker int) []int32 {
		buffer := each[worker][:hi-lo]
		for i := range buffer {
			buffer[i] = int32(l.at(lo+i, n))
		}
		return buffer
	}
}

// withoutOverlap returns a function that returns elements lo..hi-1 of x, at most most of them, for
// a kernel over rows of n elements. It returns a copy where the output overwrites x and a row is
// shorter than a vector: there the masked load of a row would wait until the masked store of the
// row before it reaches the cache, because the processor compares whole vectors. That took 34 ns a
// row instead of 11 on Zen 5.
func withoutOverlap[T float](b *binding, x []T, most, n int) func(lo, hi, worker int) []T {
	if !same(b.bytes(b.In[0]), b.bytes(b.Out[0])) || int64(n)*b.In[0].Type.Size() >= vectorBytes {
		return func(lo, hi, _ int) []T { return x[lo:hi] }
	}
	each := make([][]T, b.dev.pool.threads())
	for i := range each {
		each[i] = make([]T, max(most, n))
	}
	return func(lo, hi, worker int) []T {
		copied := each[worker][:hi-lo]
		copy(copied, x[lo:hi])
		return copied
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
