package images

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

func pipeline(t testing.TB, o Options) *Pipeline {
	t.Helper()
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// decoded returns the field of a picture.
func decoded(t testing.TB, o Options, at dataloader.At, b []byte) []byte {
	t.Helper()
	p := pipeline(t, o)
	dst := make([]byte, p.Field("x").Bytes())
	if err := p.Decode(at, b, dst); err != nil {
		t.Fatal(err)
	}
	return dst
}

func TestDamagedAndHostileFilesAreErrorsThatSayWhere(t *testing.T) {
	for _, c := range []struct {
		file, want string
	}{
		{"empty.jpg", "an empty file"},
		{"html.jpg", `"<html>404</html>"`},
		{"cut.jpg", "a whole picture"},
		{"noend.jpg", "unexpected EOF"},
		{"huge.jpg", "65500 × 65500"},
		{"unlikely.jpg", "9000 × 9000"},
		{"noheight.jpg", "64 × 0 pixels"},
		{"arithmetic.jpg", "arithmetic coding"},
		{"cut.png", "not enough pixel data"},
		{"checksum.png", "checksum"},
		{"huge.png", "50000 × 50000"},
		{"unlikely.png", "9000 × 9000"},
		{"frames.webp", "an animation"},
	} {
		t.Run(c.file, func(t *testing.T) {
			p := pipeline(t, Options{Height: 8, Width: 8})
			b := file(t, c.file)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := p.Decode(dataloader.At{}, b, make([]byte, 8*8*3))
			runtime.ReadMemStats(&after)
			var f *dataloader.FormatError
			if !errors.As(err, &f) || !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want a FormatError with %q", err, c.want)
			}
			if errors.Is(err, io.EOF) {
				t.Errorf("error %v is io.EOF, which ends an epoch", err)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
				t.Errorf("%d bytes were allocated for a file of %d", n, len(b))
			}
		})
	}
}

func TestOddFilesAreRead(t *testing.T) {
	// That their pixels are right is tested against Pillow.
	for _, name := range []string{"trailing.jpg", "really.png.jpg", "cmyk.jpg", "photogrey.jpg", "progressive.jpg", "deep.png", "rgba.png",
		"palette.png", "bit.png", "greyalpha.png", "frames.gif", "lossless.webp", "lossy.webp", "alpha.webp", "ok.bmp", "exif6.jpg"} {
		for _, channels := range []int{1, 3, 4} {
			for _, kind := range []arena.DType{arena.Uint8, arena.Float32} {
				p := pipeline(t, Options{Height: 20, Width: 30, Channels: channels, Type: kind})
				dst := make([]byte, p.Field("x").Bytes())
				if err := p.Decode(dataloader.At{}, file(t, name), dst); err != nil {
					t.Errorf("%s as %d channels of %v: %v", name, channels, kind, err)
				}
				if bytes.Equal(dst, make([]byte, len(dst))) {
					t.Errorf("%s as %d channels of %v is black", name, channels, kind)
				}
			}
		}
	}
}

func TestSixteenBitsAreKeptByFloatsAndCutToTheHighByteByBytes(t *testing.T) {
	o := Options{Height: 48, Width: 64, Channels: 1, Steps: []Step{Flip{}}}
	low := decoded(t, o, dataloader.At{}, file(t, "deep.png"))
	o.Type = arena.Float32
	all := dataloader.View[float32](decoded(t, o, dataloader.At{}, file(t, "deep.png")))
	for y := range 48 {
		for x := range 64 {
			v := uint16(y*700 + x*500)
			if got := low[y*64+x]; got != byte(v>>8) {
				t.Fatalf("byte (%d, %d) is %d, want %d", x, y, got, v>>8)
			}
			if got, want := all[y*64+x], float32(v)/257; got < want-0.001 || got > want+0.001 {
				t.Fatalf("float (%d, %d) is %v, want %v", x, y, got, want)
			}
		}
	}
}

