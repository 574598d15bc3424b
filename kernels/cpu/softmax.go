package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/elementwise"
)

// Softmax, log softmax and their gradients along one axis of x [outer, n, inner]. Along the last
// axis (inner = 1) rows are contiguous and computed by internal/asm/elementwise; along another axis
// some columns are computed together by elementwise functions. Threads split rows, or blocks of
// columns.

// softRun is the number of columns that are normalised together.
const softRun = 128

// softGrain is the elements of a piece: an element costs an exponential.
const softGrain = 4 * 1024

// bindSoftmax prepares any of the four ops.
func bindSoftmax(b *binding) (func(), error) {
	switch b.In[0].Type {
	case arena.Float32:
		return bindSoftmaxOf[float32](b)
	case arena.Float64:
		return bindSoftmaxOf[float64](b)
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

// bindSoftmaxOf prepares it for T.
func bindSoftmaxOf[T float](b *binding) (func(), error) {
	s := b.In[0].Shape
	axis := b.Attrs.(kernels.SoftmaxAttrs).Axis
	outer, n, inner := s[:axis].Elems(), s[axis], s[axis+1:].Elems()
	if outer*n*inner == 0 {
		return nil, nil
	}
	x, y := in[T](b, 0), out[T](b, 0)
	dy := x // unless the op is a gradient, whose inputs are (y, dy)
	if len(b.In) > 1 {
		dy = in[T](b, 1)
	}
	if inner == 1 {
		return bindSoftmaxRows(b, y, x, dy, outer, n), nil
	}
	c := newColumns[T](b)
	// A part is a block of at most softRun columns of one outer index.
	tiles := (inner + softRun - 1) / softRun
	return b.parallelFor(outer*tiles, softGrain/(n*min(inner, softRun)), func(lo, hi, worker int) {
		for i := lo; i < hi; i++ {
			at := i/tiles*n*inner + i%tiles*softRun
			end := i/tiles*n*inner + (n-1)*inner + min(inner, (i%tiles+1)*softRun)
			c.compute(y[at:end], x[at:end], dy[at:end], n, inner, worker)
		}
	}), nil
}

// bindSoftmaxRows binds any of the four ops along the last axis.
func bindSoftmaxRows[T float](b *binding, y, x, dy []T, rows, n int) func() {
	k := elementwise.SoftmaxAt[T](b.dev.level, n)
	var f func(dst, x, dy []T, n int)
	switch b.Op {
	case kernels.Softmax:
		f = func(dst, x, _ []T, n int) { k.Softmax(dst, x, n) }
	case kernels.LogSoftmax:
		f = func(dst, x, _ []T, n int) { k.LogSoftmax(dst, x, n) }
	case kernels.SoftmaxGrad:
		f = k.SoftmaxGrad
	case kernels.LogSoftmaxGrad:
		f = k.LogSoftmaxGrad
	}
	return b.parallelFor(rows, softGrain/n, func(lo, hi, _ int) { f(y[lo*n:hi*n], x[lo*n:hi*n], dy[lo*n:hi*n], n) })
}

// sumRows is the number of rows that are added before their sum is added to the total, so that
// chains of roundings stay short.
const sumRows = 64

// A softmaxColumns computes along an axis that is not the last one: some columns at a time, of n
// elements that lie stride apart.
type softmaxColumns[T float] struct {
	op                 *kernels.Op
	add, sub, mul, max elementwise.BinaryFunc[T]
	exp, log, inverse  elementwise.UnaryFunc[T]
	workers            []columnState[T]
}

// A columnState holds what one worker writes to: one element for each column.
type columnState[T float] struct{ most, sum, total, tile [softRun]T }

// newColumns binds the elementwise functions that compute columns.
func newColumns[T float](b *binding) *softmaxColumns[T] {
	l := b.dev.level
	binary := func(op *kernels.Op) elementwise.BinaryFunc[T] { return elementwise.Binary[T](l, op, nil) }
	unary := func(op *kernels.Op) elementwise.UnaryFunc[T] { return elementwise.Unary[T](l, op, nil) }
	return &softmaxColumns[T]{
		op: b.Op, add: binary(kernels.Add), sub: binary(kernels.Sub), mul: binary(kernels.Mul), max: elementwise.At[T](l).Max,
		exp: unary(kernels.Exp), log: unary(kernels.Log), inverse: unary(kernels.Inverse),
		workers: make([]columnState[T], b.dev.pool.threads()),
	}
}

// compute computes w columns of n rows. Slices go from the first row's first column to the last
// row's last one. For a gradient x is y.
func (c *softmaxColumns[T]) compute(dst, x, dy []T, n, stride, worker int) {
	w := len(x) - (n-1)*stride
	k := &c.workers[worker]
	tile, total := k.tile[:w], k.total[:w]
	row := func(s []T, i int) []T { return s[i*stride : i*stride+w] }
	switch c.op {
	case kernels.Softmax, kernels.LogSoftmax:
		c.normalise(dst, x, n, row, k, w)
	case kernels.SoftmaxGrad:
		c.sum(k, w, n, func(i int) []T {
			c.mul(tile, row(x, i), row(dy, i))
			return tile
		})
		for i := range n {
			c.sub(tile, row(dy, i), total)
			c.mul(row(dst, i), tile, row(x, i))
		}
	case kernels.LogSoftmaxGrad:
		c.sum(k, w, n, func(i int) []T { return row(dy, i) })
		for i := range n {
			c.exp(tile, row(x, i))
			c.mul(tile, tile, total)
			c.sub(row(dst, i), row(dy, i), tile)
		}
	}
}

// normalise computes a softmax, which keeps its exponentials in dst until they are divided, or a
// log softmax.
func (c *softmaxColumns[T]) normalise(dst, x []T, n int, row func(s []T, i int) []T, k *columnState[T], w int) {
	most, tile, total := k.most[:w], k.tile[:w], k.total[:w]
	// The largest element of each column is subtracted first, so that no exponential overflows.
	copy(most, row(x, 0))
	for i := 1; i < n; i++ {
		c.max(most, most, row(x, i))
	}
	c.sum(k, w, n, func(i int) []T {
		to := tile
		if c.op == kernels.Softmax {
			to = row(dst, i)
		}
		c.sub(to, row(x, i), most)
		c.exp(to, to)
		return to
	})
	if c.op == kernels.Softmax {
		c.inverse(total, total)
		for i := range n {
			c.mul(row(dst, i), row(dst, i), total)
		}
		return
	}
	c.log(total, total)
	for i := range n {
		c.sub(tile, row(x, i), most)
		c.sub(row(dst, i), tile, total)
	}
}

// sum sets total to the sums of the n rows that next computes.
func (c *softmaxColumns[T]) sum(k *columnState[T], w, n int, next func(i int) []T) {
	sum, total := k.sum[:w], k.total[:w]
	// Sums of sumRows rows are added to the total: two levels keep the error small.
	clear(total)
	for i := 0; i < n; i += sumRows {
		clear(sum)
		for j := i; j < min(n, i+sumRows); j++ {
			c.add(sum, sum, next(j))
		}
		c.add(total, total, sum)
	}
}
