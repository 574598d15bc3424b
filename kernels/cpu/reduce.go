package cpu

import (
	"fmt"
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// Reductions add in a fixed order: short runs in the type itself, over eight accumulators, and runs together in
// float64. Where a run is long it is cut at fixed places, and the pieces are added in order.

const (
	runLen   = 256       // elements added in their own type
	columns  = 128       // columns reduced at once
	pieceLen = 16 * 1024 // elements of a piece of a long run
)

// A reduction is where the operand's elements lie, split into dimensions that stay and dimensions that go.
type reduction struct {
	kept, gone walk
	rows       bool // the last dimension goes: outputs reduce contiguous runs
	inner      int  // elements of the last dimension
	outputs    int
	count      int // elements that one output reduces
}

func newReduction(a kernels.ReduceAttrs, s kernels.Shape) reduction {
	strides := rowMajor(s)
	r := reduction{outputs: 1, count: 1, inner: 1, rows: true}
	for k, d := range s {
		if len(a.Axes) == 0 || slices.Contains(a.Axes, k) {
			r.gone.add(d, strides[k])
			r.count *= d
		} else {
			r.kept.add(d, strides[k])
			r.outputs *= d
		}
	}
	last := func(w *walk) bool { return w.rank > 0 && w.stride[w.rank-1] == 1 }
	w := &r.gone
	if last(&r.kept) {
		r.rows, w = false, &r.kept
	} else if !last(&r.gone) {
		return r
	}
	w.rank--
	r.inner = w.dims[w.rank]
	return r
}

// cuts returns in how many pieces a run is reduced.
func (r *reduction) cuts() int {
	if r.rows && r.gone.rank == 0 && r.inner > pieceLen {
		return (r.inner + pieceLen - 1) / pieceLen
	}
	return 1
}

// reduceWork returns what the worst reduction up to this size needs: where dimensions are 1 their neighbours merge, and
// runs become long that are not so here. It keeps the outputs before some dimension, and cuts all that goes from there on.
func reduceWork(_ *Device, attrs any, in, _ []kernels.Spec) int64 {
	s, axes := in[0].Shape, attrs.(kernels.ReduceAttrs).Axes
	gone := func(k int) bool { return len(axes) == 0 || slices.Contains(axes, k) }
	if s.Elems() == 0 {
		return 0
	}
	before := 1
	for k, d := range s {
		if !gone(k) {
			before *= d
		}
	}
	pieces, run := 0, 1
	for k := len(s) - 1; k >= 0; k-- {
		if !gone(k) {
			before /= s[k]
		} else if run *= s[k]; run > pieceLen {
			pieces = max(pieces, before*over(run, pieceLen))
		}
	}
	return int64(pieces) * 8
}

func bindReduce(b *binding) (func(), error) {
	switch b.In[0].Type {
	case arena.Float32:
		return bindReduceOf[float32](b)
	case arena.Float64:
		return bindReduceOf[float64](b)
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

func bindReduceOf[T float](b *binding) (func(), error) {
	r := newReduction(b.Attrs.(kernels.ReduceAttrs), b.In[0].Shape)
	x, y := in[T](b, 0), out[T](b, 0)
	max, scale := b.Op == kernels.Max, 1.0
	if b.Op == kernels.Mean {
		scale = float64(r.count)
	}
	cuts := r.cuts()
	switch {
	case r.outputs == 0:
		return nil, nil
	case r.count == 0:
		v := T(0 / scale)
		if max {
			v = T(math.Inf(-1))
		}
		return func() { set(y, v) }, nil
	case !r.rows:
		return bindColumns(b, &r, x, y, max, scale), nil
	case cuts > 1:
		part := view[float64](b.work())
		cut := b.over(r.outputs*cuts, 1, func(lo, hi, _ int) {
			for i := lo; i < hi; i++ {
				from := i % cuts * pieceLen
				at := r.kept.offset(i/cuts) + from
				part[i] = run(x[at:at+min(pieceLen, r.inner-from)], max)
			}
		})
		return func() {
			cut()
			for i := range y {
				y[i] = T(run(part[i*cuts:(i+1)*cuts], max) / scale)
			}
		}, nil
	}
	times := r.gone.elems()
	return b.over(r.outputs, pieceLen/r.count, func(lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			base := r.kept.offset(i)
			total := run(x[base:base+r.inner], max)
			for k := 1; k < times; k++ {
				at := base + r.gone.offset(k)
				total = join(total, run(x[at:at+r.inner], max), max)
			}
			y[i] = T(total / scale)
		}
	}), nil
}

// bindColumns reduces dimensions other than the last: whole rows are added, some columns at a time.
func bindColumns[T float](b *binding, r *reduction, x, y []T, max bool, scale float64) func() {
	tiles := (r.inner + columns - 1) / columns
	outer, times, inner, kept, gone := r.kept.elems(), r.gone.elems(), r.inner, r.kept, r.gone
	return b.over(outer*tiles, pieceLen/(times*min(inner, columns)), func(lo, hi, _ int) {
		var acc [columns]float64
		for i := lo; i < hi; i++ {
			o, from := i/tiles, i%tiles*columns
			n := min(columns, inner-from)
			base := kept.offset(o) + from
			reduceColumns(acc[:n], x, base, times, &gone, max)
			for j, v := range acc[:n] {
				y[o*inner+from+j] = T(v / scale)
			}
		}
	})
}

// reduceColumns reduces the rows of len(acc) elements that start at base + gone.offset(0..times-1).
func reduceColumns[T float](acc []float64, x []T, base, times int, gone *walk, max bool) {
	n := len(acc)
	row := func(k int) []T {
		at := base + gone.offset(k)
		return x[at : at+n]
	}
	if max {
		for j, v := range row(0) {
			acc[j] = float64(v)
		}
		for k := 1; k < times; k++ {
			for j, v := range row(k) {
				if w := float64(v); w > acc[j] || w != w {
					acc[j] = w
				}
			}
		}
		return
	}
	clear(acc)
	k := 0
	for ; k+4 <= times; k += 4 {
		r0, r1, r2, r3 := row(k)[:n], row(k + 1)[:n], row(k + 2)[:n], row(k + 3)[:n]
		for j := range acc {
			acc[j] += float64(T(r0[j]+r1[j]) + T(r2[j]+r3[j]))
		}
	}
	for ; k < times; k++ {
		for j, v := range row(k)[:n] {
			acc[j] += float64(v)
		}
	}
}

// offset returns where element i of the walked dimensions lies.
func (w *walk) offset(i int) int {
	switch w.rank {
	case 0:
		return 0
	case 1:
		return i * w.stride[0]
	}
	at := 0
	for k := w.rank - 1; k >= 0; k-- {
		at += i % w.dims[k] * w.stride[k]
		i /= w.dims[k]
	}
	return at
}

// run reduces a contiguous run.
func run[T float](x []T, max bool) float64 {
	if max {
		return float64(maxOf(x))
	}
	return sumOf(x)
}

// join reduces two results.
func join(a, b float64, max bool) float64 {
	if !max {
		return a + b
	}
	if b > a || b != b {
		return b
	}
	return a
}

// sumOf adds x in its fixed order.
func sumOf[T float](x []T) float64 {
	total := 0.0
	for len(x) > runLen {
		total += float64(sumRun(x[:runLen]))
		x = x[runLen:]
	}
	return total + float64(sumRun(x))
}

func sumRun[T float](x []T) T {
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

// dotOf adds the products of x and y in the order of sumOf.
func dotOf[T float](x, y []T) float64 {
	y = y[:len(x)]
	total := 0.0
	for len(x) > runLen {
		total += float64(dotRun(x[:runLen], y[:runLen]))
		x, y = x[runLen:], y[runLen:]
	}
	return total + float64(dotRun(x, y))
}

func dotRun[T float](x, y []T) T {
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

// maxOf returns the largest element; NaN where there is one.
func maxOf[T float](x []T) T {
	if len(x) == 0 {
		return T(math.Inf(-1))
	}
	m := x[0]
	for _, v := range x[1:] {
		if v > m || v != v {
			m = v
		}
	}
	return m
}
