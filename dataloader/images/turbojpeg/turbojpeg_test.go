package turbojpeg

import (
	"bytes"
	"errors"
	"image"
	"image/jpeg"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/images"
)

// open returns the library, or skips the test.
func open(t testing.TB) *Library {
	t.Helper()
	l, err := Open(Options{})
	if errors.Is(err, ErrNotFound) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func file(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestNameHasTheVersionAndAProbe(t *testing.T) {
	l := open(t)
	t.Log(l.Name())
	if !strings.HasPrefix(l.Name(), "libturbojpeg ") || !strings.Contains(l.Name(), "(probe ") || strings.Contains(l.Name(), "unknown") {
		t.Errorf("name %q", l.Name())
	}
	p, err := images.New(images.Options{Height: 8, Width: 8, JPEG: l})
	if err != nil {
		t.Fatal(err)
	}
	q, err := images.New(images.Options{Height: 8, Width: 8})
	if err != nil {
		t.Fatal(err)
	}
	if p.Fingerprint() == q.Fingerprint() || p.Decoder() != l.Name() {
		t.Errorf("decoder %q does not change the fingerprint", p.Decoder())
	}
}

func TestPicturesAreWithinRoundingOfImageJPEG(t *testing.T) {
	l := open(t)
	for _, name := range []string{"photo444.jpg", "photo422.jpg", "photo420.jpg", "photogrey.jpg", "progressive.jpg", "cmyk.jpg", "ok.jpg",
		"trailing.jpg", "exif6.jpg"} {
		for _, channels := range []int{1, 3} {
			steps := []images.Step{images.RandomResizedCrop{}, images.Flip{Horizontal: 0.5}}
			var got [2][]byte
			for i, j := range []images.JPEG{nil, l} {
				p, err := images.New(images.Options{Height: 50, Width: 60, Channels: channels, Steps: steps, JPEG: j, Orient: true})
				if err != nil {
					t.Fatal(err)
				}
				got[i] = make([]byte, channels*50*60)
				if err := p.Decode(dataloader.At{Index: 3}, file(t, name), got[i]); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			var most, sum int
			for i, v := range got[0] {
				d := int(v) - int(got[1][i])
				most, sum = max(most, d, -d), sum+max(d, -d)
			}
			t.Logf("%s, %d channels: largest difference %d, mean %.3f", name, channels, most, float64(sum)/float64(len(got[0])))
			// Samples differ by 1 after the inverse transform, a step of chroma changes a colour by 2; CMYK has no planes.
			if most > 4 || sum > len(got[0])/2 {
				t.Errorf("%s: distance to image/jpeg %d, mean %.2f", name, most, float64(sum)/float64(len(got[0])))
			}
		}
	}
}

// photo returns a large smooth picture with noise, encoded.
func photo(t testing.TB, w, h int) []byte {
	m := image.NewYCbCr(image.Rect(0, 0, w, h), image.YCbCrSubsampleRatio420)
	seed := uint32(1)
	for i := range m.Y {
		seed = seed*1664525 + 1013904223
		x, y := i%m.YStride, i/m.YStride
		v := 120.0
		for k := 1.0; k < 64; k *= 2 { // amplitudes fall with the frequency, as in photos
			v += 45 / k * math.Sin(float64(x)*k/40+k) * math.Cos(float64(y)*k/50+2*k)
		}
		if (x-w/2)*(x-w/2)+(y-h/2)*(y-h/2) < w*h/16 {
			v /= 2
		}
		m.Y[i] = uint8(max(v, 0)) + uint8(seed>>29)
	}
	for i := range m.Cb {
		m.Cb[i], m.Cr[i] = uint8(80+i%m.CStride*96/m.CStride), uint8(80+i/m.CStride*96/h)
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, &jpeg.Options{Quality: 90}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestShrinkingStaysNearTheFullDecoding(t *testing.T) {
	l := open(t)
	for _, c := range []struct{ w, h, side int }{{501, 399, 96}, {501, 399, 40}, {801, 803, 64}} {
		b := photo(t, c.w, c.h)
		var got [2][]byte
		for i, shrink := range []bool{false, true} {
			p, err := images.New(images.Options{Height: c.side, Width: c.side, JPEG: l, Shrink: shrink})
			if err != nil {
				t.Fatal(err)
			}
			got[i] = make([]byte, 3*c.side*c.side)
			if err := p.Decode(dataloader.At{}, b, got[i]); err != nil {
				t.Fatal(err)
			}
			if n := p.Counts().Shrunk; n != int64(i) {
				t.Errorf("%d pictures were shrunk, want %d", n, i)
			}
		}
		var most, sum int
		for i, v := range got[0] {
			d := int(v) - int(got[1][i])
			most, sum = max(most, d, -d), sum+max(d, -d)
		}
		mean := float64(sum) / float64(len(got[0]))
		t.Logf("%d × %d to %d: largest difference %d, mean %.3f", c.w, c.h, c.side, most, mean)
		if mean > 1.5 || most > 20 {
			t.Errorf("%d × %d to %d: largest difference %d, mean %.2f", c.w, c.h, c.side, most, mean)
		}
	}
}

func TestDamagedFilesAreErrors(t *testing.T) {
	l := open(t)
	p, err := images.New(images.Options{Height: 8, Width: 8, JPEG: l})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"empty.jpg", "html.jpg", "cut.jpg", "noend.jpg", "huge.jpg", "unlikely.jpg", "noheight.jpg", "arithmetic.jpg"} {
		if err := p.Decode(dataloader.At{}, file(t, name), make([]byte, 3*64)); !errors.Is(err, dataloader.ErrFormat) {
			t.Errorf("%s: error %v, want a format error", name, err)
		}
	}
	if err := p.Decode(dataloader.At{}, file(t, "ok.jpg"), make([]byte, 3*64)); err != nil {
		t.Errorf("a good file after bad ones: %v", err)
	}
}

func TestManyGoroutinesDecodeTheSame(t *testing.T) {
	l := open(t)
	p, err := images.New(images.Options{Height: 30, Width: 30, JPEG: l})
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"photo444.jpg", "photo420.jpg", "photogrey.jpg", "cmyk.jpg"}
	want := map[string][]byte{}
	for _, n := range names {
		want[n] = make([]byte, 2700)
		if err := p.Decode(dataloader.At{}, file(t, n), want[n]); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			got := make([]byte, 2700)
			for i := range 40 {
				n := names[(i+g)%len(names)]
				if err := p.Decode(dataloader.At{}, file(t, n), got); err != nil || !bytes.Equal(got, want[n]) {
					t.Errorf("%s: another picture (%v)", n, err)
				}
			}
		})
	}
	wg.Wait()
	l.mu.Lock()
	n := len(l.free)
	l.mu.Unlock()
	if n < 1 || n > 4 {
		t.Errorf("%d decoders are kept for 4 goroutines", n)
	}
}

func TestDecodingReusesMemory(t *testing.T) {
	l := open(t)
	b := file(t, "photo420.jpg")
	var old image.Image
	decode := func() {
		m, err := l.Decode(b, 81, 63, 1, old)
		if err != nil {
			t.Fatal(err)
		}
		old = m
	}
	decode()
	if n := testing.AllocsPerRun(50, decode); n > 0 {
		t.Errorf("%v allocations a picture, want 0", n)
	}
}

func TestClosedAndMissingLibrariesAreErrors(t *testing.T) {
	_, err := Open(Options{Path: "/none/libturbojpeg.so"})
	var missing *NotFoundError
	if !errors.As(err, &missing) || !errors.Is(err, ErrNotFound) || len(missing.Tried) != 1 || !strings.Contains(err.Error(), "/none/") {
		t.Errorf("error %v, want a NotFoundError that names the path", err)
	}
	if j, err := IfFound(Options{Path: "/none/libturbojpeg.so"}); j != nil || err != nil {
		t.Errorf("IfFound returns %v, %v; want nil, nil", j, err)
	}
	l := open(t)
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	if _, err := l.Decode(probe, 40, 24, 1, nil); !errors.Is(err, dataloader.ErrClosed) {
		t.Errorf("error %v, want ErrClosed", err)
	}
}

// FuzzDecode decodes arbitrary bytes with the library of the system.
func FuzzDecode(f *testing.F) {
	l := open(f)
	for _, name := range []string{"photo444.jpg", "photo420.jpg", "photogrey.jpg", "progressive.jpg", "cmyk.jpg", "cut.jpg"} {
		f.Add(file(f, name))
	}
	p, err := images.New(images.Options{Height: 20, Width: 20, JPEG: l, Shrink: true, MaxPixels: 1 << 20,
		Steps: []images.Step{images.RandomResizedCrop{}}})
	if err != nil {
		f.Fatal(err)
	}
	dst := make([]byte, 1200)
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := p.Decode(dataloader.At{}, b, dst); err != nil && !errors.Is(err, dataloader.ErrFormat) {
			t.Fatal(err)
		}
	})
}

var pipelineOptions = images.Options{Height: 224, Width: 224, Steps: []images.Step{images.RandomResizedCrop{}, images.Flip{Horizontal: 0.5}}}

// BenchmarkPipeline decodes pictures of 256 × 256 pixels, crops and flips, with both decoders.
func BenchmarkPipeline(b *testing.B) {
	picture := photo(b, 256, 256)
	for _, name := range []string{"stdlib", "turbojpeg"} {
		b.Run(name, func(b *testing.B) {
			o := pipelineOptions
			if name == "turbojpeg" {
				o.JPEG = open(b)
			}
			p, err := images.New(o)
			if err != nil {
				b.Fatal(err)
			}
			dst := make([]byte, 3*224*224)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := p.Decode(dataloader.At{Index: i}, picture, dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
