package images

import (
	"image"
	"image/color"
)

// number is a type of samples: uint8, or float32 for 0 to 255 with fractions.
type number interface{ uint8 | float32 }

// rgba is one row of pixels by channel; colours are not multiplied by alpha.
type rgba[T number] struct{ r, g, b, a []T }

func (p *rgba[T]) grow(n int) {
	p.r, p.g, p.b, p.a = resize(p.r, n), resize(p.g, n), resize(p.b, n), resize(p.a, n)
}

// deep reports whether the picture has 16 bits a sample.
func deep(m image.Image) bool {
	switch m.(type) {
	case *image.Gray16, *image.RGBA64, *image.NRGBA64:
		return true
	}
	return false
}

// opaque reports whether a picture has no transparent pixel. It may be false for one that has none.
func opaque(m image.Image) bool {
	switch m := m.(type) {
	case *image.YCbCr, *image.Gray, *image.Gray16, *image.CMYK:
		return true
	case interface{ Opaque() bool }:
		return m.Opaque()
	}
	return false
}

// read8 reads the pixels from (x, y) of m to a row of 8-bit samples. Of 16 bits it takes the high
// ones.
func (d *decoding) read8(p *rgba[uint8], m image.Image, x, y int) {
	n := len(p.r)
	g, b, a := p.g[:n], p.b[:n], p.a[:n]
	switch m := m.(type) {
	case *image.RGBA:
		s := m.Pix[m.PixOffset(x, y):][:4*n]
		for i := range p.r {
			v := s[4*i:][:4:4]
			p.r[i], g[i], b[i], a[i] = v[0], v[1], v[2], v[3]
			if v[3] != 255 {
				p.r[i], g[i], b[i] = straight(v[0], v[3]), straight(v[1], v[3]), straight(v[2], v[3])
			}
		}
	case *image.NRGBA:
		s := m.Pix[m.PixOffset(x, y):][:4*n]
		for i := range p.r {
			v := s[4*i:][:4:4]
			p.r[i], g[i], b[i], a[i] = v[0], v[1], v[2], v[3]
		}
	case *image.CMYK:
		s := m.Pix[m.PixOffset(x, y):][:4*n]
		for i := range p.r {
			v := s[4*i:][:4:4]
			k := 255 - uint32(v[3])
			p.r[i], g[i], b[i], a[i] = ink(v[0], k), ink(v[1], k), ink(v[2], k), 255
		}
	case *image.Paletted:
		s := m.Pix[m.PixOffset(x, y):][:n]
		for i, c := range s {
			v := d.palette[c]
			p.r[i], g[i], b[i], a[i] = v.R, v.G, v.B, v.A
		}
	case *image.NYCbCrA:
		for i := range p.r {
			at := m.COffset(x+i, y)
			l, cb, cr := m.Y[m.YOffset(x+i, y)], m.Cb[at], m.Cr[at]
			if d.limited {
				l, cb, cr = lumaRange[l], chromaRange[cb], chromaRange[cr]
			}
			p.r[i], g[i], b[i] = color.YCbCrToRGB(l, cb, cr)
			a[i] = m.A[m.AOffset(x+i, y)]
		}
	case *image.Gray16, *image.RGBA64, *image.NRGBA64:
		for i := range p.r {
			v := deepPixel(m, x+i, y)
			p.r[i], g[i], b[i], a[i] = byte(v.R>>8), byte(v.G>>8), byte(v.B>>8), byte(v.A>>8)
		}
	default:
		for i := range p.r {
			v := color.NRGBAModel.Convert(m.At(x+i, y)).(color.NRGBA)
			p.r[i], g[i], b[i], a[i] = v.R, v.G, v.B, v.A
		}
	}
}

// readDeep reads the pixels from (x, y) of a picture of 16 bits a sample.
func (d *decoding) readDeep(p *rgba[float32], m image.Image, x, y int) {
	const unit = 1.0 / 257
	for i := range p.r {
		v := deepPixel(m, x+i, y)
		p.r[i], p.g[i], p.b[i], p.a[i] = float32(v.R)*unit, float32(v.G)*unit, float32(v.B)*unit, float32(v.A)*unit
	}
}

