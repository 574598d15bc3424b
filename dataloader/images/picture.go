package images

import "image"

// setSource makes d.src of a decoded picture: planes that refer to it where it has planes, else
// planes of the pixels in the box of the view, which is moved to match.
func (d *decoding) setSource(m image.Image, h header, opt *Options) {
	d.src = source{planes: d.src.planes[:0]}
	floats := opt.Type.Size() == 4
	b := m.Bounds()
	d.src.w, d.src.h = b.Dx(), b.Dy()
	box := image.Rect(0, 0, d.src.w, d.src.h)
	if h.orientation < 5 {
		box = d.view.box().Intersect(box)
	}
	switch m := m.(type) {
	case *image.Gray:
		d.src.planes = append(d.src.planes, plane{pix: m.Pix[m.PixOffset(b.Min.X, b.Min.Y):], stride: m.Stride})
	case *image.YCbCr:
		if !d.setYCbCr(m, h, opt.Channels) {
			d.interleaved(m, box, opt)
		}
	default:
		if floats && deep(m) {
			planesOf(d, m, box, opt, &d.deepRow, &d.real, d.readDeep)
		} else {
			d.interleaved(m, box, opt)
		}
	}
	if h.orientation >= 5 {
		d.transposePlanes()
	}
}

// interleaved makes planes of the pixels of box of any picture.
func (d *decoding) interleaved(m image.Image, box image.Rectangle, opt *Options) {
	if p, ok := m.(*image.Paletted); ok {
		d.setPalette(p.Palette)
	}
	planesOf(d, m, box, opt, &d.row, &d.pix, d.read8)
}

// setYCbCr refers to the planes of a picture. It reports false if its chroma is not aligned with
// its luma, as in some sub-images.
func (d *decoding) setYCbCr(m *image.YCbCr, h header, channels int) bool {
	rx, ry := ratioOf(m.SubsampleRatio)
	if rx == 0 || m.Rect.Min.X%rx != 0 || m.Rect.Min.Y%ry != 0 {
		return false
	}
	y := plane{pix: m.Y[m.YOffset(m.Rect.Min.X, m.Rect.Min.Y):], stride: m.YStride}
	d.src.planes = append(d.src.planes, y)
	if channels > 1 {
		d.src.ycc, d.src.rx, d.src.ry = true, rx, ry
		at := m.COffset(m.Rect.Min.X, m.Rect.Min.Y)
		d.src.planes = append(d.src.planes, plane{pix: m.Cb[at:], stride: m.CStride}, plane{pix: m.Cr[at:], stride: m.CStride})
	}
	if h.format == webpFile {
		d.fullRange()
	}
	return true
}

// ratioOf returns the luma samples of a row and of a column for each chroma sample, or 0.
func ratioOf(r image.YCbCrSubsampleRatio) (x, y int) {
	switch r {
	case image.YCbCrSubsampleRatio444:
		return 1, 1
	case image.YCbCrSubsampleRatio422:
		return 2, 1
	case image.YCbCrSubsampleRatio420:
		return 2, 2
	case image.YCbCrSubsampleRatio440:
		return 1, 2
	case image.YCbCrSubsampleRatio411:
		return 4, 1
	case image.YCbCrSubsampleRatio410:
		return 4, 2
	}
	return 0, 0
}

// fullRange copies planes of WebP, whose luma is 16 to 235 and whose chroma is 16 to 240, to the
// full range of JFIF.
func (d *decoding) fullRange() {
	for k := range d.src.planes {
		w, h := d.src.size(k)
		p := &d.src.planes[k]
		d.pix[k] = resize(d.pix[k], w*h)
		table := &lumaRange
		if k > 0 {
			table = &chromaRange
		}
		for y := range h {
			out := d.pix[k][y*w:][:w]
			for x, v := range p.pix[y*p.stride:][:w] {
				out[x] = table[v]
			}
		}
		*p = plane{pix: d.pix[k], stride: w}
	}
}

var lumaRange, chromaRange = func() (y, c [256]byte) {
	for i := range y {
		v := float32(i)
		y[i] = rounded[byte]((v - 16) * 255 / 219)
		c[i] = rounded[byte]((v-128)*255/224 + 128)
	}
	return y, c
}()

// planesOf makes planes of the pixels of box, in the channels of the pipeline, and moves the view
// to them. read reads one row, planes is their memory.
func planesOf[T number](d *decoding, m image.Image, box image.Rectangle, opt *Options, row *rgba[T],
	planes *[4][]T, read func(p *rgba[T], m image.Image, x, y int)) {
	w, h := box.Dx(), box.Dy()
	row.grow(w)
	transparent := !opaque(m)
	n := opt.Channels
	if n == 4 && !transparent {
		n = 3
	}
	for k := range n {
		planes[k] = resize(planes[k], w*h)
	}
	min := m.Bounds().Min
	for y := range h {
		read(row, m, min.X+box.Min.X, min.Y+box.Min.Y+y)
		var out [4][]T
		for k := range n {
			out[k] = planes[k][y*w:][:w]
		}
		finish(out, *row, n, transparent, d.view.scaled(), opt)
	}
	for k := range n {
		d.src.planes = append(d.src.planes, planeOf(planes[k], w))
	}
	d.src.w, d.src.h = w, h
	d.src.premultiplied = n == 4 && d.view.scaled()
	d.view.move(-box.Min.X, -box.Min.Y)
}

// planeOf returns a plane of samples.
func planeOf[T number](p []T, stride int) plane {
	switch p := any(p).(type) {
	case []uint8:
		return plane{pix: p, stride: stride}
	case []float32:
		return plane{real: p, stride: stride}
	}
	return plane{}
}

// transposePlanes swaps rows and columns of the source.
func (d *decoding) transposePlanes() {
	for k := range d.src.planes {
		w, h := d.src.size(k)
		p := &d.src.planes[k]
		if p.real != nil {
			d.turnedReal[k] = swapAxes(d.turnedReal[k], p.real, p.stride, w, h)
			*p = plane{real: d.turnedReal[k], stride: h}
		} else {
			d.turned[k] = swapAxes(d.turned[k], p.pix, p.stride, w, h)
			*p = plane{pix: d.turned[k], stride: h}
		}
	}
	d.src.w, d.src.h, d.src.rx, d.src.ry = d.src.h, d.src.w, d.src.ry, d.src.rx
}

// swapAxes returns the transposed plane of w × h, in the memory of dst.
func swapAxes[T number](dst, src []T, stride, w, h int) []T {
	dst = resize(dst, w*h)
	for y := range h {
		for x, v := range src[y*stride:][:w] {
			dst[x*h+y] = v
		}
	}
	return dst
}
