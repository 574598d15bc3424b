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
	var row func(dst, x, dy []T)
	var column func(dst, x, dy []T, n, stride int)
	switch b.Op {
	case kernels.Softmax:
		row = func(dst, x, _ []T) { softmaxRow(dst, x) }
		column = func(dst, x, _ []T, n, stride int) { softmaxColumns(dst, x, n, stride, false) }
	case kernels.LogSoftmax:
		row = func(dst, x, _ []T) { logSoftmaxRow(dst, x) }
		column = func(dst, x, _ []T, n, stride int) { softmaxColumns(dst, x, n, stride, true) }
	case kernels.SoftmaxGrad:
		row, column = softmaxGradRow[T], func(dst, y, dy []T, n, stride int) { softmaxGradColumns(dst, y, dy, n, stride, false) }
	case kernels.LogSoftmaxGrad:
		row, column = logSoftmaxGradRow[T], func(dst, y, dy []T, n, stride int) { softmaxGradColumns(dst, y, dy, n, stride, true) }
	}
	if inner == 1 {
		return b.over(outer, softGrain/n, func(lo, hi, _ int) {
			for i := lo * n; i < hi*n; i += n {
				row(y[i:i+n], x[i:i+n], dy[i:i+n])
			}
		}), nil
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

func softmaxRow[T float](dst, x []T) {
	expInto(dst, x, maxOf(x))
	scale := T(1 / sumOf(dst))
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
		total += float64(sumRun(tile[:n]))
		x = x[n:]
	}
	return total
}

func logSoftmaxRow[T float](dst, x []T) {
	m := maxOf(x)
	log := T(math.Log(sumExp(x, m)))
	for i, v := range x {
		dst[i] = v - m - log
	}
}

// softmaxGradRow computes dx = y (dy - y·dy).
func softmaxGradRow[T float](dst, y, dy []T) {
	dot := T(dotOf(y, dy))
	dy, dst = dy[:len(y)], dst[:len(y)]
	for i, v := range y {
		dst[i] = v * (dy[i] - dot)
	}
}

// logSoftmaxGradRow computes dx = dy - exp(y) Σdy.
func logSoftmaxGradRow[T float](dst, y, dy []T) {
	sum := T(sumOf(dy))
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
