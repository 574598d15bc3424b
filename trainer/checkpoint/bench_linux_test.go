package checkpoint_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/checkpoint"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/loop"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// digits is 784-512-256-10.
func digits(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 784)
	h := net.Dense(x, "hidden1", 512, layers.ReLU)
	h = net.Dense(h, "hidden2", 256, layers.ReLU)
	return net.Classifier(x, net.Dense(h, "out", 10, nil))
}

// pixels returns n samples in the form of MNIST, with random contents.
func pixels(tb testing.TB, n int) dataloader.Dataset {
	r := rand.New(rand.NewPCG(1, 2))
	x, y := make([]uint8, n*784), make([]uint8, n)
	for i := range x {
		x[i] = uint8(r.Uint32())
	}
	for i := range y {
		y[i] = uint8(r.IntN(10))
	}
	ds, err := dataloader.FromSlices(n, dataloader.Column("x", x, 784).Scaled(1.0/255, 0), dataloader.Column("y", y))
	if err != nil {
		tb.Fatal(err)
	}
	return ds
}

// cpuTime returns the processor time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkStep compares steps with a checkpoint every 50 steps and steps without, of
// 784-512-256-10 in batches of 128, in turn: an op is 100 steps of each. It reports the medians of
// the quotients of wall time and processor time (1: a checkpoint costs nothing), the quotient of
// the least wall times, which other programs disturb least, and the bytes of a checkpoint.
func BenchmarkStep(b *testing.B) {
	for name, o := range map[string]optim.Optimizer{"sgd": optim.SGD{Rate: 0.1}, "adam": optim.Adam{}} {
		b.Run(name, func(b *testing.B) {
			ds := pixels(b, 100*128)
			dev := cputest.Open(b, cpu.Options{})
			defer dev.Close()
			opt := trainer.Options{Device: dev, Batch: 128, Optimizer: o, Fields: ds.Fields()}
			open := func() *trainer.Trainer {
				t, err := trainer.New(b.Context(), digits, opt)
				if err != nil {
					b.Fatal(err)
				}
				return t
			}
			without := open()
			defer without.Close()
			opt.Checkpoint = true
			with := open()
			defer with.Close()
			f := opened(b, b.TempDir(), checkpoint.Options{EverySteps: 50})
			defer f.Close()
			ctx := context.Background()
			epoch := func(steps loop.Steps) (wall, processor time.Duration) {
				start, used := time.Now(), cpuTime()
				for _, err := range steps {
					if err != nil {
						b.Fatal(err)
					}
				}
				return time.Since(start), cpuTime() - used
			}
			plain, saving := without.Steps(ctx, ds), f.Steps(ctx, with, with.Steps(ctx, ds))
			epoch(plain)
			epoch(saving)
			var walls, processors []float64
			least := [2]time.Duration{1 << 62, 1 << 62} // without, with
			for n := 0; b.Loop(); n++ {
				// Which one is first changes.
				var w0, p0, w1, p1 time.Duration
				if n%2 == 0 {
					w0, p0 = epoch(plain)
				}
				w1, p1 = epoch(saving)
				if n%2 == 1 {
					w0, p0 = epoch(plain)
				}
				walls, processors = append(walls, w1.Seconds()/w0.Seconds()), append(processors, p1.Seconds()/p0.Seconds())
				least = [2]time.Duration{min(least[0], w0), min(least[1], w1)}
			}
			slices.Sort(walls)
			slices.Sort(processors)
			b.ReportMetric(walls[len(walls)/2], "wall")
			b.ReportMetric(least[1].Seconds()/least[0].Seconds(), "least-wall")
			b.ReportMetric(processors[len(processors)/2], "processor")
			b.ReportMetric(float64(f.Stats().Last.Bytes), "checkpoint-bytes")
			b.ReportMetric(float64(f.Stats().Saved), "checkpoints")
		})
	}
}