func TestOrientationIsIgnoredByDefaultAndCounted(t *testing.T) {
	p := pipeline(t, Options{Height: 18, Width: 27, Steps: []Step{Flip{}}}) // stored rows; upright it is 27 × 18
	dst := make([]byte, p.Field("x").Bytes())
	for _, name := range []string{"exif6.jpg", "exif1.jpg"} {
		if err := p.Decode(dataloader.At{}, file(t, name), dst); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.Counts(); got != (Counts{Pictures: 2, Oriented: 1}) {
		t.Errorf("counts %+v", got)
	}
	p = pipeline(t, Options{Height: 18, Width: 27, Steps: []Step{Flip{}}, Orient: true})
	if err := p.Decode(dataloader.At{}, file(t, "exif6.jpg"), dst); !errors.Is(err, dataloader.ErrField) {
		t.Errorf("a picture that became 27 × 18 in a field of 18 × 27: %v", err)
	}
}

// TestSubsamplingsAgree decodes planes of all ratios of chroma, also of sub-images whose chroma is
// not aligned.
func TestSubsamplingsAgree(t *testing.T) {
	grey := color.YCbCr{Y: 90, Cb: 140, Cr: 100}
	r, g, b := color.YCbCrToRGB(grey.Y, grey.Cb, grey.Cr)
	for _, ratio := range []image.YCbCrSubsampleRatio{image.YCbCrSubsampleRatio444, image.YCbCrSubsampleRatio422, image.YCbCrSubsampleRatio420,
		image.YCbCrSubsampleRatio440, image.YCbCrSubsampleRatio411, image.YCbCrSubsampleRatio410} {
		for _, rect := range []image.Rectangle{image.Rect(0, 0, 23, 17), image.Rect(3, 5, 20, 16), image.Rect(4, 4, 5, 5)} {
			m := image.NewYCbCr(image.Rect(0, 0, 23, 17), ratio)
			fill(m.Y, grey.Y)
			fill(m.Cb, grey.Cb)
			fill(m.Cr, grey.Cr)
			p := pipeline(t, Options{Height: 11, Width: 19})
			dst := make([]byte, p.Field("x").Bytes())
			if err := p.Draw(dataloader.At{}, m.SubImage(rect), dst); err != nil {
				t.Fatal(err)
			}
			for i, v := range dst {
				if want := []byte{r, g, b}[i/(11*19)]; v+1 < want || v > want+1 {
					t.Fatalf("%v %v: sample %d is %d, want %d", ratio, rect, i, v, want)
				}
			}
		}
	}
}

type panics struct{}

func (panics) Name() string { return "panics" }
func (panics) Decode([]byte, int, int, int, image.Image) (image.Image, error) {
	panic("a bug in a decoder")
}

type wrongSize struct{}

func (wrongSize) Name() string { return "wrong" }
func (wrongSize) Decode([]byte, int, int, int, image.Image) (image.Image, error) {
	return image.NewGray(image.Rect(0, 0, 1, 1)), nil
}

func TestADecoderThatPanicsOrLiesIsAnError(t *testing.T) {
	dst := make([]byte, 3*8*8)
	p := pipeline(t, Options{Height: 8, Width: 8, JPEG: panics{}})
	if err := p.Decode(dataloader.At{}, file(t, "ok.jpg"), dst); !errors.Is(err, dataloader.ErrPanic) || !errors.Is(err, dataloader.ErrFormat) {
		t.Errorf("error %v, want a format error with a panic", err)
	}
	p = pipeline(t, Options{Height: 8, Width: 8, JPEG: wrongSize{}})
	if err := p.Decode(dataloader.At{}, file(t, "ok.jpg"), dst); !errors.Is(err, dataloader.ErrFormat) {
		t.Errorf("error %v, want a format error", err)
	}
	p = pipeline(t, Options{Height: 8, Width: 8, Steps: []Step{Resize{}, Func{Do: func(dataloader.At, Picture) error { panic("x") }}}})
	if err := p.Decode(dataloader.At{}, file(t, "ok.jpg"), dst); !errors.Is(err, dataloader.ErrPanic) {
		t.Errorf("error %v, want a panic", err)
	}
	if err := p.Decode(dataloader.At{}, file(t, "ok.jpg"), dst[1:]); !errors.Is(err, dataloader.ErrSlot) {
		t.Errorf("error %v, want ErrSlot", err)
	}
}

func TestMaxPixelsIsTheLargestPicture(t *testing.T) {
	dst := make([]byte, 3*8*8)
	p := pipeline(t, Options{Height: 8, Width: 8, MaxPixels: 64 * 48})
	if err := p.Decode(dataloader.At{}, file(t, "ok.jpg"), dst); err != nil {
		t.Error(err)
	}
	p = pipeline(t, Options{Height: 8, Width: 8, MaxPixels: 64*48 - 1})
	if err := p.Decode(dataloader.At{}, file(t, "ok.jpg"), dst); !errors.Is(err, dataloader.ErrFormat) {
		t.Errorf("error %v, want a format error", err)
	}
}

// TestPlausibleSizesAreNotRefused encodes the emptiest pictures, which compress best.
func TestPlausibleSizesAreNotRefused(t *testing.T) {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 4000, 3000)), &jpeg.Options{Quality: 1}); err != nil {
		t.Fatal(err)
	}
	h, err := readHeader(b.Bytes())
	if err == nil {
		err = h.check(b.Len(), defaultMaxPixels)
	}
	if err != nil || h.w != 4000 || h.h != 3000 {
		t.Errorf("%+v: %v", h, err)
	}
}

func TestEveryTruncationIsAnErrorAndNothingElse(t *testing.T) {
	for _, name := range []string{"exif3.jpg", "bit.png", "palette.png", "frames.gif", "lossless.webp", "lossy.webp"} {
		b := file(t, name)
		p := pipeline(t, Options{Height: 8, Width: 8, Orient: true})
		dst := make([]byte, 3*8*8)
		for n := 0; n < len(b)-1; n += 1 + len(b)/150 {
			err := p.Decode(dataloader.At{}, b[:n], dst)
			if errors.Is(err, dataloader.ErrPanic) || err != nil && !errors.Is(err, dataloader.ErrFormat) {
				t.Fatalf("%s cut at %d: %v", name, n, err)
			}
			if err == nil && n < len(b)/2 {
				t.Fatalf("%s cut at %d of %d is read", name, n, len(b))
			}
		}
	}
}
