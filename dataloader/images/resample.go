package images

// source is a decoded picture as planes of samples: what a view reads.
type source struct {
	w, h   int
	ycc    bool // planes 0 to 2 are Y, Cb and Cr of JFIF; else every plane is a channel
	planes []plane
	rx, ry int // samples of a row and column of plane 0 for each of planes 1 and 2
	// premultiplied: colours are multiplied by the last plane, alpha, so that the colours of
	// transparent pixels have no effect on their neighbours.
	premultiplied bool
}

// plane is the samples of one channel, in 8 bits (pix) or as floats in 0 to 255 (real).
type plane struct {
	pix    []byte
	real   []float32
	stride int // samples from a row to the next
}

// size returns the samples of a row and a column of plane k.
func (s *source) size(k int) (w, h int) {
	if s.ycc && (k == 1 || k == 2) {
		return (s.w + s.rx - 1) / s.rx, (s.h + s.ry - 1) / s.ry
	}
	return s.w, s.h
}

// resampler is the memory of resampling, used again for each picture.
type resampler struct {
	h, v    [2]filter // of full planes, and of subsampled ones
	rows    [4][]byte
	quads   [2][]uint64 // of a plane, and of the one before
	out     [4][]uint64 // by channel
	offsets []int
	weights []uint16
	spare   []byte    // rows of the last group that lie below the picture
	column  []float32 // floats: rows filtered vertically
	real    [4][]float32
}

// resample8 writes the view of src to dst as channels planes of 8 bits, dst [channels, v.h, v.w].
// src has channels planes; or 1 plane, which fills all colours; alpha that src lacks is 255.
//
// The vertical pass comes first and makes four rows of the result at a time, which stay in the
// cache: 8 samples with two multiplications. The horizontal pass then filters them together, as
// quads.
func (r *resampler) resample8(dst []byte, src *source, v view, channels int) {
	r.filters(src, v, false)
	planes := r.used(src, channels)
	for k := range r.out {
		r.out[k] = resize(r.out[k], v.w)
	}
	for y := 0; y < v.h; y += 4 {
		for k := range planes {
			r.group(src, k, y, v.h)
		}
		if src.ycc && channels >= 3 {
			toRGB(r.out[0], r.out[1], r.out[2])
		}
		for c := range channels {
			p := dst[c*v.w*v.h:][:v.w*v.h]
			k := channelOf(c, channels, planes)
			if k < 0 {
				fill(p[y*v.w:min(y+4, v.h)*v.w], 255)
				continue
			}
			r.store(p, k, y, v.w, v.h)
		}
	}
	if src.premultiplied && channels == 4 {
		divideByAlpha(dst, v.w*v.h)
	}
}

// used returns the number of planes of src that a result of the given channels needs.
func (r *resampler) used(src *source, channels int) int {
	if channels == 1 {
		return 1
	}
	return len(src.planes)
}

// channelOf returns the plane that fills channel c, or -1 for alpha that does not exist.
func channelOf(c, channels, planes int) int {
	switch {
	case c == 3 && planes < 4:
		return -1
	case planes == 1:
		return 0
	}
	return c
}

// filters computes the filters of the view.
func (r *resampler) filters(src *source, v view, floats bool) {
	r.h[0].set(v.horizontal(), 1, src.w, floats)
	r.v[0].set(v.vertical(), 1, src.h, floats)
	if src.ycc && len(src.planes) >= 3 {
		w, h := src.size(1)
		r.h[1].set(v.horizontal(), src.rx, w, floats)
		r.v[1].set(v.vertical(), src.ry, h, floats)
	}
}

// of returns the filters of plane k.
func (r *resampler) of(src *source, k int) (h, v *filter) {
	if src.ycc && (k == 1 || k == 2) {
		return &r.h[1], &r.v[1]
	}
	return &r.h[0], &r.v[0]
}

// group computes the rows y to y+3 of plane k of the result, or up to row height, into r.out[k].
func (r *resampler) group(src *source, k, y, height int) {
	h, v := r.of(src, k)
	_, rows := src.size(k)
	lo, hi := h.lo, h.hi
	p := src.planes[k]
	padded := (hi - lo + 7) &^ 7
	for i := range r.rows {
		r.rows[i] = resize(r.rows[i], padded)
		j := min(y+i, height-1)
		r.offsets, r.weights = r.offsets[:0], r.weights[:0]
		for t, weight := range v.weight[j*v.taps:][:v.taps] {
			if weight > 0 {
				r.offsets = append(r.offsets, min(int(v.start[j])+t, rows-1)*p.stride+lo)
				r.weights = append(r.weights, weight)
			}
		}
		if v.wide {
			blendWide(r.rows[i][:hi-lo], p.pix, r.offsets, r.weights)
		} else {
			blend(r.rows[i][:hi-lo], p.pix, r.offsets, r.weights)
		}
	}
	// Cb waits for Cr, which has the same filter.
	pair := src.ycc && (k == 1 || k == 2) && h.taps == 3 && !h.wide
	q := resize(r.quads[k&1], padded+h.taps)
	r.quads[k&1] = q
	pack(q[:padded], r.rows[0], r.rows[1], r.rows[2], r.rows[3])
	switch {
	case pair && k == 1:
	case pair:
		gatherTwo(r.out[1], r.out[2], r.quads[1], q, h, lo)
	case h.wide:
		gatherWide(r.out[k], q, h, lo)
	default:
		gather(r.out[k], q, h, lo)
	}
}

// store writes the quads of plane k to the rows from y of a plane of w × h.
func (r *resampler) store(p []byte, k, y, w, h int) {
	var rows [4][]byte
	for i := range rows {
		if y+i < h {
			rows[i] = p[(y+i)*w:][:w]
		} else {
			r.spare = resize(r.spare, w)
			rows[i] = r.spare
		}
	}
	unpack(rows[0], rows[1], rows[2], rows[3], r.out[k])
}

// divideByAlpha turns premultiplied colours [4, n] into straight ones.
func divideByAlpha(p []byte, n int) {
	alpha := p[3*n : 4*n]
	for c := range 3 {
		colour := p[c*n:][:n]
		for i, a := range alpha {
			if a > 0 && a < 255 {
				colour[i] = byte(min((uint32(colour[i])*255+uint32(a)/2)/uint32(a), 255))
			}
		}
	}
}

// fill sets all elements.
func fill[T any](p []T, v T) {
	for i := range p {
		p[i] = v
	}
}
