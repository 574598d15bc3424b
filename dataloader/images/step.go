package images

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/dataloader"
)

// Step is one operation of a [Pipeline] on a picture. The steps of this package are [Resize],
// [RandomResizedCrop], [CenterCrop], [RandomCrop], [PadCrop], [Flip], [Rotate], [Affine],
// [ColourJitter], [Erase], [Cutout] and [Func].
//
// Resizing, crops and flips that follow one another are computed in one pass over the decoded
// planes.
type Step interface {
	// check returns a description of the first mistake, or "".
	check(o *Options) string
	// moves reports whether the step may make a picture of another size or in other memory.
	moves() bool
}

// changer is a step that changes the picture itself.
type changer interface {
	Step
	apply(d *decoding, r *dataloader.Rand) error
}

// placer is a step that only changes the view, so that it can be planned before decoding.
type placer interface {
	Step
	// place reports false, and draws nothing, if the view must be computed first.
	place(v *view, o *Options, r *dataloader.Rand) (bool, error)
}

// Picture is a picture between two steps: planes of Channels, each Height rows of Width samples.
type Picture struct {
	Channels, Height, Width int
	Pix                     []uint8   // [Channels, Height, Width]; nil if Float is set
	Float                   []float32 // the same with values in 0 to 255, if the field is float32
}

// Func calls a function on the picture, which may change its samples but not keep them. The
// function must depend only on the picture and on at, and must be safe for concurrent use. Its
// error ends the sample.
type Func struct {
	Name string // part of the fingerprint of the data
	Do   func(at dataloader.At, p Picture) error
}

func (f Func) check(*Options) string {
	if f.Do == nil {
		return "the function is nil"
	}
	return ""
}

func (f Func) moves() bool { return false }

func (f Func) apply(d *decoding, _ *dataloader.Rand) error {
	d.settle(true)
	return f.Do(d.stepAt(), d.picture())
}

// probability returns a description of the mistake in p, or "".
func probability(name string, p float64) string {
	if !(p >= 0 && p <= 1) {
		return fmt.Sprintf("%s %v: must be 0 to 1", name, p)
	}
	return ""
}

// between returns a description of the mistake in a range that must lie in [lo, hi], or "".
func between(name string, r [2]float64, lo, hi float64) string {
	if !(r[0] >= lo && r[0] <= r[1] && r[1] <= hi) {
		return fmt.Sprintf("%s %v: must be a range, low end first, within %v to %v", name, r, lo, hi)
	}
	return ""
}

// uniform returns a number in [lo, hi).
func uniform(r *dataloader.Rand, lo, hi float64) float64 { return lo + (hi-lo)*r.Float64() }

// chance reports true with probability p.
func chance(r *dataloader.Rand, p float64) bool { return r.Float64() < p }

// drawBox draws a rectangle of a share of an area of w × h, and of a ratio of width to height whose
// logarithm is uniform. It reports false after ten rectangles that fits refused.
//
// Source: torchvision, transforms.py, RandomResizedCrop.get_params and RandomErasing.get_params.
func drawBox(r *dataloader.Rand, w, h int, scale, ratio [2]float64, fits func(bw, bh int) bool) (bw, bh int, ok bool) {
	lo, hi := math.Log(ratio[0]), math.Log(ratio[1])
	for range 10 {
		area := float64(w) * float64(h) * uniform(r, scale[0], scale[1])
		aspect := math.Exp(uniform(r, lo, hi))
		bw = int(math.RoundToEven(math.Sqrt(area * aspect)))
		bh = int(math.RoundToEven(math.Sqrt(area / aspect)))
		if bw > 0 && bh > 0 && fits(bw, bh) {
			return bw, bh, true
		}
	}
	return 0, 0, false
}
