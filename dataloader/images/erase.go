package images

import (
	"fmt"

	"github.com/evenkeel/evenkeel/dataloader"
)

// Erase fills a random rectangle with probability P, by a colour or by noise.
//
// Source: torchvision, transforms.py, RandomErasing: the area is uniform in Scale, the logarithm of
// the ratio uniform in Ratio; a picture is left as it is if ten rectangles do not fit. Unlike
// torchvision's, noise is uniform over all pixel values.
type Erase struct {
	P     float64    // default 0.5
	Scale [2]float64 // share of the picture's area; default 0.02 to 0.33
	Ratio [2]float64 // height to width; default 0.3 to 3.3
	Fill  [4]uint8   // red, green, blue and alpha; of which a grey field takes the first
	Noise bool       // fills with random values
}

// set returns the step with its defaults.
func (s Erase) set() Erase {
	if s.P == 0 {
		s.P = 0.5
	}
	if s.Scale == [2]float64{} {
		s.Scale = [2]float64{0.02, 0.33}
	}
	if s.Ratio == [2]float64{} {
		s.Ratio = [2]float64{0.3, 3.3}
	}
	return s
}

func (s Erase) check(*Options) string {
	s = s.set()
	if m := probability("P", s.P); m != "" {
		return m
	}
	if m := between("Scale", s.Scale, 1e-6, 1); m != "" {
		return m
	}
	return between("Ratio", s.Ratio, 1e-3, 1e3)
}

func (s Erase) moves() bool { return false }

func (s Erase) apply(d *decoding, r *dataloader.Rand) error {
	s = s.set()
	if !chance(r, s.P) {
		return nil
	}
	d.settle(true)
	p := d.picture()
	h, w, ok := drawBox(r, p.Width, p.Height, s.Scale, s.Ratio, func(h, w int) bool { return h < p.Height && w < p.Width })
	if !ok {
		return nil
	}
	y := r.IntN(p.Height - h + 1)
	x := r.IntN(p.Width - w + 1)
	erase(p, x, y, w, h, s.Fill, s.Noise, r)
	return nil
}

// Cutout fills Count squares of Size pixels (default 1), whose middles are uniform over the
// picture; what lies outside is cut off.
//
// Source: DeVries and Taylor, Improved Regularization of Convolutional Neural Networks with Cutout,
// 2017.
type Cutout struct {
	Size  int
	Count int
	Fill  [4]uint8 // as in Erase
}

func (s Cutout) check(*Options) string {
	if s.Size < 1 || s.Count < 0 || s.Count > 1000 {
		return fmt.Sprintf("Size %d and Count %d: must be 1 or more, and 0 to 1000", s.Size, s.Count)
	}
	return ""
}

func (s Cutout) moves() bool { return false }

func (s Cutout) apply(d *decoding, r *dataloader.Rand) error {
	d.settle(true)
	p := d.picture()
	for range max(s.Count, 1) {
		y, x := r.IntN(p.Height)-s.Size/2, r.IntN(p.Width)-s.Size/2
		top, left := max(y, 0), max(x, 0)
		bottom, right := min(y+s.Size, p.Height), min(x+s.Size, p.Width)
		erase(p, left, top, right-left, bottom-top, s.Fill, false, r)
	}
	return nil
}

// erase fills the rectangle of w × h at (x, y).
func erase(p Picture, x, y, w, h int, colour [4]uint8, noise bool, r *dataloader.Rand) {
	for c := range p.Channels {
		for j := range h {
			at := (c*p.Height+y+j)*p.Width + x
			for i := range w {
				v := colour[c]
				if noise {
					v = uint8(r.Uint64() >> 56)
				}
				if p.Float != nil {
					p.Float[at+i] = float32(v)
				} else {
					p.Pix[at+i] = v
				}
			}
		}
	}
}
