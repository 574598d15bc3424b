package main

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
)

// Sizes of a digit of MNIST: it fits in a box of 20×20 pixels, whose centre of mass is the centre of
// an image of 28×28 (LeCun et al., 1998).
const (
	side = 28
	box  = 20
)

// maxPixels bounds the size of a picture, which may be much larger than its file.
const maxPixels = 4 << 20

// errPicture is wrapped by errors about a picture that cannot be read as a digit.
var errPicture = errors.New("not a picture of a digit")

// gray is a picture of brightness from 0 to 1, as bright ink on dark ground.
type gray struct {
	w, h int
	at   []float64 // row-major
}

// decode reads a PNG as an image of MNIST: bright ink on dark ground, 28×28. A picture of that size
// with a dark edge is taken as it is; any other is cut out, scaled to the box and centred.
func decode(file []byte, digit *[side * side]uint8) error {
	c, err := png.DecodeConfig(bytes.NewReader(file))
	if err != nil {
		return fmt.Errorf("%w: %w", errPicture, err)
	}
	if c.Width*c.Height > maxPixels || c.Width > maxPixels || c.Height > maxPixels {
		return fmt.Errorf("%w: %d×%d pixels, %d are read at most", errPicture, c.Width, c.Height, maxPixels)
	}
	img, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		return fmt.Errorf("%w: %w", errPicture, err)
	}
	g := toGray(img)
	if dark := g.invertToDark(); dark && g.w == side && g.h == side {
		g.write(digit)
		return nil
	}
	x0, y0, x1, y1, ok := g.bounds()
	if !ok {
		return fmt.Errorf("%w: it has one colour only", errPicture)
	}
	g.scaled(x0, y0, x1, y1).centred().write(digit)
	return nil
}

// toGray converts a picture. Transparent pixels are white paper.
func toGray(img image.Image) *gray {
	b := img.Bounds()
	g := &gray{w: b.Dx(), h: b.Dy(), at: make([]float64, b.Dx()*b.Dy())}
	for y := range g.h {
		for x := range g.w {
			p := color.NRGBA64Model.Convert(img.At(b.Min.X+x, b.Min.Y+y)).(color.NRGBA64)
			alpha := float64(p.A) / 0xffff
			v := (0.299*float64(p.R) + 0.587*float64(p.G) + 0.114*float64(p.B)) / 0xffff
			g.at[y*g.w+x] = v*alpha + 1 - alpha
		}
	}
	return g
}

// invertToDark makes the ground dark: it inverts a picture whose edge is bright. It reports whether
// the edge was dark before.
func (g *gray) invertToDark() bool {
	sum, n := 0.0, 0
	for y := range g.h {
		for x := range g.w {
			if x == 0 || y == 0 || x == g.w-1 || y == g.h-1 {
				sum, n = sum+g.at[y*g.w+x], n+1
			}
		}
	}
	if sum < 0.5*float64(n) {
		return true
	}
	for i := range g.at {
		g.at[i] = 1 - g.at[i]
	}
	return false
}

// bounds returns the rectangle of the ink, and stretches its brightness to 1. ok is false if there is
// none.
func (g *gray) bounds() (x0, y0, x1, y1 int, ok bool) {
	low, high := 1.0, 0.0
	for _, v := range g.at {
		low, high = min(low, v), max(high, v)
	}
	if high-low < 0.05 {
		return 0, 0, 0, 0, false
	}
	x0, y0 = g.w, g.h
	for y := range g.h {
		for x := range g.w {
			v := (g.at[y*g.w+x] - low) / (high - low)
			if g.at[y*g.w+x] = v; v > 0.1 {
				x0, y0, x1, y1 = min(x0, x), min(y0, y), max(x1, x+1), max(y1, y+1)
			}
		}
	}
	return x0, y0, x1, y1, true
}

// scaled scales a rectangle so that its longer side is that of the box. Each pixel is the mean over
// the area that it covers.
func (g *gray) scaled(x0, y0, x1, y1 int) *gray {
	w, h := float64(x1-x0), float64(y1-y0)
	scale := max(w, h) / box
	s := &gray{w: max(1, int(math.Round(w/scale))), h: max(1, int(math.Round(h/scale)))}
	s.at = make([]float64, s.w*s.h)
	dx, dy := w/float64(s.w), h/float64(s.h)
	for y := range s.h {
		for x := range s.w {
			s.at[y*s.w+x] = g.mean(float64(x0)+float64(x)*dx, float64(y0)+float64(y)*dy, dx, dy)
		}
	}
	return s
}

// mean returns the mean brightness of a rectangle whose sides need not be whole pixels.
func (g *gray) mean(x0, y0, dx, dy float64) float64 {
	sum := 0.0
	for y := int(y0); y < g.h && float64(y) < y0+dy; y++ {
		ny := min(float64(y+1), y0+dy) - max(float64(y), y0)
		for x := int(x0); x < g.w && float64(x) < x0+dx; x++ {
			nx := min(float64(x+1), x0+dx) - max(float64(x), x0)
			sum += nx * ny * g.at[y*g.w+x]
		}
	}
	return sum / (dx * dy)
}

// centred returns an image of 28×28 with the centre of mass of g at pixel 14, 14, counted from 0, as
// those of MNIST have it.
func (g *gray) centred() *gray {
	sum, mx, my := 0.0, 0.0, 0.0
	for y := range g.h {
		for x := range g.w {
			v := g.at[y*g.w+x]
			sum, mx, my = sum+v, mx+v*float64(x), my+v*float64(y)
		}
	}
	left, top := int(math.Round(side/2-mx/sum)), int(math.Round(side/2-my/sum))
	// The box stays inside, wherever its mass is.
	left, top = min(max(left, 0), side-g.w), min(max(top, 0), side-g.h)
	c := &gray{w: side, h: side, at: make([]float64, side*side)}
	for y := range g.h {
		copy(c.at[(top+y)*side+left:], g.at[y*g.w:(y+1)*g.w])
	}
	return c
}

// write stores an image of 28×28 as bytes.
func (g *gray) write(digit *[side * side]uint8) {
	for i, v := range g.at {
		digit[i] = uint8(math.Round(255 * min(max(v, 0), 1)))
	}
}
