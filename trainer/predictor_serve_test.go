package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

func TestAPredictionAllocatesNothing(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		if dev.Name() == "emu" {
			t.Skip("the queues of the emulated device are in Go memory")
		}
		for _, delay := range []time.Duration{0, time.Microsecond} {
			p := predictor(t, small, trainer.PredictorOptions{Device: dev, Batch: 4, MaxDelay: delay})
			x, dst := make([]float32, 12), make([]float32, 9)
			ctx := t.Context()
			for _, rows := range []int{1, 2, 3} {
				n := testing.AllocsPerRun(100, func() {
					if err := p.Predict(ctx, dst[:3*rows], x[:4*rows]); err != nil {
						t.Fatal(err)
					}
				})
				if n != 0 {
					t.Errorf("delay %v, %d rows: %v heap allocations a call", delay, rows, n)
				}
			}
			all := [][]float32{dst[:3]}
			if n := testing.AllocsPerRun(100, func() { _ = p.PredictAll(ctx, all, x[:4]) }); n != 0 {
				t.Errorf("PredictAll: %v heap allocations a call", n)
			}
		}
	})
}

func TestAPredictorsMemoryIsFlat(t *testing.T) {
	calls := 10_000
	if testing.Short() {
		calls = 1000
	}
	for _, d := range targets {
		t.Run(d.name, func(t *testing.T) {
			dev := d.open(t, 0)
			p := predictor(t, small, trainer.PredictorOptions{Device: dev, Batch: 8})
			x := fieldOf(t, samples(t, 8, 4, 3), 0)
			want, first := predict(t, p, 8, x), p.Stats()
			before, counts := countOf(dev)
			dst := make([]float32, 24)
			for i := range calls {
				n := i%8 + 1
				if err := p.Predict(t.Context(), dst[:3*n], x[:4*n]); err != nil {
					t.Fatal(err)
				}
				if n == 8 && !slices.Equal(dst, want) {
					t.Fatalf("call %d: %v, want %v", i, dst, want)
				}
			}
			s := p.Stats()
			if s.Arena.Reserved != first.Arena.Reserved || s.Arena.InUse != first.Arena.InUse || s.Pinned != first.Pinned || s.Host != first.Host {
				t.Errorf("memory grew: %+v, was %+v", s, first)
			}
			if s.Calls != int64(calls)+1 || s.Batches != s.Calls || s.Rows+s.Padded != 8+int64(calls/8)*(1+2+4+4+8+8+8+8) {
				t.Errorf("%d calls, %d batches, %d rows, %d padded", s.Calls, s.Batches, s.Rows, s.Padded)
			}
			if after, _ := countOf(dev); counts && (after.allocs != before.allocs || after.pins != before.pins ||
				after.streams != before.streams || after.events != before.events) {
				t.Errorf("the device has %+v, had %+v", after, before)
			}
		})
	}
}

// Each caller must get its own rows, whoever shares the batch: they are the same numbers as alone,
// but for the order of sums in programs of other sizes.
func TestManyCallersGetTheirOwnRows(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, opt := range []trainer.PredictorOptions{
			{Batch: 16}, {Batch: 16, Sizes: []int{16}}, {Batch: 5, MaxDelay: 100 * time.Microsecond}, {Batch: 1},
		} {
			opt.Device = dev
			p := predictor(t, small, opt)
			const callers, calls = 12, 40
			x := fieldOf(t, samples(t, callers*calls, 4, 3), 0)
			alone := make([]float32, callers*calls*3)
			for i := range callers * calls {
				if err := p.Predict(t.Context(), alone[3*i:3*i+3], x[4*i:4*i+4]); err != nil {
					t.Fatal(err)
				}
			}
			var all sync.WaitGroup
			for c := range callers {
				all.Go(func() {
					rows := min(opt.Batch, c%3+1)
					dst := make([]float32, 3*rows)
					for i := 0; i+rows <= calls; i++ {
						at := c*calls + i
						if err := p.Predict(t.Context(), dst, x[4*at:4*(at+rows)]); err != nil {
							t.Error(err)
							return
						}
						for k, v := range dst {
							want := alone[3*at+k]
							if len(opt.Sizes) == 1 && v != want || !about(float64(v), float64(want), 1e-6) {
								t.Errorf("caller %d, call %d: number %d is %v, want %v", c, i, k, v, want)
								return
							}
						}
					}
				})
			}
			all.Wait()
			if s := p.Stats(); opt.Batch > 1 && s.Batches >= s.Calls {
				t.Logf("%d calls in %d batches", s.Calls, s.Batches)
			}
		}
	})
}

