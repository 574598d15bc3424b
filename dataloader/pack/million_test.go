package pack_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/pack"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// million is whether the tests of large data run, which need minutes and 3 GB of disk. It is no
// variable, because go test caches results by the environment that tests read.
func million() bool { return os.Getenv("EVENKEEL_MILLION") != "" }

// pictures is a dataset of n images of 3×32×32 in ten classes, each with a stripe at a height of its
// own and noise. It keeps nothing in memory.
type pictures int

func (p pictures) Len() int { return int(p) }
func (pictures) Fields() []dataloader.Field {
	return []dataloader.Field{{Name: "x", Type: arena.Uint8, Shape: []int{3, 32, 32}, Scale: 1.0 / 255}, {Name: "y", Type: arena.Uint8}}
}

func (pictures) Fetch(_ context.Context, at dataloader.At, dst [][]byte) error {
	class := at.Index % 10
	x := dataloader.View[uint8](dst[0])
	s := uint64(at.Index)
	for i := range x {
		s = s*6364136223846793005 + 1442695040888963407
		x[i] = uint8(s >> 58)
		if i/32%32/3 == class {
			x[i] += 128
		}
	}
	dst[1][0] = uint8(class)
	return nil
}

// cnn is the network of examples/cnn, for these images.
func cnn(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 3, 32, 32)
	return net.Classifier(x, nets.DigitsCNN(net, x, 0.25))
}

// resident returns the resident memory of this process in bytes, or 0 where that cannot be seen.
func resident() int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		var kb int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kb); err == nil {
			return kb << 10
		}
	}
	return 0
}

// Training on a pack needs as much memory after the last step as after the first ones. With
// EVENKEEL_MILLION=1 the pack has 1,000,000 images, 3 GB, and training stays below 300 MB.
func TestTrainingOnAPackNeedsFlatMemory(t *testing.T) {
	n, batch := 1280, 64
	if million() {
		n = 1_000_000
	}
	begin := time.Now()
	p := write(t, pictures(n), pack.WriteOptions{})
	d := open(t, p, pack.Options{})
	t.Logf("packed %d images, %d MB in %v", n, d.Info().Bytes>>20, time.Since(begin).Round(time.Millisecond))
	dev := cputest.Open(t, cpu.Options{Threads: min(4, runtime.GOMAXPROCS(0))})
	var early, most, last int64
	var loss float64
	opt := trainer.Options{Device: dev, Batch: batch, Fields: d.Fields(), Seed: 1, Optimizer: optim.Adam{}}
	opt.Progress = func(s trainer.Progress) {
		loss = s.Loss
		if s.Step%8 != 0 {
			return
		}
		last = resident()
		if s.Step <= n/batch/10 {
			early = max(early, last)
		}
		if most = max(most, last); s.Step%1000 == 0 {
			t.Logf("step %d: loss %.4f, %d MB resident, %v", s.Step, s.Loss, last>>20, time.Since(begin).Round(time.Second))
		}
	}
	tr, err := trainer.New(t.Context(), cnn, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(tr.Close(), dev.Close()); err != nil {
			t.Error(err)
		}
	}()
	if _, err := tr.Fit(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	t.Logf("loss %.4f after %v; resident: %.1f MB at most in the first tenth, %.1f MB at most, %.1f MB at the end", loss,
		time.Since(begin).Round(time.Second), float64(early)/1e6, float64(most)/1e6, float64(last)/1e6)
	if most > 300e6 && !cputest.Race {
		t.Errorf("%d bytes are resident, want at most 300 MB", most)
	}
	if million() && most > early+8<<20 {
		t.Errorf("resident memory grows from %d to %d bytes", early, most)
	}
	if loss > 2 || loss < 0 {
		t.Errorf("loss %v: nothing was learned", loss)
	}
}
