package images

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

// cut is a crop of a fixed place, scaled to the field.
type cut struct{ x, y, w, h int }

func (cut) check(*Options) string { return "" }
func (cut) moves() bool           { return true }
func (s cut) place(v *view, o *Options, _ *dataloader.Rand) (bool, error) {
	v.crop(s.x, s.y, s.w, s.h)
	v.resize(o.Width, o.Height)
	return true, nil
}

// change is a changer with fixed parameters.
type change func(p Picture) Picture

func (change) check(*Options) string { return "" }
func (change) moves() bool           { return true }
func (s change) apply(d *decoding, _ *dataloader.Rand) error {
	d.settle(false)
	d.use(s(d.picture()))
	return nil
}

// expected is one line of testdata/expect.txt.
type expected struct {
	file, operation string
	c, h, w         int
	pix             []byte
}

// pillow returns what Pillow made of the files.
func pillow(t *testing.T) []expected {
	t.Helper()
	packed, err := os.ReadFile("testdata/expect.bin.z")
	if err != nil {
		t.Fatal(err)
	}
	r, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	var out []expected
	for line := range strings.Lines(string(file(t, "expect.txt"))) {
		var e expected
		var at int
		if _, err := fmt.Sscan(line, &e.file, &e.operation, &e.c, &e.h, &e.w, &at); err != nil {
			t.Fatal(err)
		}
		e.pix = all[at:][:e.c*e.h*e.w]
		out = append(out, e)
	}
	if len(out) < 50 {
		t.Fatalf("%d expectations, want 50 or more", len(out))
	}
	return out
}

// file returns a file of testdata.
func file(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// options returns the options that do what Pillow did.
func (e expected) options() Options {
	o := Options{Height: e.h, Width: e.w, Channels: e.c, Orient: e.operation == "upright"}
	half := cut{0, 0, e.w, e.h}
	switch e.operation {
	case "same", "upright", "grey":
		o.Steps = []Step{Flip{}}
	case "composed":
		o.Steps = []Step{Flip{}}
		o.Alpha, o.Background = ComposeAlpha, [3]uint8{200, 100, 50}
	case "crop":
		o.Steps = []Step{cut{13, 9, 61, 47}}
	case "affine":
		o.Steps = []Step{half, change(func(p Picture) Picture {
			q, n := p, p.Width*p.Height
			q.Pix, q.Float = make([]byte, len(p.Pix)), make([]float32, len(p.Float))
			m := [6]float64{0.9, 0.2, 3, -0.15, 1.1, -2}
			for c := range 3 {
				if p.Float != nil {
					warp(q.Float[c*n:][:n], p.Float[c*n:][:n], p.Width, p.Height, m, 0)
				} else {
					warp(q.Pix[c*n:][:n], p.Pix[c*n:][:n], p.Width, p.Height, m, 0)
				}
			}
			if p.Float == nil {
				q.Float = nil
			}
			return q
		})}
	case "brightness", "contrast", "saturation":
		what := map[string]int{"brightness": 0, "contrast": 1, "saturation": 2}[e.operation]
		factor := []float32{1.3, 0.6, 1.5}[what]
		o.Steps = []Step{half, change(func(p Picture) Picture {
			if p.Float != nil {
				adjust(p.Float, 3, p.Width*p.Height, what, factor)
			} else {
				adjust(p.Pix, 3, p.Width*p.Height, what, factor)
			}
			return p
		})}
	}
	return o
}

// limit returns how far a pixel may be from Pillow's, of 255, and the mean distance. Where both
// decoders are exact only resampling is rounded: to 8 bits after each axis here and in Pillow, with
// weights of 8 bits here. JPEG adds the inverse transform and the colours, each rounded otherwise.
func (e expected) limit(t arena.DType) (most int, mean float64) {
	lossy := strings.HasSuffix(e.file, "jpg") && e.file != "really.png.jpg"
	switch {
	case e.file == "lossy.webp" || e.file == "alpha.webp": // chroma is interpolated with other rounding
		return 6, 1
	case lossy && e.operation == "same" || e.operation == "upright":
		return 4, 0.7
	case lossy: // colours are clipped after resampling here, before it in Pillow: seen at edges of saturated colours
		return 12, 0.7
	case e.operation == "same" || e.operation == "grey":
		return 0, 0
	case e.file == "rgba.png" && e.operation == "resize": // Pillow divides rounded colours by alpha: here above 31 of 255
		return 7, 0.7
	}
	return 2, 0.7
}

func TestPicturesAreWithinRoundingOfPillow(t *testing.T) {
	for _, e := range pillow(t) {
		for _, kind := range []arena.DType{arena.Uint8, arena.Float32} {
			t.Run(fmt.Sprintf("%s %s %dx%d %v", e.file, e.operation, e.w, e.h, kind), func(t *testing.T) {
				o := e.options()
				o.Type = kind
				p, err := New(o)
				if err != nil {
					t.Fatal(err)
				}
				dst := make([]byte, p.Field("x").Bytes())
				if err := p.Decode(dataloader.At{}, file(t, e.file), dst); err != nil {
					t.Fatal(err)
				}
				got := dst
				if kind == arena.Float32 {
					got = nil
					for _, v := range dataloader.View[float32](dst) {
						got = append(got, byte(v+0.5))
					}
				}
				var most, sum int
				for i, v := range got {
					d := int(v) - int(e.pix[i])
					if e.c == 4 && e.pix[i%(e.h*e.w)+3*e.h*e.w] < 32 {
						continue // the colour of an almost transparent pixel is not seen
					}
					most, sum = max(most, d, -d), sum+max(d, -d)
				}
				mean := float64(sum) / float64(len(got))
				limit, limitMean := e.limit(kind)
				t.Logf("largest %d, mean %.3f", most, mean)
				if most > limit || mean > limitMean {
					t.Errorf("distance to Pillow: largest %d, mean %.2f of 255; want at most %d and %.2f", most, mean, limit, limitMean)
				}
			})
		}
	}
}
