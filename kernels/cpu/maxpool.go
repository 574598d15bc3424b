package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/pool2d"
)

// Max pooling of x [B, C, H, W] to y [B, C, OH, OW] with the place of each maximum in its window,
// and its gradient. Threads split planes. Windows of 2x2 at stride 2, and rows of small windows,
// are computed by internal/asm/pool2d, other windows in Go.

// poolGrain is the elements of a piece, of the larger of image and result.
const poolGrain = 16 * 1024

// pooling is the geometry of max and average pooling.
type pooling struct {
	kernels.PoolAttrs
	planes        int
	h, w          int  // of the image
	oh, ow        int  // of the result
	area, windows int  // elements of a plane of the image, and of the result
	is2x2         bool // windows of 2x2 at stride 2, without padding
}

// newPooling returns the geometry of pooling x to y.
func newPooling(a kernels.PoolAttrs, x, y kernels.Shape) pooling {
	two, none := [2]int{2, 2}, [2]int{}
	return pooling{PoolAttrs: a, planes: x[0] * x[1], h: x[2], w: x[3], oh: y[2], ow: y[3], area: x[2] * x[3], windows: y[2] * y[3],
		is2x2: a.Kernel == two && a.Stride == two && a.Pad == none && a.PadEnd == none}
}

// forPlanes returns a launch that calls f with ranges of planes.
func (p *pooling) forPlanes(b *binding, f func(lo, hi int)) func() {
	return b.parallelFor(p.planes, max(1, poolGrain/max(p.area, p.windows)), func(lo, hi, _ int) { f(lo, hi) })
}

// poolAttrs returns the attributes of the windows, for any of the four operations.
func poolAttrs(b *binding) kernels.PoolAttrs {
	if a, ok := b.Attrs.(kernels.PoolGradAttrs); ok {
		return a.PoolAttrs
	}
	return b.Attrs.(kernels.PoolAttrs)
}

// bindMaxPool prepares a max pooling or its gradient, by the types of elements and places.
func bindMaxPool(b *binding) (func(), error) {
	if b.Out[0].Shape.Elems() == 0 {
		return nil, nil
	}
	bytes := poolAttrs(b).IndexType() == arena.Uint8
	switch t := b.Out[0].Type; {
	case t == arena.Float32 && bytes:
		return bindMaxPoolOf[float32, uint8](b), nil
	case t == arena.Float32:
		return bindMaxPoolOf[float32, int32](b), nil
	case t == arena.Float64 && bytes:
		return bindMaxPoolOf[float64, uint8](b), nil
	case t == arena.Float64:
		return bindMaxPoolOf[float64, int32](b), nil
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.Out[0].Spec, kernels.ErrUnsupported)
}

// place is the type of an index in a window.
type place interface{ uint8 | int32 }

// bindMaxPoolOf chooses the kernel: 2x2 windows, rows of windows, or Go.
func bindMaxPoolOf[T float, I place](b *binding) func() {
	fast := b.Out[0].Type == arena.Float32
	if b.Op == kernels.MaxPoolGrad {
		p := newPooling(poolAttrs(b), b.Out[0].Shape, b.In[1].Shape)
		if p.is2x2 && fast {
			return p.bind2x2(b, out[float32](b, 0), in[float32](b, 1), in[uint8](b, 0), pool2d.At(b.dev.level).Max2x2Grad)
		}
		index, dy, dx := in[I](b, 0), in[T](b, 1), out[T](b, 0)
		return p.forPlanes(b, func(lo, hi int) {
			clear(dx[lo*p.area : hi*p.area])
			for k := lo; k < hi; k++ {
				maxPoolGrad(&p, dx[k*p.area:][:p.area], index[k*p.windows:][:p.windows], dy[k*p.windows:][:p.windows])
			}
		})
	}
	p := newPooling(poolAttrs(b), b.In[0].Shape, b.Out[0].Shape)
	if p.is2x2 && fast {
		return p.bind2x2(b, in[float32](b, 0), out[float32](b, 0), out[uint8](b, 1), pool2d.At(b.dev.level).Max2x2)
	}
	if bytes := p.IndexType() == arena.Uint8; bytes && fast && p.Stride[1] <= 2 && pool2d.At(b.dev.level).MaxRow != nil {
		return p.bindWindows(b, pool2d.At(b.dev.level).MaxRow)
	}
	x, y, index := in[T](b, 0), out[T](b, 0), out[I](b, 1)
	return p.forPlanes(b, func(lo, hi int) {
		for k := lo; k < hi; k++ {
			maxPool(&p, x[k*p.area:][:p.area], y[k*p.windows:][:p.windows], index[k*p.windows:][:p.windows])
		}
	})
}