// deepPixel returns a pixel of a picture of 16 bits a sample.
func deepPixel(m image.Image, x, y int) color.NRGBA64 {
	switch m := m.(type) {
	case *image.Gray16:
		v := m.Gray16At(x, y).Y
		return color.NRGBA64{R: v, G: v, B: v, A: 0xffff}
	case *image.NRGBA64:
		return m.NRGBA64At(x, y)
	case *image.RGBA64:
		v := m.RGBA64At(x, y)
		if a := uint32(v.A); a != 0 && a != 0xffff {
			v.R, v.G, v.B = uint16(min(uint32(v.R)*0xffff/a, 0xffff)), uint16(min(uint32(v.G)*0xffff/a, 0xffff)),
				uint16(min(uint32(v.B)*0xffff/a, 0xffff))
		}
		return color.NRGBA64(v)
	}
	return color.NRGBA64{}
}

// straight divides a colour by its alpha.
func straight(v, a uint8) uint8 {
	if a == 0 {
		return 0
	}
	return uint8(min((uint32(v)*255+uint32(a)/2)/uint32(a), 255))
}

// ink returns the light that remains under ink v, of the light k of black.
func ink(v uint8, k uint32) uint8 { return uint8(((255-uint32(v))*k + 127) / 255) }

// setPalette reads the palette of a picture, which may be shorter than 256 colours. Indices beyond
// it are black.
func (d *decoding) setPalette(p color.Palette) {
	clear(d.palette[:])
	for i := range d.palette {
		d.palette[i].A = 255
	}
	for i, c := range p[:min(len(p), 256)] {
		switch c := c.(type) {
		case color.NRGBA:
			d.palette[i] = c
		case color.RGBA:
			d.palette[i] = color.NRGBA{straight(c.R, c.A), straight(c.G, c.A), straight(c.B, c.A), c.A}
		default:
			d.palette[i] = color.NRGBAModel.Convert(c).(color.NRGBA)
		}
	}
}

// finish turns one row of pixels into the channels of the pipeline, out[c], by its rule for alpha.
// multiply asks for colours that are multiplied by alpha.
func finish[T number](out [4][]T, p rgba[T], channels int, transparent, multiply bool, opt *Options) {
	n := len(p.r)
	if transparent && channels < 4 && opt.Alpha == ComposeAlpha {
		over := [3]float32{float32(opt.Background[0]), float32(opt.Background[1]), float32(opt.Background[2])}
		for i, a := range p.a {
			w := float32(a) / 255
			p.r[i] = rounded[T](float32(p.r[i])*w + over[0]*(1-w))
			p.g[i] = rounded[T](float32(p.g[i])*w + over[1]*(1-w))
			p.b[i] = rounded[T](float32(p.b[i])*w + over[2]*(1-w))
		}
	}
	switch {
	case channels == 1:
		g, b, o := p.g[:n], p.b[:n], out[0][:n]
		for i, r := range p.r {
			o[i] = luma(r, g[i], b[i])
		}
		return
	case channels == 4 && multiply:
		for i, a := range p.a {
			w := float32(a) / 255
			p.r[i], p.g[i], p.b[i] = rounded[T](float32(p.r[i])*w), rounded[T](float32(p.g[i])*w), rounded[T](float32(p.b[i])*w)
		}
	}
	copy(out[0], p.r)
	copy(out[1], p.g)
	copy(out[2], p.b)
	if channels == 4 {
		copy(out[3], p.a)
	}
}

// luma returns the grey of a colour (BT.601), with the constants of Pillow's convert("L").
func luma[T number](r, g, b T) T {
	switch r := any(r).(type) {
	case uint8:
		return T((uint32(r)*19595 + uint32(g)*38470 + uint32(b)*7471 + 0x8000) >> 16)
	}
	return T(0.299*float32(r) + 0.587*float32(g) + 0.114*float32(b))
}

// rounded converts a value to a sample: the nearest of 0 to 255, or the value itself as a float
// within 0 to 255.
func rounded[T number](v float32) T {
	v = min(max(v, 0), 255)
	var t T
	if _, ok := any(t).(uint8); ok {
		return T(v + 0.5)
	}
	return T(v)
}