func TestCallsThatWaitShareABatch(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		p := predictor(t, small, trainer.PredictorOptions{Device: dev, Batch: 8, MaxDelay: time.Hour})
		x := fieldOf(t, samples(t, 8, 4, 3), 0)
		var all sync.WaitGroup
		for i := range 8 { // the eighth row fills the batch: nobody waits for an hour
			all.Go(func() { predict(t, p, 1, x[4*i:4*i+4]) })
		}
		within(t, time.Minute, "a full batch", all.Wait)
		if s := p.Stats(); s.Calls != 8 || s.Batches != 1 || s.Rows != 8 || s.Padded != 0 {
			t.Errorf("%+v, want 8 calls in one batch", s)
		}
	})
}

func TestABatchThatIsNotFullEndsAfterItsDelay(t *testing.T) {
	p := predictor(t, small, trainer.PredictorOptions{Device: openCPU(t), Batch: 8, MaxDelay: 20 * time.Millisecond})
	begun := time.Now()
	predict(t, p, 1, make([]float32, 4))
	if d := time.Since(begun); d < 20*time.Millisecond {
		t.Errorf("done after %v: it waits for 20ms", d)
	}
}

func TestACallerThatGivesUpHarmsNobody(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		p := predictor(t, small, trainer.PredictorOptions{Device: dev, Batch: 4, MaxDelay: time.Hour})
		x := fieldOf(t, samples(t, 4, 4, 3), 0)
		q := predictor(t, small, trainer.PredictorOptions{Device: dev, Batch: 4})
		want := predict(t, q, 4, x)
		for range 20 { // the first is the leader, the second waits in the queue: both give up
			ctx, cancel := context.WithCancel(t.Context())
			var gone, all sync.WaitGroup
			for range 2 {
				gone.Go(func() {
					if err := p.Predict(ctx, make([]float32, 3), x[:4]); !errors.Is(err, context.Canceled) {
						t.Errorf("got %v, want Canceled", err)
					}
				})
			}
			got := make([]float32, 12)
			all.Go(func() { // shares the queue with those two, or finds it empty
				if err := p.Predict(t.Context(), got[:3], x[:4]); err != nil {
					t.Error(err)
				}
			})
			waitFor(t, p, 3)
			cancel()
			within(t, time.Minute, "giving up", gone.Wait)
			all.Go(func() {
				if err := p.Predict(t.Context(), got[3:], x[4:]); err != nil {
					t.Error(err)
				}
			})
			within(t, time.Minute, "the others", all.Wait)
			if !slices.Equal(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
		}
	})
}

func TestCloseEndsCallersThatWait(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		p := predictor(t, small, trainer.PredictorOptions{Device: dev, Batch: 64, MaxDelay: time.Hour})
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if err := p.Predict(context.Background(), make([]float32, 3), make([]float32, 4)); !errors.Is(err, trainer.ErrClosed) {
					t.Errorf("got %v, want ErrClosed", err)
				}
			})
		}
		waitFor(t, p, 8)
		within(t, time.Minute, "close", func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			all.Wait()
		})
		if err := p.Predict(t.Context(), make([]float32, 3), make([]float32, 4)); !errors.Is(err, trainer.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		if s := p.Stats(); s.Arena.Reserved != 0 || s.Pinned != 0 {
			t.Errorf("after Close: %d bytes, %d pinned", s.Arena.Reserved, s.Pinned)
		}
	})
}

func TestClosingWhileManyPredictIsClean(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for i := range 20 {
			p := predictor(t, small, trainer.PredictorOptions{Device: dev, Batch: 4, MaxDelay: time.Duration(i%2) * time.Microsecond})
			var all sync.WaitGroup
			for range 6 {
				all.Go(func() {
					for {
						if err := p.Predict(context.Background(), make([]float32, 3), make([]float32, 4)); err != nil {
							if !errors.Is(err, trainer.ErrClosed) {
								t.Errorf("got %v, want ErrClosed", err)
							}
							return
						}
					}
				})
			}
			time.Sleep(time.Duration(i) * 100 * time.Microsecond)
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			within(t, time.Minute, "the callers", all.Wait)
		}
	})
}

