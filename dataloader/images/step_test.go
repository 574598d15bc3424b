package images

import (
	"bytes"
	"errors"
	"image"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

// everyStep is a chain with all kinds of steps, some before and some after pixels have moved.
func everyStep() []Step {
	return []Step{
		Flip{Horizontal: 0.5, Vertical: 0.5},
		Resize{Shorter: 40},
		RandomCrop{Height: 36, Width: 36},
		Rotate{Degrees: 20, Fill: [4]uint8{9, 8, 7, 255}},
		ColourJitter{Brightness: 0.4, Contrast: 0.4, Saturation: 0.4, Hue: 0.1},
		Affine{Degrees: 10, Translate: [2]float64{0.1, 0.1}, Scale: [2]float64{0.8, 1.2}, Shear: [2]float64{5, 5}},
		PadCrop{Pad: 4},
		CenterCrop{},
		Flip{Horizontal: 0.5},
		Erase{P: 1},
		Erase{P: 1, Noise: true},
		Cutout{Size: 5, Count: 2},
		Func{Name: "invert one", Do: func(at dataloader.At, p Picture) error {
			if p.Float != nil {
				p.Float[0] = float32(at.Index)
			} else {
				p.Pix[0] = byte(at.Index)
			}
			return nil
		}},
	}
}

func TestPicturesDependOnSeedEpochAndIndexAlone(t *testing.T) {
	b := file(t, "photo420.jpg")
	for _, kind := range []arena.DType{arena.Uint8, arena.Float32} {
		for _, channels := range []int{1, 3, 4} {
			o := Options{Height: 32, Width: 32, Channels: channels, Type: kind, Steps: everyStep()}
			seen := map[string]dataloader.At{}
			p := pipeline(t, o)
			for _, at := range []dataloader.At{{}, {Index: 1}, {Epoch: 1}, {Seed: 1}, {Index: 1, Epoch: 1}} {
				dst := make([]byte, p.Field("x").Bytes())
				if err := p.Decode(at, b, dst); err != nil {
					t.Fatal(err)
				}
				if other, ok := seen[string(dst)]; ok {
					t.Errorf("%+v and %+v give the same picture", at, other)
				}
				seen[string(dst)] = at
			}
			var wg sync.WaitGroup
			for picture, at := range seen {
				wg.Go(func() {
					dst := make([]byte, len(picture))
					if err := p.Decode(at, b, dst); err != nil || string(dst) != picture {
						t.Errorf("%+v again, at once with others: another picture (%v)", at, err)
					}
				})
			}
			wg.Wait()
		}
	}
}

func TestEachStepHasDrawsOfItsOwn(t *testing.T) {
	var draws []uint64
	record := Func{Name: "record", Do: func(at dataloader.At, _ Picture) error {
		r := at.Rand()
		draws = append(draws, r.Uint64())
		return nil
	}}
	at := dataloader.At{Index: 3, Seed: 5}
	decoded(t, Options{Height: 8, Width: 8, Steps: []Step{Resize{}, record, record, record}}, at, file(t, "ok.jpg"))
	r := at.Rand()
	draws = append(draws, r.Uint64())
	for i, a := range draws {
		for _, b := range draws[:i] {
			if a == b {
				t.Errorf("equal draws in %x", draws)
			}
		}
	}
	if len(draws) != 4 {
		t.Errorf("%d draws, want 4", len(draws))
	}
}

// TestOnePassEqualsManySteps compares crops, scaling and flips in one pass with the same steps, each
// computed by itself.
func TestOnePassEqualsManySteps(t *testing.T) {
	stop := change(func(p Picture) Picture { return p })
	for index := range 20 {
		at := dataloader.At{Index: index}
		steps := []Step{RandomCrop{Height: 50, Width: 60}, Flip{0.5, 0.5}, RandomCrop{Height: 40, Width: 44}, Flip{0.5, 0.5}, CenterCrop{}}
		a := decoded(t, Options{Height: 33, Width: 31, Steps: steps}, at, file(t, "photo.png"))
		// The draws belong to the number of a step: those between get none.
		p := pipeline(t, Options{Height: 33, Width: 31, Steps: steps})
		b := make([]byte, len(a))
		d, err := p.start(at, b)
		if err != nil {
			t.Fatal(err)
		}
		m, err := d.open(file(t, "photo.png"), header{format: pngFile, w: 81, h: 63, orientation: 1}, 1)
		if err != nil {
			t.Fatal(err)
		}
		d.view = whole(81, 63)
		d.setSource(m, header{orientation: 1}, &p.opt)
		for i, s := range steps {
			d.step = i
			d.rand = d.stepAt().Rand()
			if err := d.apply(s); err != nil {
				t.Fatal(err)
			}
			if err := stop.apply(d, nil); err != nil {
				t.Fatal(err)
			}
		}
		d.step = len(steps)
		d.settle(true)
		if !bytes.Equal(a, b) {
			t.Fatalf("sample %d: one pass and single steps differ", index)
		}
	}
}

func TestFlipMirrors(t *testing.T) {
	plain := decoded(t, Options{Height: 20, Width: 30}, dataloader.At{}, file(t, "photo422.jpg"))
	both := decoded(t, Options{Height: 20, Width: 30, Steps: []Step{Resize{}, Flip{Horizontal: 1, Vertical: 1}}}, dataloader.At{}, file(t, "photo422.jpg"))
	for c := range 3 {
		for i := range 600 {
			if d := int(plain[c*600+i]) - int(both[c*600+599-i]); d < -1 || d > 1 { // weights are rounded from the other end
				t.Fatalf("plane %d, pixel %d: %d and %d", c, i, plain[c*600+i], both[c*600+599-i])
			}
		}
	}
}

func TestRandomResizedCropHasTheDistributionOfItsSource(t *testing.T) {
	o := Options{Height: 10, Width: 10, Channels: 3}
	const n = 20000
	var areas, ratios float64
	for i := range n {
		v := whole(400, 300)
		r := dataloader.At{Index: i}.Rand()
		if _, err := (RandomResizedCrop{}).place(&v, &o, &r); err != nil {
			t.Fatal(err)
		}
		w, h := v.x1-v.x0, v.y1-v.y0
		if v.x0 < 0 || v.y0 < 0 || v.x1 > 400 || v.y1 > 300 || w < 1 || h < 1 {
			t.Fatalf("box %+v", v)
		}
		areas += w * h / (400 * 300)
		ratios += math.Log(w / h)
	}
	// torchvision 0.29, RandomResizedCrop.get_params on 400 × 300 pixels, 20,000 draws: mean area 0.435, mean
	// logarithm of the ratio 0.0314. The standard error of both means is below 0.002.
	if got := areas / n; math.Abs(got-0.435) > 0.008 {
		t.Errorf("mean area %.4f, want 0.435", got)
	}
	if got := ratios / n; math.Abs(got-0.0314) > 0.006 {
		t.Errorf("mean log ratio %.4f, want 0.031", got)
	}
}

func TestPadCropMovesThePictureAndFillsTheRest(t *testing.T) {
	m := image.NewGray(image.Rect(0, 0, 8, 8))
	for i := range m.Pix {
		m.Pix[i] = byte(100 + i)
	}
	for _, pad := range []int{0, 2, 8, 20} { // of 25 places, 400 draws miss one with a probability of 2e-6
		p := pipeline(t, Options{Height: 8, Width: 8, Channels: 1, Steps: []Step{PadCrop{Pad: pad, Fill: [4]uint8{7}}}})
		seen := map[int]bool{}
		for i := range 400 {
			dst := make([]byte, 64)
			if err := p.Draw(dataloader.At{Index: i}, m, dst); err != nil {
				t.Fatal(err)
			}
			shift, found := 0, false
			for at, v := range dst {
				if v == 7 {
					continue
				}
				y, x := at/8-int(v-100)/8, at%8-int(v-100)%8
				if s := 100*y + x; !found {
					shift, found = s, true
				} else if s != shift {
					t.Fatalf("pad %d, sample %d: pixels moved by different shifts", pad, i)
				}
				if y > pad || y < -pad || x > pad || x < -pad {
					t.Fatalf("pad %d: shift (%d, %d)", pad, y, x)
				}
			}
			seen[shift] = true
		}
		if want := min((2*pad+1)*(2*pad+1), 25); len(seen) < want {
			t.Errorf("pad %d: %d different shifts, want %d or more", pad, len(seen), want)
		}
	}
}

func TestCutoutAndEraseStayWithinThePicture(t *testing.T) {
	m := image.NewGray(image.Rect(0, 0, 16, 12))
	for _, s := range []Step{Cutout{Size: 40, Fill: [4]uint8{200}}, Cutout{Size: 3, Fill: [4]uint8{200}}, Erase{P: 1, Fill: [4]uint8{200}}} {
		p := pipeline(t, Options{Height: 12, Width: 16, Channels: 1, Steps: []Step{s}})
		for i := range 300 {
			dst := make([]byte, 12*16)
			if err := p.Draw(dataloader.At{Index: i}, m, dst); err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(dst, []byte{200}) {
				t.Fatalf("%+v, sample %d: nothing is filled", s, i)
			}
		}
	}
}

func TestHueTurnsBackToTheSameColour(t *testing.T) {
	for r := range 9 {
		for g := range 9 {
			for b := range 9 {
				x, y, z := float32(r*30), float32(g*30), float32(b*30)
				u, v, w := turnHue(x, y, z, 0.5)
				if x, y, z := turnHue(u, v, w, -0.5); math.Abs(float64(x-float32(r*30)))+math.Abs(float64(y-float32(g*30)))+
					math.Abs(float64(z-float32(b*30))) > 0.01 {
					t.Fatalf("(%d, %d, %d) became (%v, %v, %v)", r*30, g*30, b*30, x, y, z)
				}
			}
		}
	}
	if r, g, b := turnHue(200, 0, 0, 1.0/3); r > 0.01 || math.Abs(float64(g-200)) > 0.01 || b > 0.01 {
		t.Errorf("red turned by a third is (%v, %v, %v), want green", r, g, b)
	}
}

func TestOptionsAndStepsAreCheckedTogether(t *testing.T) {
	_, err := New(Options{Channels: 2, Type: arena.Int32, Scale: math.NaN(), MaxPixels: -1, Alpha: 9, Steps: []Step{nil,
		RandomResizedCrop{Scale: [2]float64{0.5, 2}}, Resize{Height: 3}, CenterCrop{Height: 3}, RandomCrop{Width: -1}, PadCrop{Pad: -1},
		Flip{Horizontal: 2}, Flip{Vertical: math.NaN()}, Rotate{Degrees: -1}, Affine{Shear: [2]float64{90, 0}}, ColourJitter{Hue: 1},
		ColourJitter{Contrast: -1}, Erase{P: 2}, Cutout{}, Func{}}})
	if !errors.Is(err, dataloader.ErrOption) {
		t.Fatalf("error %v, want ErrOption", err)
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 6+15 {
		t.Errorf("%d mistakes are reported, want 21:\n%v", n, err)
	}
}

func TestAPictureOfAnotherSizeThanTheFieldIsAnError(t *testing.T) {
	for _, steps := range [][]Step{{Flip{}}, {Resize{Height: 9, Width: 8}}, {Resize{Shorter: 4}, CenterCrop{}}, {Resize{Height: 5, Width: 5}, PadCrop{Pad: 1}}} {
		p := pipeline(t, Options{Height: 8, Width: 8, Steps: steps})
		if err := p.Decode(dataloader.At{}, file(t, "ok.jpg"), make([]byte, 3*64)); !errors.Is(err, dataloader.ErrField) {
			t.Errorf("%+v: error %v, want ErrField", steps, err)
		}
	}
}

func TestStepsAndResamplingAllocateNothing(t *testing.T) {
	ycc := image.NewYCbCr(image.Rect(0, 0, 90, 70), image.YCbCrSubsampleRatio420)
	for _, m := range []image.Image{ycc, image.NewRGBA(image.Rect(0, 0, 90, 70)), image.NewGray(image.Rect(0, 0, 90, 70))} {
		for _, kind := range []arena.DType{arena.Uint8, arena.Float32} {
			p := pipeline(t, Options{Height: 32, Width: 32, Channels: 3, Type: kind, Steps: append([]Step{RandomResizedCrop{}}, everyStep()...)})
			dst := make([]byte, p.Field("x").Bytes())
			draw := func() {
				if err := p.Draw(dataloader.At{}, m, dst); err != nil {
					t.Fatal(err)
				}
			}
			draw()
			if n := testing.AllocsPerRun(20, draw); n != 0 && !raceEnabled {
				t.Errorf("%T to %v: %v allocations a sample", m, kind, n)
			}
		}
	}
}

func TestFloatsThatAreNotAlignedAreWritten(t *testing.T) {
	o := Options{Height: 8, Width: 8, Type: arena.Float32}
	want := decoded(t, o, dataloader.At{}, file(t, "ok.jpg"))
	p := pipeline(t, o)
	got := make([]byte, len(want)+1)
	if err := p.Decode(dataloader.At{}, file(t, "ok.jpg"), got[1:]); err != nil || !bytes.Equal(got[1:], want) {
		t.Errorf("memory that is not aligned has other contents (%v)", err)
	}
}

func TestACropOfALongPictureKeepsTheRatio(t *testing.T) {
	o := Options{Height: 10, Width: 10, Channels: 3}
	for _, c := range []struct{ w, h, boxW, boxH int }{{1000, 30, 40, 30}, {30, 1000, 30, 40}} {
		v := whole(c.w, c.h)
		r := dataloader.At{}.Rand()
		if _, err := (RandomResizedCrop{Scale: [2]float64{0.99, 1}}).place(&v, &o, &r); err != nil {
			t.Fatal(err)
		}
		if w, h := int(v.x1-v.x0), int(v.y1-v.y0); w != c.boxW || h != c.boxH || int(v.x0) != (c.w-w)/2 || int(v.y0) != (c.h-h)/2 {
			t.Errorf("%d × %d: box %d × %d at (%v, %v), want %d × %d in the middle", c.w, c.h, w, h, v.x0, v.y0, c.boxW, c.boxH)
		}
	}
}

func TestCutoutFillsWholeSquares(t *testing.T) {
	p := pipeline(t, Options{Height: 30, Width: 30, Channels: 1, Steps: []Step{Cutout{Size: 5, Fill: [4]uint8{200}}}})
	most := 0
	for i := range 50 {
		dst := make([]byte, 900)
		if err := p.Draw(dataloader.At{Index: i}, image.NewGray(image.Rect(0, 0, 30, 30)), dst); err != nil {
			t.Fatal(err)
		}
		most = max(most, bytes.Count(dst, []byte{200}))
	}
	if most != 25 {
		t.Errorf("the largest square has %d pixels, want 25", most)
	}
}

func TestInkAndOpaqueAlpha(t *testing.T) {
	m := image.NewCMYK(image.Rect(0, 0, 1, 1))
	copy(m.Pix, []uint8{255, 102, 0, 51})
	p := pipeline(t, Options{Height: 1, Width: 1, Channels: 4})
	dst := make([]byte, 4)
	if err := p.Draw(dataloader.At{}, m, dst); err != nil || !bytes.Equal(dst, []byte{0, 122, 204, 255}) {
		t.Errorf("CMYK 255, 102, 0, 51 is %v (%v), want 0, 122, 204, 255", dst, err)
	}
}
