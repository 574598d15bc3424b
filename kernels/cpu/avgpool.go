package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/pool2d"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/reduce"
)

// Average pooling of x [B, C, H, W] to y [B, C, OH, OW], and its gradient: see maxpool.go.

// windowsLeast is the least windows of a row for a kernel whose lanes are windows. With fewer,
// whole rows are added.
const windowsLeast = 4

// bindAvgPool prepares an average pooling or its gradient.
func bindAvgPool(b *binding) (func(), error) {
	if b.Out[0].Shape.Elems() == 0 {
		return nil, nil
	}
	switch b.Out[0].Type {
	case arena.Float32:
		return bindAvgPoolOf[float32](b), nil
	case arena.Float64:
		return bindAvgPoolOf[float64](b), nil
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.Out[0].Spec, kernels.ErrUnsupported)
}

// bindAvgPoolOf chooses the kernel: 2x2 windows, rows of windows, or Go.
func bindAvgPoolOf[T float](b *binding) func() {
	fast := b.Out[0].Type == arena.Float32
	if b.Op == kernels.AvgPoolGrad {
		p := newPooling(poolAttrs(b), b.Out[0].Shape, b.In[0].Shape)
		if p.is2x2 && fast {
			return p.bind2x2(b, out[float32](b, 0), in[float32](b, 0), nil, pool2d.At(b.dev.level).Avg2x2Grad)
		}
		dy, dx := in[T](b, 0), out[T](b, 0)
		return p.forPlanes(b, func(lo, hi int) {
			clear(dx[lo*p.area : hi*p.area])
			for k := lo; k < hi; k++ {
				avgPoolGrad(&p, dx[k*p.area:][:p.area], dy[k*p.windows:][:p.windows])
			}
		})
	}
	p := newPooling(poolAttrs(b), b.In[0].Shape, b.Out[0].Shape)
	if p.is2x2 && fast {
		return p.bind2x2(b, in[float32](b, 0), out[float32](b, 0), nil, pool2d.At(b.dev.level).Avg2x2)
	}
	if mean := pool2d.At(b.dev.level).AvgRow; mean != nil && fast && p.Stride[1] <= 2 && p.ow >= windowsLeast {
		return p.bindWindows(b, mean)
	}
	x, y := in[T](b, 0), out[T](b, 0)
	return p.forPlanes(b, func(lo, hi int) {
		for k := lo; k < hi; k++ {
			avgPool(&p, x[k*p.area:][:p.area], y[k*p.windows:][:p.windows])
		}
	})
}

// sumScale returns the factor of a window's sum.
func (p *pooling) sumScale(rows, columns int) float64 {
	if p.CountPad {
		rows, columns = p.Kernel[0], p.Kernel[1]
	}
	return 1 / float64(rows*columns)
}

// rowScales returns the factors of a row of windows: [rows of the image that windows cover, from 1
// on][OW].
func (p *pooling) rowScales() []float32 {
	s := make([]float32, p.Kernel[0]*p.ow)
	for rows := range p.Kernel[0] {
		for j := range p.ow {
			_, from, to := p.Window(1, j, p.w)
			s[rows*p.ow+j] = float32(p.sumScale(rows+1, to-from))
		}
	}
	return s
}

// avgPool pools one plane.
func avgPool[T float](p *pooling, x, y []T) {
	for i := range p.oh {
		_, first, end := p.Window(0, i, p.h)
		for j := range p.ow {
			_, from, to := p.Window(1, j, p.w)
			sum := 0.0
			// A window over whole rows is contiguous.
			if from == 0 && to == p.w {
				sum = reduce.Sum(x[first*p.w : end*p.w])
			} else {
				for r := first; r < end; r++ {
					sum += float64(reduce.SumRun(x[r*p.w+from : r*p.w+to]))
				}
			}
			y[i*p.ow+j] = T(sum * p.sumScale(end-first, to-from))
		}
	}
}

// avgPoolGrad adds the gradients of one plane, times the windows' factors, to dx.
func avgPoolGrad[T float](p *pooling, dx, dy []T) {
	for i := range p.oh {
		_, first, end := p.Window(0, i, p.h)
		for j := range p.ow {
			_, from, to := p.Window(1, j, p.w)
			v := dy[i*p.ow+j] * T(p.sumScale(end-first, to-from))
			for r := first; r < end; r++ {
				row := dx[r*p.w+from : r*p.w+to]
				for c := range row {
					row[c] += v
				}
			}
		}
	}
}
