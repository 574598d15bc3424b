//go:build gpu && cgo

package cuda

import (
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/kerneltest"
)

func TestWorkIsTimedInEveryMode(t *testing.T) {
	for name, o := range modes {
		t.Run(name, func(t *testing.T) {
			opened(t, o) // which skips without cuBLAS
			kerneltest.Timings(t, func() (kernels.Device, error) { return Open(o) })
		})
	}
}

// A stream that is closed while it is timed leaves nothing behind.
func TestAStreamIsClosedWhileItIsTimed(t *testing.T) {
	d := opened(t, Options{})
	s, err := d.NewStream("timed")
	if err != nil {
		t.Fatal(err)
	}
	m, err := d.Alloc(256)
	if err != nil {
		t.Fatal(err)
	}
	tl := kernels.NewTimeline()
	for _, err := range []error{d.TimeWork(s, tl), s.Fill(arena.Span{Memory: m, Size: 256}, 1), s.Close(), m.Free()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := d.TimeWork(s, nil); err == nil {
		t.Error("the timing of a closed stream can be ended")
	}
}
