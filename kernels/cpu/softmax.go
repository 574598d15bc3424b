package cpu

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// softRun is how many exponentials are held on the stack at once, and how many columns are normalised together.
const softRun = 128

// softGrain is the elements of a piece: an element costs an exponential.
const softGrain = 4 * 1024

func bindSoftmax(b *binding) (func(), error) {
	switch b.In[0].Type {
	case arena.Float32:
		return bindSoftmaxOf[float32](b)
	case arena.Float64:
		return bindSoftmaxOf[float64](b)
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

func bindSoftmaxOf[T float](b *binding) (func(), error) {
	s := b.In[0].Shape
	axis := b.Attrs.(kernels.SoftmaxAttrs).Axis
	outer, n, inner := s[:axis].Elems(), s[axis], s[axis+1:].Elems()
	if outer*n*inner == 0 {
		return nil, nil
	}
	x, y := in[T](b, 0), out[T](b, 0)
	dy := x // unless it is a gradient, whose inputs are (y, dy)
	if len(b.In) > 1 {
		dy = in[T](b, 1)
	}
	if inner == 1 {
		return bindSoftmaxRows(b, y, x, dy, outer, n), nil
	}
	var column func(dst, x, dy []T, n, stride int)
	switch b.Op {
	case kernels.Softmax:
		column = func(dst, x, _ []T, n, stride int) { softmaxColumns(dst, x, n, stride, false) }
	case kernels.LogSoftmax:
		column = func(dst, x, _ []T, n, stride int) { softmaxColumns(dst, x, n, stride, true) }
	case kernels.SoftmaxGrad:
		column = func(dst, y, dy []T, n, stride int) { softmaxGradColumns(dst, y, dy, n, stride, false) }
	case kernels.LogSoftmaxGrad:
		column = func(dst, y, dy []T, n, stride int) { softmaxGradColumns(dst, y, dy, n, stride, true) }
	}
	tiles := (inner + softRun - 1) / softRun
	return b.over(outer*tiles, softGrain/(n*min(inner, softRun)), func(lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			at := i/tiles*n*inner + i%tiles*softRun
			end := i/tiles*n*inner + (n-1)*inner + min(inner, (i%tiles+1)*softRun)
			column(y[at:end], x[at:end], dy[at:end], n, inner)
		}
	}), nil
}

// bindSoftmaxRows binds any of the four ops along the last axis.
func bindSoftmaxRows[T float](b *binding, y, x, dy []T, rows, n int) func() {
	k := softmaxAt[T](b.dev.level, n)
	var f func(dst, x, dy []T, n int)
	switch b.Op {
	case kernels.Softmax:
		f = func(dst, x, _ []T, n int) { k.softmax(dst, x, n) }
	case kernels.LogSoftmax:
		f = func(dst, x, _ []T, n int) { k.logSoftmax(dst, x, n) }
	case kernels.SoftmaxGrad:
		f = k.softmaxGrad
	case kernels.LogSoftmaxGrad:
		f = k.logSoftmaxGrad
	}
	return b.over(rows, softGrain/n, func(lo, hi, _ int) { f(y[lo*n:hi*n], x[lo*n:hi*n], dy[lo*n:hi*n], n) })
}

// softmaxColumns normalises columns of n elements that lie stride apart; x holds from the first row's first column to
// the last row's last.
func softmaxColumns[T float](dst, x []T, n, stride int, log bool) {
	w := len(x) - (n-1)*stride
	var most, tile [softRun]T
	var sum [softRun]float64
	copy(most[:w], x)
	for k := 1; k < n; k++ {
		for j, v := range x[k*stride : k*stride+w] {
			if v > most[j] || v != v {
				most[j] = v
			}
		}
	}
	for k := range n {
		subTile(tile[:w], x[k*stride:], most[:w])
		expInto(tile[:w], tile[:w], 0)
		for j, v := range tile[:w] {
			sum[j] += float64(v)
		}
	}
	for k := range n {
		to, from := dst[k*stride:k*stride+w], x[k*stride:k*stride+w]
		subTile(tile[:w], from, most[:w])
		if log {
			for j, v := range tile[:w] {
				to[j] = v - T(math.Log(sum[j]))
			}
			continue
		}
		expInto(tile[:w], tile[:w], 0)
		for j, v := range tile[:w] {
			to[j] = T(float64(v) / sum[j])
		}
	}
}

// softmaxGradColumns is the gradient of softmaxColumns.
func softmaxGradColumns[T float](dst, y, dy []T, n, stride int, log bool) {
	w := len(y) - (n-1)*stride
	var tile [softRun]T
	var sum [softRun]float64
	for k := range n {
		p, g := y[k*stride:k*stride+w], dy[k*stride:k*stride+w]
		for j, v := range g {
			if log {
				sum[j] += float64(v)
			} else {
				sum[j] += float64(v) * float64(p[j])
			}
		}
	}
	for k := range n {
		to, p, g := dst[k*stride:k*stride+w], y[k*stride:k*stride+w], dy[k*stride:k*stride+w]
		if log {
			expInto(tile[:w], p, 0)
			for j, v := range tile[:w] {
				to[j] = g[j] - v*T(sum[j])
			}
			continue
		}
		for j, v := range p {
			to[j] = v * (g[j] - T(sum[j]))
		}
	}
}
