package images

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/dataloader"
)

// RandomResizedCrop cuts a random rectangle and resizes it to the size of the field, with a
// triangle filter that widens where it shrinks (antialiasing).
//
// Source: torchvision, transforms.py, RandomResizedCrop: the area is uniform in Scale, the logarithm
// of the ratio of width to height uniform in Ratio, the place uniform; after ten rectangles that do
// not fit, the largest one in the middle that keeps within Ratio.
type RandomResizedCrop struct {
	Scale [2]float64 // share of the picture's area; default 0.08 to 1
	Ratio [2]float64 // width to height; default 3/4 to 4/3
}

// set returns the step with its defaults.
func (s RandomResizedCrop) set() RandomResizedCrop {
	if s.Scale == [2]float64{} {
		s.Scale = [2]float64{0.08, 1}
	}
	if s.Ratio == [2]float64{} {
		s.Ratio = [2]float64{3.0 / 4, 4.0 / 3}
	}
	return s
}

func (s RandomResizedCrop) check(*Options) string {
	s = s.set()
	if m := between("Scale", s.Scale, 1e-6, 1); m != "" {
		return m
	}
	return between("Ratio", s.Ratio, 1e-3, 1e3)
}

func (s RandomResizedCrop) moves() bool { return true }

func (s RandomResizedCrop) place(v *view, o *Options, r *dataloader.Rand) (bool, error) {
	if v.scaled() {
		return false, nil
	}
	s = s.set()
	w, h, ok := drawBox(r, v.w, v.h, s.Scale, s.Ratio, func(w, h int) bool { return w <= v.w && h <= v.h })
	if ok {
		y := r.IntN(v.h - h + 1)
		x := r.IntN(v.w - w + 1)
		v.crop(x, y, w, h)
	} else {
		w, h = v.w, v.h
		switch ratio := float64(w) / float64(h); {
		case ratio < s.Ratio[0]:
			h = max(int(math.RoundToEven(float64(w)/s.Ratio[0])), 1)
		case ratio > s.Ratio[1]:
			w = max(int(math.RoundToEven(float64(h)*s.Ratio[1])), 1)
		}
		v.crop((v.w-w)/2, (v.h-h)/2, w, h)
	}
	v.resize(o.Width, o.Height)
	return true, nil
}

// Resize scales the picture with a triangle filter, which widens where it shrinks (antialiasing),
// as BILINEAR of Pillow. The zero value scales to the size of the field and ignores proportions.
type Resize struct {
	Height, Width int // both, or none
	Shorter       int // instead: the shorter side, keeping proportions
}

func (s Resize) check(*Options) string {
	switch {
	case s.Height < 0 || s.Width < 0 || s.Shorter < 0 || s.Height > 1<<15 || s.Width > 1<<15 || s.Shorter > 1<<15:
		return fmt.Sprintf("%d × %d, shorter side %d: must be 0 to %d", s.Height, s.Width, s.Shorter, 1<<15)
	case (s.Height == 0) != (s.Width == 0):
		return "set both Height and Width, or none"
	case s.Height > 0 && s.Shorter > 0:
		return "set Height and Width, or Shorter"
	}
	return ""
}

func (s Resize) moves() bool { return true }

func (s Resize) place(v *view, o *Options, _ *dataloader.Rand) (bool, error) {
	if v.scaled() {
		return false, nil
	}
	h, w := s.Height, s.Width
	switch {
	case s.Shorter > 0:
		short := min(v.w, v.h)
		longer := int64(max(v.w, v.h)) * int64(s.Shorter) / int64(short)
		if longer > 1<<17 {
			return false, fmt.Errorf("resize: a picture of %d × %d pixels becomes %d pixels long: at most %d: %w",
				v.w, v.h, longer, 1<<17, dataloader.ErrOption)
		}
		w, h = s.Shorter, int(longer)
		if v.w > v.h {
			w, h = h, w
		}
	case h == 0:
		h, w = o.Height, o.Width
	}
	v.resize(w, h)
	return true, nil
}

// CenterCrop cuts the middle. The zero value cuts the size of the field. A smaller picture is an
// error.
type CenterCrop struct{ Height, Width int }

func (s CenterCrop) check(*Options) string { return cropSize(s.Height, s.Width) }

func (s CenterCrop) moves() bool { return true }

func (s CenterCrop) place(v *view, o *Options, _ *dataloader.Rand) (bool, error) {
	h, w, err := cropOf(v, s.Height, s.Width, o)
	if err != nil {
		return false, err
	}
	// Source: torchvision, functional.py, center_crop: int(round((h - height) / 2)), to even.
	y, x := math.RoundToEven(float64(v.h-h)/2), math.RoundToEven(float64(v.w-w)/2)
	v.crop(int(x), int(y), w, h)
	return true, nil
}

// RandomCrop cuts a rectangle at a random place. The zero value cuts the size of the field. A
// smaller picture is an error.
type RandomCrop struct{ Height, Width int }

func (s RandomCrop) check(*Options) string { return cropSize(s.Height, s.Width) }

func (s RandomCrop) moves() bool { return true }

func (s RandomCrop) place(v *view, o *Options, r *dataloader.Rand) (bool, error) {
	h, w, err := cropOf(v, s.Height, s.Width, o)
	if err != nil {
		return false, err
	}
	y := r.IntN(v.h - h + 1)
	x := r.IntN(v.w - w + 1)
	v.crop(x, y, w, h)
	return true, nil
}

// cropSize returns a description of the mistake in the size of a crop, or "".
func cropSize(h, w int) string {
	if h < 0 || w < 0 || (h == 0) != (w == 0) {
		return fmt.Sprintf("%d × %d: must both be 1 or more, or both 0 for the size of the field", h, w)
	}
	return ""
}

// cropOf returns the size of a crop of the picture.
func cropOf(v *view, h, w int, o *Options) (int, int, error) {
	if h == 0 {
		h, w = o.Height, o.Width
	}
	if h > v.h || w > v.w {
		return 0, 0, fmt.Errorf("crop of %d × %d (height × width) of a picture of %d × %d: put a Resize before it, or use PadCrop: %w",
			h, w, v.h, v.w, dataloader.ErrField)
	}
	return h, w, nil
}

// Flip mirrors the picture left to right, top to bottom, or both, each with a probability.
type Flip struct{ Horizontal, Vertical float64 }

func (s Flip) check(*Options) string {
	if m := probability("Horizontal", s.Horizontal); m != "" {
		return m
	}
	return probability("Vertical", s.Vertical)
}

func (s Flip) moves() bool { return true }

func (s Flip) place(v *view, _ *Options, r *dataloader.Rand) (bool, error) {
	if chance(r, s.Horizontal) {
		v.flipX = !v.flipX
	}
	if chance(r, s.Vertical) {
		v.flipY = !v.flipY
	}
	return true, nil
}
