package images

import (
	"encoding/binary"
	"math"

	"github.com/evenkeel/evenkeel/arena"
)

// resampleFloat is resample8 in floats: dst [channels, v.h, v.w] of 0 to 255. It is the reference
// of resample8 in tests.
func (r *resampler) resampleFloat(dst []float32, src *source, v view, channels int) {
	r.filters(src, v, true)
	planes := r.used(src, channels)
	for k := range r.real {
		r.real[k] = resize(r.real[k], v.w)
	}
	n := v.w * v.h
	for y := range v.h {
		for k := range planes {
			r.line(src, k, y)
		}
		if src.ycc && channels >= 3 {
			floatRGB(r.real[0], r.real[1], r.real[2])
		}
		for c := range channels {
			row := dst[c*n+y*v.w:][:v.w]
			if k := channelOf(c, channels, planes); k < 0 {
				fill(row, 255)
			} else {
				copy(row, r.real[k])
			}
		}
	}
	if src.premultiplied && channels == 4 {
		alpha := dst[3*n : 4*n]
		for c := range 3 {
			for i, a := range alpha {
				if v := &dst[c*n+i]; a > 0 {
					*v = min(*v*255/a, 255)
				}
			}
		}
	}
}

// line computes row y of plane k into r.real[k].
func (r *resampler) line(src *source, k, y int) {
	h, v := r.of(src, k)
	p := src.planes[k]
	n := h.hi - h.lo
	r.column = resize(r.column, n+h.taps)
	column := r.column
	clear(column)
	for t, w := range v.real[y*v.taps:][:v.taps] {
		if w == 0 {
			continue
		}
		at := (int(v.start[y])+t)*p.stride + h.lo
		if p.real != nil {
			for x, s := range p.real[at:][:n] {
				column[x] += w * s
			}
			continue
		}
		for x, s := range p.pix[at:][:n] {
			column[x] += w * float32(s)
		}
	}
	out := r.real[k]
	for i, s := range h.start[:len(out)] {
		var sum float32
		for t, w := range h.real[i*h.taps:][:h.taps] {
			sum += w * column[int(s)-h.lo+t]
		}
		out[i] = sum
	}
}

// floatRGB replaces rows of luma and chroma by red, green and blue, as toRGB does.
func floatRGB(y, cb, cr []float32) {
	for i, l := range y {
		b, r := cb[i]-128, cr[i]-128
		y[i] = rounded[float32](l + 1.402*r)
		cb[i] = rounded[float32](l - 0.344136*b - 0.714136*r)
		cr[i] = rounded[float32](l + 1.772*b)
	}
}

// deliver copies the picture to dst if it is not there: floats whose memory is not aligned.
func (d *decoding) deliver() {
	if d.cur == inDst || d.p.opt.Type != arena.Float32 {
		return
	}
	for i, v := range d.picture().Float {
		binary.NativeEndian.PutUint32(d.dst[4*i:], math.Float32bits(v))
	}
}
