package trainer_test

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
)

// shortPrograms is the number of programs of short batches that a trainer keeps.
const shortPrograms = 8

// firstOf returns the first n samples of ds.
func firstOf(t testing.TB, ds dataloader.Dataset, n int) dataloader.Dataset {
	t.Helper()
	some, err := dataloader.Subset(ds, 0, n)
	if err != nil {
		t.Fatal(err)
	}
	return some
}

func TestBatchesOfManySizesNeedLittleMemory(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		const batch = 512
		step := 1
		if dev.Name() != "cpu" {
			step = 40 // references are slow
		}
		ds := samples(t, batch, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: batch, Fields: ds.Fields()})
		full, heap := tr.Stats().Programs, func() int64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		before, host := heap(), int64(0)
		for rows := 1; rows < batch; rows += step {
			for range tr.Predict(t.Context(), firstOf(t, ds, rows)) {
				break
			}
			if s := tr.Stats(); s.Programs > full+shortPrograms {
				t.Fatalf("%d programs after batches up to %d, want at most %d", s.Programs, rows, full+shortPrograms)
			}
			if rows == 1+9*step {
				host = tr.Stats().Host
			}
		}
		if grew := heap() - before; grew >= 8<<20 {
			t.Errorf("the heap grew by %d bytes, want less than 8 MB", grew)
		}
		if got := tr.Stats().Host; got <= 0 || got > host+host/4 {
			t.Errorf("%d bytes on the host at the end, %d after 10 sizes", got, host)
		}
	})
}

// BenchmarkBatchSizes predicts batches of 1 to 127 rows in turn, and reports by how much the heap has grown after all.
func BenchmarkBatchSizes(b *testing.B) {
	dev := openCPU(b)
	ds := pixels(b, 128)
	tr := made(b, digits, trainer.Options{Device: dev, Batch: 128, Fields: ds.Fields()})
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := heap()
	for b.Loop() {
		for rows := 1; rows < 128; rows++ {
			outputs(b, tr, firstOf(b, ds, rows))
		}
	}
	b.ReportMetric(heap()-before, "heap-growth-B")
	b.ReportMetric(float64(tr.Stats().Host), "host-B")
}

func TestTheLeastRecentlyUsedProgramIsDropped(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		calls := 0
		model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			calls++
			return small(g, batch)
		}
		ds := samples(t, 16, 4, 3)
		tr := made(t, model, trainer.Options{Device: dev, Batch: 16, Fields: ds.Fields()})
		want := outputs(t, tr, firstOf(t, ds, 2))
		compiled := func(rows int) bool {
			before := calls
			outputs(t, tr, firstOf(t, ds, rows))
			return calls > before
		}
		for rows := 1; rows <= shortPrograms; rows++ {
			if got := compiled(rows); got != (rows != 2) {
				t.Errorf("batch of %d: compiled %v", rows, got)
			}
		}
		// 2 was used first, then 1; each use makes one the latest.
		for _, c := range []struct {
			rows int
			want bool
		}{{1, false}, {9, true}, {1, false}, {3, false}, {2, true}, {1, false}, {4, true}} {
			if got := compiled(c.rows); got != c.want {
				t.Errorf("batch of %d: compiled %v, want %v", c.rows, got, c.want)
			}
		}
		if got := outputs(t, tr, firstOf(t, ds, 2)); !slices.Equal(got, want) {
			t.Errorf("outputs %v of a program that was dropped and made again, want %v", got, want)
		}
	})
}

// A prediction that has begun goes on, whatever other predictions drop.
func TestAPredictionOutlivesItsProgram(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 34, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 16, Fields: ds.Fields()})
		all := outputs(t, tr, ds) // the last batch has 2 rows
		want := slices.Collect(slices.Chunk(all, 3))
		i := 0
		for p, err := range tr.Predict(t.Context(), ds) {
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(p.Output, want[i]) {
				t.Errorf("sample %d: got %v, want %v", p.Sample, p.Output, want[i])
			}
			if i == 3 {
				for rows := 3; rows < 15; rows++ {
					outputs(t, tr, firstOf(t, ds, rows))
				}
			}
			i++
		}
		if i != 34 {
			t.Errorf("%d predictions, want 34", i)
		}
		var group sync.WaitGroup
		var bad atomic.Int64
		for k := range 4 {
			group.Go(func() {
				for rows := 1 + k; rows < 16; rows += 2 {
					i := 0
					for p, err := range tr.Predict(t.Context(), firstOf(t, ds, rows)) {
						if err != nil || !slices.Equal(p.Output, want[i]) {
							bad.Add(1)
						}
						i++
					}
				}
			})
		}
		group.Wait()
		if bad.Load() > 0 {
			t.Errorf("%d wrong outputs of predictions at the same time", bad.Load())
		}
	})
}