// bind2x2 prepares a kernel for windows of 2x2: over several planes at once where the height is
// even. Pixels of the last row or column that no window covers are cleared where the image is a
// gradient.
func (p *pooling) bind2x2(b *binding, x, y []float32, index []uint8, kernel func(c *pool2d.Args2x2)) func() {
	calls := make([]pool2d.Args2x2, b.dev.pool.threads())
	grad := b.Op == kernels.MaxPoolGrad || b.Op == kernels.AvgPoolGrad
	pieces := ceilDiv(p.planes, max(1, poolGrain/p.area))
	return b.parallelFor(p.planes, ceilDiv(p.planes, pieces), func(lo, hi, worker int) {
		c := &calls[worker]
		step := 1
		// With an even height, the rows of one plane continue those of the plane before: one call
		// for all.
		if p.h%2 == 0 {
			step = hi - lo
		}
		for k := lo; k < hi; k += step {
			plane := x[k*p.area:][:step*p.area]
			for row := 0; row < step*p.oh; row += max(1, poolGrain/p.w) {
				at := k*p.windows + row*p.ow
				rows := min(step*p.oh-row, max(1, poolGrain/p.w))
				*c = pool2d.Args2x2{X: plane[2*row*p.w:], Y: y[at:][:rows*p.ow], Rows: rows, Width: p.ow, Stride: p.w}
				if index != nil {
					c.Index = index[at:][:rows*p.ow]
				}
				kernel(c)
			}
			if grad {
				p.clearEdge(plane)
			}
		}
	})
}

// bindWindows prepares a kernel over rows of windows.
func (p *pooling) bindWindows(b *binding, kernel func(c *pool2d.RowArgs)) func() {
	x, y := in[float32](b, 0), out[float32](b, 0)
	var index []uint8
	if len(b.Out) > 1 {
		index = out[uint8](b, 1)
	}
	shares := p.rowScales()
	calls := make([]pool2d.RowArgs, b.dev.pool.threads())
	for i := range calls {
		calls[i] = pool2d.RowArgs{Stride: p.w, Width: p.ow, Image: p.w, Kernel: p.Kernel[1], Pad: p.Pad[1], Step: p.Stride[1]}
	}
	grain := max(1, poolGrain/(p.Kernel[0]*p.Kernel[1]*p.windows))
	return b.parallelFor(p.planes, grain, func(lo, hi, worker int) {
		c := &calls[worker]
		for k := lo; k < hi; k++ {
			plane, at := x[k*p.area:][:p.area], k*p.windows
			for i := range p.oh {
				top, first, end := p.Window(0, i, p.h)
				c.X, c.Y, c.Share = plane[first*p.w:], y[at:][:p.ow], shares[(end-first-1)*p.ow:][:p.ow]
				if index != nil {
					c.Index = index[at:][:p.ow]
				}
				c.Rows, c.Place = end-first, (first-top)*p.Kernel[1]
				kernel(c)
				at += p.ow
			}
		}
	})
}

// clearEdge clears the last column of rows of odd width, and the last row of an image of odd
// height.
func (p *pooling) clearEdge(x []float32) {
	if p.w%2 != 0 {
		for i := p.w - 1; i < len(x); i += p.w {
			x[i] = 0
		}
	}
	if p.h%2 != 0 {
		clear(x[(p.h-1)*p.w:])
	}
}

// maxPool pools one plane.
func maxPool[T float, I place](p *pooling, x, y []T, index []I) {
	for i := range p.oh {
		top, first, end := p.Window(0, i, p.h)
		for j := range p.ow {
			left, from, to := p.Window(1, j, p.w)
			best, at := x[first*p.w+from], (first-top)*p.Kernel[1]+from-left
			for r := first; r < end; r++ {
				k := (r-top)*p.Kernel[1] + from - left
				for _, v := range x[r*p.w+from : r*p.w+to] {
					if pool2d.Beats(v, best) {
						best, at = v, k
					}
					k++
				}
			}
			y[i*p.ow+j], index[i*p.ow+j] = best, I(at)
		}
	}
}

// maxPoolGrad adds the gradients of one plane to dx. It ignores an index outside of window or
// image.
func maxPoolGrad[T float, I place](p *pooling, dx []T, index []I, dy []T) {
	for i := range p.oh {
		top, _, _ := p.Window(0, i, p.h)
		for j := range p.ow {
			left, _, _ := p.Window(1, j, p.w)
			at := int(index[i*p.ow+j])
			r, c := top+at/p.Kernel[1], left+at%p.Kernel[1]
			if at >= 0 && at < p.Kernel[0]*p.Kernel[1] && r >= 0 && r < p.h && c >= 0 && c < p.w {
				dx[r*p.w+c] += dy[i*p.ow+j]
			}
		}
	}
}
