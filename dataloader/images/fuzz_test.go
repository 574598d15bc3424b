package images

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

// FuzzDecode decodes arbitrary bytes: a picture or a format error, never a panic.
func FuzzDecode(f *testing.F) {
	entries, err := os.ReadDir("testdata")
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range entries {
		if b := file(f, e.Name()); len(b) < 8000 {
			f.Add(b, uint8(3), false)
		}
	}
	steps := append([]Step{RandomResizedCrop{}}, everyStep()...)
	var pipelines []*Pipeline
	for _, channels := range []int{1, 3, 4} {
		for _, kind := range []arena.DType{arena.Uint8, arena.Float32} {
			for _, steps := range [][]Step{nil, steps} {
				pipelines = append(pipelines, pipeline(f, Options{Height: 32, Width: 32, Channels: channels, Type: kind, Steps: steps,
					MaxPixels: 1 << 20, Orient: true, Alpha: ComposeAlpha}))
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, which uint8, _ bool) {
		p := pipelines[int(which)%len(pipelines)]
		dst := make([]byte, p.Field("x").Bytes())
		err := p.Decode(dataloader.At{Index: int(which)}, b, dst)
		// A decoder of others may panic: that is a format error then.
		if err != nil && !errors.Is(err, dataloader.ErrFormat) {
			t.Fatal(err)
		}
	})
}

// FuzzOrientation reads arbitrary EXIF.
func FuzzOrientation(f *testing.F) {
	for o := range 10 {
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			b := []byte("II*\x00")
			if order == binary.AppendByteOrder(binary.BigEndian) {
				b = []byte("MM\x00*")
			}
			b = order.AppendUint16(order.AppendUint32(b, 8), 1)
			b = order.AppendUint32(order.AppendUint16(order.AppendUint16(b, 0x0112), 3), 1)
			b = order.AppendUint16(b, uint16(o))
			if got := orientation(append(b, 0, 0)); o >= 1 && o <= 8 && got != o || (o == 0 || o > 8) && got != 1 {
				f.Fatalf("orientation %d is read as %d", o, got)
			}
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if o := orientation(b); o < 1 || o > 8 {
			t.Fatalf("orientation %d", o)
		}
	})
}

// FuzzResample compares the fast path with the one in floats, for any box and size.
func FuzzResample(f *testing.F) {
	f.Add(uint8(64), uint8(48), uint8(3), uint8(5), uint8(40), uint8(30), uint8(17), uint8(23), uint8(0))
	f.Add(uint8(1), uint8(1), uint8(0), uint8(0), uint8(1), uint8(1), uint8(200), uint8(3), uint8(7))
	f.Add(uint8(255), uint8(255), uint8(0), uint8(0), uint8(255), uint8(255), uint8(2), uint8(1), uint8(15))
	f.Add(uint8(255), uint8(9), uint8(7), uint8(1), uint8(200), uint8(8), uint8(13), uint8(9), uint8(3))
	f.Fuzz(func(t *testing.T, w, h, x, y, cw, ch, toW, toH, how uint8) {
		sw, sh := int(w)+1, int(h)+1
		s := yccSource(sw, sh)
		if how&8 != 0 { // smooth, as rounded weights of wide filters need
			for k := range s.planes {
				for i := range s.planes[k].pix {
					s.planes[k].pix[i] = byte(i / s.planes[k].stride)
				}
			}
		}
		s.ycc = false // without the colours, whose clipping differs
		if how&4 != 0 {
			s.planes = s.planes[:1]
		} else {
			s.planes = append(s.planes[:0], s.planes[0], s.planes[0], s.planes[0])
		}
		v := whole(sw, sh)
		x0, y0 := int(x)%sw, int(y)%sh
		v.crop(x0, y0, min(int(cw)+1, sw-x0), min(int(ch)+1, sh-y0))
		v.resize(int(toW)+1, int(toH)+1)
		v.flipX, v.flipY = how&1 != 0, how&2 != 0
		n := 3 * v.w * v.h
		got, want := make([]byte, n), make([]float32, n)
		var r resampler
		r.resample8(got, s, v, 3)
		r.resampleFloat(want, s, v, 3)
		for i, g := range got {
			if d := float32(g) - want[i]; d < -2.5 || d > 2.5 { // two roundings of 0.5, and weights rounded to 1/256
				t.Fatalf("%d × %d, view %+v: sample %d is %d, want %v", sw, sh, v, i, g, want[i])
			}
		}
	})
}
