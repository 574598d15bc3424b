package images

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/dataloader"
)

// ColourJitter changes brightness, contrast, saturation and hue, in a random order, by factors that
// are uniform in [max(0, 1-x), 1+x]; the hue turns by a uniform share of the circle in [-Hue, Hue].
// Alpha does not change; a grey picture has no saturation and hue.
//
// Source: torchvision, transforms.py, ColorJitter, and Pillow's ImageEnhance; unlike Pillow's,
// results are rounded, and hue is computed in floats.
type ColourJitter struct {
	Brightness, Contrast, Saturation float64
	Hue                              float64 // 0 to 0.5
}

func (s ColourJitter) check(*Options) string {
	for _, v := range []struct {
		name string
		x    float64
	}{{"Brightness", s.Brightness}, {"Contrast", s.Contrast}, {"Saturation", s.Saturation}} {
		if !(v.x >= 0 && v.x <= 100) {
			return fmt.Sprintf("%s %v: must be 0 to 100", v.name, v.x)
		}
	}
	if !(s.Hue >= 0 && s.Hue <= 0.5) {
		return fmt.Sprintf("Hue %v: must be 0 to 0.5", s.Hue)
	}
	return ""
}

func (s ColourJitter) moves() bool { return false }

func (s ColourJitter) apply(d *decoding, r *dataloader.Rand) error {
	d.settle(true)
	order := [4]int{0, 1, 2, 3}
	for i := 3; i > 0; i-- {
		j := r.IntN(i + 1)
		order[i], order[j] = order[j], order[i]
	}
	amounts := [4]float64{s.Brightness, s.Contrast, s.Saturation, s.Hue}
	var factors [4]float32
	for i, x := range amounts {
		lo := max(1-x, 0)
		if i == 3 {
			lo, x = -x, x-1
		}
		factors[i] = float32(uniform(r, lo, 1+x))
	}
	p := d.picture()
	for _, i := range order {
		if amounts[i] == 0 {
			continue
		}
		if p.Float != nil {
			adjust(p.Float, p.Channels, p.Width*p.Height, i, factors[i])
		} else {
			adjust(p.Pix, p.Channels, p.Width*p.Height, i, factors[i])
		}
	}
	return nil
}

// adjust changes brightness (0), contrast (1), saturation (2) or hue (3) of planes of n pixels.
func adjust[T number](p []T, channels, n, what int, factor float32) {
	if what == 0 {
		blendWith(p[:min(channels, 3)*n], 0, factor)
		return
	}
	if what == 1 {
		blendWith(p[:min(channels, 3)*n], greyMean(p, channels, n), factor)
		return
	}
	if channels < 3 {
		return
	}
	red, green, blue := p[:n], p[n:][:n], p[2*n:][:n]
	for i := range red {
		r, g, b := red[i], green[i], blue[i]
		if what == 2 {
			grey := float32(luma(r, g, b)) * (1 - factor)
			red[i] = rounded[T](float32(r)*factor + grey)
			green[i] = rounded[T](float32(g)*factor + grey)
			blue[i] = rounded[T](float32(b)*factor + grey)
			continue
		}
		x, y, z := turnHue(float32(r), float32(g), float32(b), factor)
		red[i], green[i], blue[i] = rounded[T](x), rounded[T](y), rounded[T](z)
	}
}

// blendWith replaces each v by v·factor + grey·(1-factor).
func blendWith[T number](p []T, grey, factor float32) {
	shift := grey * (1 - factor)
	if b, ok := any(p).([]uint8); ok {
		var table [256]uint8
		for v := range table {
			table[v] = rounded[uint8](float32(v)*factor + shift)
		}
		for i, v := range b {
			b[i] = table[v]
		}
		return
	}
	for i, v := range p {
		p[i] = rounded[T](float32(v)*factor + shift)
	}
}

// greyMean returns the mean of the grey picture, rounded.
func greyMean[T number](p []T, channels, n int) float32 {
	var sum float64
	if channels == 1 {
		for _, v := range p[:n] {
			sum += float64(v)
		}
	} else {
		red, green, blue := p[:n], p[n:][:n], p[2*n:][:n]
		for i, r := range red {
			sum += float64(luma(r, green[i], blue[i]))
		}
	}
	return float32(math.Floor(sum/float64(n) + 0.5))
}

// turnHue turns the hue of a colour by a share of the circle, -0.5 to 0.5. Value and saturation of
// HSV do not change.
func turnHue(r, g, b, by float32) (float32, float32, float32) {
	hi, lo := max(r, g, b), min(r, g, b)
	span := hi - lo
	if span == 0 {
		return r, g, b
	}
	var hue float32 // in sixths of the circle
	switch hi {
	case r:
		hue = (g - b) / span
	case g:
		hue = 2 + (b-r)/span
	default:
		hue = 4 + (r-g)/span
	}
	hue += 6 * by
	if hue < 0 {
		hue += 6
	}
	if hue >= 6 {
		hue -= 6
	}
	sector := int(hue)
	f := hue - float32(sector)
	falling, rising := hi-f*span, lo+f*span
	switch sector {
	case 0:
		return hi, rising, lo
	case 1:
		return falling, hi, lo
	case 2:
		return lo, hi, rising
	case 3:
		return lo, falling, hi
	case 4:
		return rising, lo, hi
	}
	return hi, lo, falling
}
