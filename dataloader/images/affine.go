package images

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/dataloader"
)

// Rotate turns the picture about its middle by a uniform angle in [-Degrees, Degrees], with
// bilinear sampling. Pixels from outside have the colour Fill: red, green, blue and alpha, of which
// a grey field takes the first.
type Rotate struct {
	Degrees float64
	Fill    [4]uint8
}

func (s Rotate) check(o *Options) string { return s.affine().check(o) }

func (s Rotate) moves() bool { return true }

func (s Rotate) affine() Affine { return Affine{Degrees: s.Degrees, Fill: s.Fill} }

func (s Rotate) apply(d *decoding, r *dataloader.Rand) error { return s.affine().apply(d, r) }

// Affine turns, shifts, scales and shears the picture about its middle with bilinear sampling,
// without changing its size. All draws are uniform. Pixels from outside have the colour Fill, as in
// [Rotate].
//
// Source: torchvision, transforms.py, RandomAffine.get_params, and functional.py,
// _get_inverse_affine_matrix; sampling as Transform(BILINEAR) of Pillow (src/libImaging/Geometry.c).
type Affine struct {
	Degrees   float64    // an angle in [-Degrees, Degrees]
	Translate [2]float64 // x and y: a shift of at most this share of the width and height
	Scale     [2]float64 // default 1 to 1
	Shear     [2]float64 // x and y: an angle in [-Shear, Shear] degrees
	Fill      [4]uint8
}

func (s Affine) check(*Options) string {
	if s.Scale == [2]float64{} {
		s.Scale = [2]float64{1, 1}
	}
	switch {
	case !(s.Degrees >= 0 && s.Degrees <= 360):
		return fmt.Sprintf("Degrees %v: must be 0 to 360", s.Degrees)
	case !(s.Shear[0] >= 0 && s.Shear[0] <= 80 && s.Shear[1] >= 0 && s.Shear[1] <= 80):
		return fmt.Sprintf("Shear %v: must be 0 to 80 degrees", s.Shear)
	}
	for _, t := range s.Translate {
		if m := probability("Translate", t); m != "" {
			return m
		}
	}
	return between("Scale", s.Scale, 1e-3, 1e3)
}

func (s Affine) moves() bool { return true }

func (s Affine) apply(d *decoding, r *dataloader.Rand) error {
	d.settle(false)
	p := d.picture()
	m := s.draw(r, p.Width, p.Height)
	q := d.next(p.Width, p.Height, d.toDst(p.Width, p.Height))
	n := p.Width * p.Height
	for c := range p.Channels {
		if p.Float != nil {
			warp(q.Float[c*n:][:n], p.Float[c*n:][:n], p.Width, p.Height, m, float32(s.Fill[c]))
		} else {
			warp(q.Pix[c*n:][:n], p.Pix[c*n:][:n], p.Width, p.Height, m, s.Fill[c])
		}
	}
	d.use(q)
	return nil
}

// toDst reports whether a picture that the current step makes may be written to dst: it has the
// size of the field and no later step moves it.
func (d *decoding) toDst(w, h int) bool {
	return d.step >= d.p.lastMove && w == d.p.opt.Width && h == d.p.opt.Height
}

// draw returns the matrix from pixels of the result to pixels of the picture:
// x' = m[0] x + m[1] y + m[2], y' = m[3] x + m[4] y + m[5].
func (s Affine) draw(r *dataloader.Rand, w, h int) [6]float64 {
	rad := math.Pi / 180
	angle := uniform(r, -s.Degrees, s.Degrees) * rad
	tx := math.RoundToEven(uniform(r, -1, 1) * s.Translate[0] * float64(w))
	ty := math.RoundToEven(uniform(r, -1, 1) * s.Translate[1] * float64(h))
	scale := 1.0
	if s.Scale != [2]float64{} {
		scale = uniform(r, s.Scale[0], s.Scale[1])
	}
	sx, sy := uniform(r, -s.Shear[0], s.Shear[0])*rad, uniform(r, -s.Shear[1], s.Shear[1])*rad
	a := math.Cos(angle-sy) / math.Cos(sy)
	b := -math.Cos(angle-sy)*math.Tan(sx)/math.Cos(sy) - math.Sin(angle)
	c := math.Sin(angle-sy) / math.Cos(sy)
	e := -math.Sin(angle-sy)*math.Tan(sx)/math.Cos(sy) + math.Cos(angle)
	m := [6]float64{e / scale, -b / scale, 0, -c / scale, a / scale, 0}
	cx, cy := float64(w)/2, float64(h)/2
	m[2] = cx + m[0]*(-cx-tx) + m[1]*(-cy-ty)
	m[5] = cy + m[3]*(-cx-tx) + m[4]*(-cy-ty)
	return m
}

