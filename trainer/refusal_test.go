package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// refusals are plans of 8-n-3 that do not fit.
var refusals = []struct {
	n      int
	memory int64
}{
	{1 << 20, 16 << 20}, // the parameters alone do not fit
	{1 << 20, 96 << 20}, // they do
	{1 << 28, 1 << 30},
	{1 << 28, 14 << 30},
}

// refuse makes a trainer that does not fit, and returns its error.
func refuse(tb testing.TB, dev kernels.Device, n int, memory int64, guard trainer.Guard) error {
	tb.Helper()
	opt := trainer.Options{Device: dev, Batch: 32, Optimizer: optim.Adam{}, Memory: memory, Guard: guard}
	_, err := trainer.New(context.Background(), classifier(8, n, 3), opt)
	if !errors.Is(err, arena.ErrCapacity) {
		tb.Fatalf("got %v, want ErrCapacity", err)
	}
	return err
}

// heapPeak runs f and returns by how much the heap grew at most.
func heapPeak(f func()) int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	read := func() int64 {
		metrics.Read(sample)
		return int64(sample[0].Value.Uint64())
	}
	before := read()
	peak, done := before, make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for t := time.NewTicker(time.Millisecond); ; {
			select {
			case <-done:
				t.Stop()
				return
			case <-t.C:
				peak = max(peak, read())
			}
		}
	})
	f()
	close(done)
	wg.Wait()
	return peak - before
}

func TestARefusalIsQuickAndNeedsLittleMemory(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // Go's default
	each(t, func(t *testing.T, dev kernels.Device) {
		partial := false
		for _, c := range refusals {
			for _, guard := range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
				var err error
				if got := heapPeak(func() { err = refuse(t, dev, c.n, c.memory, guard) }); got > 64<<20 {
					t.Errorf("n = %d in %d bytes, guard %d: the heap grew by %d bytes, want at most 64 MiB", c.n, c.memory, guard, got)
				}
				var e *trainer.CapacityError
				if !errors.As(err, &e) || e.Partial != strings.Contains(err.Error(), "trainer.Explore search on") {
					t.Errorf("got %v, want a CapacityError that says whether it searched everything", err)
				}
				partial = partial || e.Partial
			}
		}
		if !partial && !dev.Unified() { // offloading multiplies what can be tried
			t.Error("no search was ended, so this test shows nothing")
		}
	})
}

// The search for advice is bounded by work and not by time.
func TestARefusalHasTheSameTextEachTime(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		first, second := refuse(t, dev, 1<<16, 6<<20, trainer.GuardEach), refuse(t, dev, 1<<16, 6<<20, trainer.GuardEach)
		if first.Error() != second.Error() {
			t.Errorf("first %v, then %v", first, second)
		}
	})
}

// BenchmarkRefusal measures refusals with all that they advise.
func BenchmarkRefusal(b *testing.B) {
	for _, d := range targets {
		dev := d.open(b, 0)
		for _, c := range refusals {
			b.Run(fmt.Sprintf("%s/n=%d/memory=%d", d.name, c.n, c.memory), func(b *testing.B) {
				b.ReportAllocs()
				var peak int64
				for b.Loop() {
					peak = max(peak, heapPeak(func() { _ = refuse(b, dev, c.n, c.memory, trainer.GuardEach) }))
				}
				b.ReportMetric(float64(peak), "heap-B")
			})
		}
	}
}

// A step that makes and applies gradients in slices has a bounded number of instructions.
func TestSlicesAreBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		model       trainer.ModelFunc
		least, most int // updates, and the view of each slice of them
	}{
		{"one gradient of a million rows", classifier(8, 1<<20, 3), 4 + 4, 4 + 2*32},
		{"nine gradients of 16,384 rows", func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			net := layers.New(g)
			x := net.Input("x", batch, 1<<14)
			h := net.Dense(x, "head", 16, nil)
			for i := range 8 {
				h = gorgonia.Must(gorgonia.Add(h, net.Dense(x, fmt.Sprintf("head%d", i), 16, layers.ReLU)))
			}
			return net.Classifier(x, h)
		}, 18 + 128, 18 + 256},
	} {
		plan, err := trainer.Plan(context.Background(), c.model, trainer.Options{Batch: 32, Guard: trainer.GuardEach})
		if err != nil {
			t.Fatal(err)
		}
		updates := 0
		for _, label := range plan.Programs[0].Labels {
			if strings.HasPrefix(label, "update ") {
				updates++
			}
		}
		if updates < c.least || updates > c.most {
			t.Errorf("%s: %d updates, want %d to %d", c.name, updates, c.least, c.most)
		}
	}
}

func TestAShapeTooLargeToCountIsAnError(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1 << 44, 1 << 58, 1 << 60, 1<<62 + 1, math.MaxInt} {
		for _, batch := range []int{1, 3, math.MaxInt32} {
			opt := trainer.Options{Batch: batch, Memory: 1 << 20}
			if _, err := trainer.Plan(context.Background(), classifier(8, n, 3), opt); !errors.Is(err, kernels.ErrShape) {
				t.Errorf("n = %d, batch %d: got %v, want ErrShape", n, batch, err)
			}
		}
	}
	if plan, err := trainer.Plan(context.Background(), small, trainer.Options{Batch: math.MaxInt32}); err != nil || plan.Total <= 0 {
		t.Errorf("batch %d of a small net: got %v", math.MaxInt32, err)
	}
}
