package arrow

import (
	"bytes"
	"errors"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestFramesOfZstd(t *testing.T) {
	t.Parallel()
	frame := func(n int, opt ...zstd.EOption) []byte {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b, opt...)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(bytes.Repeat([]byte("even keel "), n))
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	skip := []byte{0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3}
	wide := frame(100_000, zstd.WithWindowSize(1<<20), zstd.WithEncoderCRC(false))
	small := frame(3)
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"one":        {wide, nil},
		"several":    {bytes.Join([][]byte{small, skip, wide, small}, nil), nil},
		"checksum":   {append(frame(100), wide...), nil},
		"wide":       {frame(1_000_000, zstd.WithWindowSize(1<<21)), errLimit},
		"wide later": {append(bytes.Join([][]byte{small, skip}, nil), frame(1_000_000, zstd.WithWindowSize(1<<21))...), errLimit},
		"cut":        {wide[:len(wide)-1], errFrame},
		"cut sum":    {small[:len(small)-1], errFrame},
		"cut skip":   {skip[:len(skip)-1], errFrame},
	} {
		if err := verifyFrames(c.b, 1<<20); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	if err := verifyFrames([]byte("no zstd at all"), 1<<20); err == nil {
		t.Error("no zstd: no error")
	}
}