// warp samples src, a plane of w × h, at the pixels that m yields.
func warp[T number](dst, src []T, w, h int, m [6]float64, outside T) {
	for y := range h {
		row := dst[y*w:][:w]
		for x := range row {
			px, py := float64(x)+0.5, float64(y)+0.5
			u, v := m[0]*px+m[1]*py+m[2], m[3]*px+m[4]*py+m[5]
			if !(u >= 0 && u < float64(w) && v >= 0 && v < float64(h)) {
				row[x] = outside
				continue
			}
			u, v = u-0.5, v-0.5
			x0, y0 := int(math.Floor(u)), int(math.Floor(v))
			fx, fy := float32(u-float64(x0)), float32(v-float64(y0))
			x1, y1 := min(x0+1, w-1), min(y0+1, h-1)
			x0, y0 = max(x0, 0), max(y0, 0)
			top := float32(src[y0*w+x0])*(1-fx) + float32(src[y0*w+x1])*fx
			bottom := float32(src[y1*w+x0])*(1-fx) + float32(src[y1*w+x1])*fx
			row[x] = rounded[T](top*(1-fy) + bottom*fy)
		}
	}
}

// PadCrop surrounds the picture by Pad pixels of the colour Fill and cuts the size of the field at
// a random place, as usual for small images. A picture that is smaller than the field even then is
// an error.
type PadCrop struct {
	Pad  int
	Fill [4]uint8
}

func (s PadCrop) check(*Options) string {
	if s.Pad < 0 || s.Pad > 1<<12 {
		return fmt.Sprintf("Pad %d: must be 0 to %d", s.Pad, 1<<12)
	}
	return ""
}

func (s PadCrop) moves() bool { return true }

func (s PadCrop) apply(d *decoding, r *dataloader.Rand) error {
	o := &d.p.opt
	rangeY, rangeX := d.view.h+2*s.Pad-o.Height, d.view.w+2*s.Pad-o.Width
	if rangeY < 0 || rangeX < 0 {
		return fmt.Errorf("crop of %d × %d (height × width) of a picture of %d × %d with %d pixels on each side: "+
			"raise Pad, or put a Resize before it: %w", o.Height, o.Width, d.view.h, d.view.w, s.Pad, dataloader.ErrField)
	}
	y := r.IntN(rangeY+1) - s.Pad
	x := r.IntN(rangeX+1) - s.Pad
	// The part that lies in the picture is cut through the view and then pasted.
	top, left := max(y, 0), max(x, 0)
	h, w := min(y+o.Height, d.view.h)-top, min(x+o.Width, d.view.w)-left
	if h <= 0 || w <= 0 {
		top, left, h, w = 0, 0, 1, 1 // nothing of the picture is left: one pixel stands for it
	}
	empty := y >= d.view.h || x >= d.view.w || y+o.Height <= 0 || x+o.Width <= 0
	d.view.crop(left, top, w, h)
	d.settle(false)
	p := d.picture()
	q := d.next(o.Width, o.Height, d.toDst(o.Width, o.Height))
	area := o.Width * o.Height
	for c := range p.Channels {
		if p.Float != nil {
			paste(q.Float[c*area:][:area], o.Width, p.Float[c*w*h:][:w*h], w, left-x, top-y, float32(s.Fill[c]), empty)
		} else {
			paste(q.Pix[c*area:][:area], o.Width, p.Pix[c*w*h:][:w*h], w, left-x, top-y, s.Fill[c], empty)
		}
	}
	d.use(q)
	return nil
}

// paste fills a plane, whose rows have width samples, and copies src, whose rows have w, to (x, y)
// unless only the background is visible.
func paste[T number](dst []T, width int, src []T, w, x, y int, background T, empty bool) {
	fill(dst, background)
	if empty {
		return
	}
	for j := range len(src) / w {
		copy(dst[(y+j)*width+x:][:w], src[j*w:])
	}
}