func TestAWrongIndexIsTheErrorOfItsCallerOnly(t *testing.T) {
	words := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Indices("x", batch, 2)
		h := net.Embedding(x, "words", 5, 3)
		return net.Classifier(x, net.Dense(net.Flatten(h, "flat"), "out", 2, nil))
	}
	each(t, func(t *testing.T, dev kernels.Device) {
		fields := []dataloader.Field{dataloader.Column("x", []int32{}, 2).Field}
		p := predictor(t, words, trainer.PredictorOptions{Device: dev, Batch: 4, MaxDelay: time.Hour, Fields: fields})
		q := predictor(t, words, trainer.PredictorOptions{Device: dev, Batch: 4, Fields: fields})
		want := predict(t, q, 1, []int32{1, 2})
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				x, dst := []int32{1, 2}, make([]float32, 2)
				if i >= 2 {
					x[1] = int32(3 + i) // 5 and 6
				}
				err := p.Predict(t.Context(), dst, x)
				var bad *trainer.IndexError
				switch {
				case i < 2 && (err != nil || !about(float64(dst[0]), float64(want[0]), 1e-6)):
					t.Errorf("caller %d: %v %v, want %v", i, dst, err, want)
				case i >= 2 && (!errors.As(err, &bad) || bad.Index != int64(3+i) || bad.Sample != 0 || bad.At != 1 || bad.Field != "x"):
					t.Errorf("caller %d: %v, want an IndexError", i, err)
				}
			})
		}
		within(t, time.Minute, "all", all.Wait)
		if got := predict(t, q, 1, []int32{1, 2}); !slices.Equal(got, want) {
			t.Errorf("then %v, want %v", got, want)
		}
		err := q.Predict(t.Context(), make([]float32, 6), []int32{0, 0, 0, 9, 0, 0})
		var bad *trainer.IndexError
		if !errors.As(err, &bad) || bad.Sample != 1 {
			t.Errorf("got %v, want an IndexError in row 1", err)
		}
		predict(t, q, 3, []int32{0, 0, 0, 1, 0, 0}) // the wrong index is gone from rows that fill up
	})
}

func TestSeveralInputsAreTakenInTheOrderOfTheModel(t *testing.T) {
	two := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		a, b := net.Input("a", batch, 3), net.Indices("b", batch, 1)
		h := net.Dense(a, "dense", 2, nil)
		e := net.Flatten(net.Embedding(b, "table", 7, 2), "flat")
		if net.Err() != nil {
			return trainer.Model{}, net.Err()
		}
		return trainer.Model{Inputs: net.Inputs(), Output: gorgonia.Must(gorgonia.Add(h, e)), Params: net.Params()}, nil
	}
	each(t, func(t *testing.T, dev kernels.Device) {
		p := predictor(t, two, trainer.PredictorOptions{Device: dev, Batch: 4})
		var names []string
		for _, in := range p.Inputs() {
			names = append(names, in.Name)
		}
		if fmt.Sprint(names) != "[a b]" {
			t.Fatalf("inputs %v", names)
		}
		values := map[string][]float32{"dense/w": {1, 0, 0, 1, 0, 0}, "dense/b": {10, 20}, "table/table": make([]float32, 14)}
		for i := range values["table/table"] {
			values["table/table"][i] = float32(100 * i)
		}
		if err := p.LoadWeights(t.Context(), func(name string) []float32 { return values[name] }); err != nil {
			t.Fatal(err)
		}
		got := predict(t, p, 2, []float32{1, 2, 3, 4, 5, 6}, []int64{0, 3})
		if want := []float32{11, 122, 614, 725}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// waitFor returns when n calls wait in the queue of p.
func waitFor(t *testing.T, p *trainer.Predictor, n int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); len(trainer.Waiting(p)) < n; {
		if time.Now().After(end) {
			t.Fatalf("%d calls wait, want %d", len(trainer.Waiting(p)), n)
		}
		time.Sleep(10 * time.Microsecond)
	}
}

// Within one planned size, neither the place of a row nor the rows next to it change its bits.
func TestARowHasTheSameBitsInEveryPlace(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, size := range []int{2, 4, 16} {
			p := predictor(t, image, trainer.PredictorOptions{Device: dev, Batch: 16, Sizes: []int{1, 2, 4, 16}})
			x := fieldOf(t, samples(t, 16, 64, 3), 0)
			row := x[:64]
			var want []float32
			for place := range size {
				for _, rows := range []int{size/2 + 1, size} { // some are padding, or none is
					if place >= rows {
						continue
					}
					batch := slices.Clone(x[:64*rows])
					copy(batch[64*place:], row)
					got := predict(t, p, rows, batch)[3*place : 3*place+3]
					if want == nil {
						want = slices.Clone(got)
					}
					if !slices.Equal(got, want) {
						t.Fatalf("size %d, %d rows, place %d: %v, want %v", size, rows, place, got, want)
					}
				}
			}
		}
	})
}

func TestAPredictorOnAClosedDeviceReturnsErrors(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		p, err := trainer.NewPredictor(t.Context(), small, trainer.PredictorOptions{Device: dev, Batch: 4})
		if err != nil {
			t.Fatal(err)
		}
		if err := dev.Close(); err != nil {
			t.Fatal(err)
		}
		values := map[string][]float32{"hidden/w": make([]float32, 32), "hidden/b": make([]float32, 8),
			"out/w": make([]float32, 24), "out/b": make([]float32, 3)}
		for name, err := range map[string]error{
			"Predict":     p.Predict(t.Context(), make([]float32, 3), make([]float32, 4)),
			"LoadWeights": p.LoadWeights(t.Context(), func(name string) []float32 { return values[name] }),
			"Close":       p.Close(),
		} {
			if !errors.Is(err, trainer.ErrClosed) {
				t.Errorf("%s: got %v, want ErrClosed", name, err)
			}
		}
	})
}
