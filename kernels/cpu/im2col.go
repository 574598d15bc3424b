package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// Windows of x [B, C, H, W] as rows of y [B, OH, OW, C·KH·KW], and back. Threads split rows of windows
// on the way to y, and planes on the way back, so that no two of them write an element.

// im2colGrain is the elements of y of a piece.
const im2colGrain = 16 * 1024

// frames is the geometry of both: the windows of an image.
type frames struct {
	kernels.Im2ColAttrs
	c, h, w int // of the image
	oh, ow  int // windows
	taps    int // elements of a window in a channel
}

// newFrames returns the geometry of windows y of images x.
func newFrames(a kernels.Im2ColAttrs, x, y kernels.Shape) frames {
	return frames{a, x[1], x[2], x[3], y[1], y[2], a.Kernel[0] * a.Kernel[1]}
}

// columns returns the elements of a row of a window that lie in the image: from lo up to hi. The first
// of all is column left of the image, which may be negative.
func (p *frames) columns(ow int) (left, lo, hi int) {
	left = ow*p.Stride[1] - p.Pad[1]
	d := p.Dilation[1]
	lo, hi = 0, p.Kernel[1]
	if left < 0 {
		lo = min(ceilDiv(-left, d), hi)
	}
	if last := left + (hi-1)*d; last >= p.w {
		hi = max(lo, hi-ceilDiv(last-p.w+1, d))
	}
	return left, lo, hi
}

// bindIm2Col prepares a copy of windows to rows.
func bindIm2Col(b *binding) (func(), error) {
	switch b.Out[0].Type {
	case arena.Float32:
		return bindIm2ColOf[float32](b), nil
	case arena.Float64:
		return bindIm2ColOf[float64](b), nil
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.Out[0].Spec, kernels.ErrUnsupported)
}

// bindIm2ColOf prepares it for T.
func bindIm2ColOf[T float](b *binding) func() {
	x, y := in[T](b, 0), out[T](b, 0)
	if len(y) == 0 {
		return nil
	}
	p := newFrames(b.Attrs.(kernels.Im2ColAttrs), b.In[0].Shape, b.Out[0].Shape)
	row := p.ow * p.c * p.taps // elements of a row of windows
	return b.parallelFor(len(y)/row, im2colGrain/row, func(lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			copyFrames(&p, y[i*row:(i+1)*row], x[i/p.oh*p.c*p.h*p.w:], i%p.oh)
		}
	})
}

// copyFrames copies a row of windows, of all channels, to dst. It goes along one row of the image after
// another.
func copyFrames[T float](p *frames, dst, image []T, oh int) {
	size, wide, d := p.c*p.taps, p.Kernel[1], p.Dilation[1]
	top := oh*p.Stride[0] - p.Pad[0]
	for c := range p.c {
		for kh := range p.Kernel[0] {
			at, h := (c*p.Kernel[0]+kh)*wide, top+kh*p.Dilation[0]
			if h < 0 || h >= p.h {
				for ow := range p.ow {
					clear(dst[ow*size+at:][:wide])
				}
				continue
			}
			from := image[(c*p.h+h)*p.w:][:p.w]
			for ow := range p.ow {
				to, left := dst[ow*size+at:][:wide], ow*p.Stride[1]-p.Pad[1]
				if left < 0 || left+(wide-1)*d >= p.w { // at the border
					_, lo, hi := p.columns(ow)
					clear(to[:lo])
					clear(to[hi:])
					for k := lo; k < hi; k++ {
						to[k] = from[left+k*d]
					}
					continue
				}
				for k := range to {
					to[k] = from[left+k*d]
				}
			}
		}
	}
}

// bindCol2Im prepares the sum of rows to images.
func bindCol2Im(b *binding) (func(), error) {
	switch b.Out[0].Type {
	case arena.Float32:
		return bindCol2ImOf[float32](b), nil
	case arena.Float64:
		return bindCol2ImOf[float64](b), nil
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.Out[0].Spec, kernels.ErrUnsupported)
}

// bindCol2ImOf prepares it for T. Elements are added to a pixel in the order of their windows.
func bindCol2ImOf[T float](b *binding) func() {
	dy, dx := in[T](b, 0), out[T](b, 0)
	if len(dx) == 0 {
		return nil
	}
	p := newFrames(b.Attrs.(kernels.Col2ImAttrs).Im2ColAttrs, b.Out[0].Shape, b.In[0].Shape)
	area, size := p.h*p.w, p.c*p.taps
	return b.parallelFor(len(dx)/area, im2colGrain/max(area, p.oh*p.ow*p.taps), func(lo, hi, _ int) {
		for plane := lo; plane < hi; plane++ {
			to := dx[plane*area : (plane+1)*area]
			clear(to)
			if len(dy) == 0 {
				continue
			}
			from := dy[plane/p.c*p.oh*p.ow*size+plane%p.c*p.taps:]
			for i := range p.oh * p.ow {
				addFrame(&p, to, from[i*size:][:p.taps], i/p.ow, i%p.ow)
			}
		}
	})
}

// addFrame adds one window of one channel to its plane.
func addFrame[T float](p *frames, plane, src []T, oh, ow int) {
	left, lo, hi := p.columns(ow)
	top, d := oh*p.Stride[0]-p.Pad[0], p.Dilation[1]
	if lo == hi {
		return
	}
	for kh := range p.Kernel[0] {
		h := top + kh*p.Dilation[0]
		if h < 0 || h >= p.h {
			continue
		}
		to := plane[h*p.w+left+lo*d:]
		for k, v := range src[kh*p.Kernel[1]+lo : kh*p.Kernel[1]+hi] {
			to[k*d] += v
		}
	}
}
