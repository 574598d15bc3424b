package trainer_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// spy is a device that counts copies, and keeps the checks of the last training program that was bound.
type spy struct {
	kernels.Device
	copies int
	checks []kernels.Call
	at     kernels.Binding
}

func (s *spy) Bind(calls []kernels.Call, at kernels.Binding) (kernels.Program, error) {
	if slices.ContainsFunc(calls, func(c kernels.Call) bool { return c.Op == kernels.Adam }) {
		s.at = kernels.Binding{Memory: at.Memory, Base: slices.Clone(at.Base)}
		s.checks = s.checks[:0]
		for _, c := range calls {
			if c.Op == kernels.CheckFinite {
				s.checks = append(s.checks, c)
			}
		}
	}
	inner, err := s.Device.Bind(calls, at)
	return spiedProgram{inner}, err
}

// spiedProgram gives its device the stream that is its own.
type spiedProgram struct{ kernels.Program }

func (p spiedProgram) Launch(s arena.Stream) error { return p.Program.Launch(s.(*spiedStream).Stream) }

func (s *spy) NewStream(name string) (arena.Stream, error) {
	inner, err := s.Device.NewStream(name)
	return &spiedStream{inner, s}, err
}

type spiedStream struct {
	arena.Stream
	spy *spy
}

func (s *spiedStream) Copy(dst, src arena.Span) error {
	s.spy.copies++
	return s.Stream.Copy(dst, src)
}

// BenchmarkGuard reports what part of a training step of 784-512-256-10 with Adam are its checks for finite numbers: share-%. One op is
// one step of 128.
func BenchmarkGuard(b *testing.B) {
	for name, guard := range map[string]trainer.Guard{"step": trainer.GuardStep, "each": trainer.GuardEach} {
		b.Run(name, func(b *testing.B) {
			ds := pixels(b, 20*128)
			dev := cputest.Open(b, cpu.Options{})
			defer dev.Close()
			s := &spy{Device: dev}
			t, err := trainer.New(b.Context(), digits, trainer.Options{Device: s, Batch: 128, Optimizer: optim.Adam{}, Fields: ds.Fields(), Guard: guard})
			if err != nil {
				b.Fatal(err)
			}
			defer t.Close()
			left := 0
			for b.Loop() {
				if left == 0 {
					res, err := t.Fit(context.Background(), ds)
					if err != nil {
						b.Fatal(err)
					}
					left = res.Steps
				}
				left--
			}
			step := float64(b.Elapsed().Nanoseconds()) / float64(b.N+left)
			checks := timeOf(b, dev, s.checks, s.at)
			b.ReportMetric(float64(checks.Nanoseconds()), "checks-ns/op")
			b.ReportMetric(100*float64(checks.Nanoseconds())/step, "share-%")
		})
	}
}

// timeOf returns what one run of calls takes.
func timeOf(b *testing.B, dev kernels.Device, calls []kernels.Call, at kernels.Binding) time.Duration {
	if len(calls) < 7 {
		b.Fatalf("%d checks, want at least 7: of the loss and six gradients", len(calls))
	}
	prog, err := dev.Bind(calls, at)
	if err != nil {
		b.Fatal(err)
	}
	defer prog.Close()
	stream, err := dev.NewStream("checks")
	if err != nil {
		b.Fatal(err)
	}
	defer stream.Close()
	const runs = 200
	start := time.Now()
	for range runs {
		if err := prog.Launch(stream); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start) / runs
}
