package trainer_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/grouptest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

func TestRanksThatAreGivenOtherThingsSaySo(t *testing.T) {
	ds, longer := samples(t, 12, 4, 3), samples(t, 13, 4, 3)
	for what, change := range map[string]func(opt *trainer.Options, data *dataloader.Dataset){
		"batch":     func(opt *trainer.Options, _ *dataloader.Dataset) { opt.Batch = 3 },
		"slots":     func(opt *trainer.Options, _ *dataloader.Dataset) { opt.Slots = 4 },
		"seed":      func(opt *trainer.Options, _ *dataloader.Dataset) { opt.Seed = 9 },
		"optimizer": func(opt *trainer.Options, _ *dataloader.Dataset) { opt.Optimizer = optim.Adam{} },
		"data":      func(_ *trainer.Options, data *dataloader.Dataset) { *data = longer },
	} {
		ranks(t, 3, func(g group.Group) {
			opt, data := trainer.Options{Device: cputest.Open(t, cpu.Options{Threads: 1}), Batch: 2, Group: g, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 0.1}}, dataloader.Dataset(ds)
			if g.Rank() == 2 {
				change(&opt, &data)
			}
			tr, err := trainer.New(t.Context(), small, opt)
			if err == nil {
				defer tr.Close()
				_, err = tr.Fit(t.Context(), data)
			}
			var e *trainer.MismatchError
			if !errors.As(err, &e) || e.Other != 2 || !strings.Contains(e.What, what) {
				t.Errorf("%s: rank %d: got %v", what, g.Rank(), err)
			}
		})
	}
}

// A rank whose memory is too small ends New of all.
func TestARankThatCannotPlanEndsNewOfAll(t *testing.T) {
	ranks(t, 3, func(g group.Group) {
		opt := trainer.Options{Device: cputest.Open(t, cpu.Options{Threads: 1}), Batch: 2, Group: g}
		if g.Rank() == 1 {
			opt.Memory = 1
		}
		_, err := trainer.New(t.Context(), small, opt)
		var capacity *trainer.CapacityError
		var other *group.RankError
		// The ranks of a process can see the cause, too.
		if !errors.As(err, &capacity) || errors.As(err, &other) == (g.Rank() == 1) || other != nil && other.Rank != 1 {
			t.Errorf("rank %d: got %v", g.Rank(), err)
		}
	})
}

// What makes ranks differ without an error of its own is found at the next pass at the latest.
func TestRanksDoNotDivergeInSilence(t *testing.T) {
	ds := samples(t, 12, 4, 3)
	activation := func(act layers.Activation) trainer.ModelFunc {
		return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			net := layers.New(g)
			x := net.Input("x", batch, 4)
			return net.Classifier(x, net.Dense(net.Dense(x, "hidden", 8, act), "out", 3, nil))
		}
	}
	for what, diverge := range map[string]struct {
		options func(opt *trainer.Options)
		model   trainer.ModelFunc
		act     func(tr *trainer.Trainer) error
	}{
		"loss scale": {options: func(opt *trainer.Options) {
			opt.LossScale = optim.Scaling{Mode: optim.ScaleAlways, State: optim.ScalingState{Scale: 1 << 20}}
		}},
		"operations": {model: activation(layers.ReLU)},
		"parameters": {act: func(tr *trainer.Trainer) error {
			ps, err := tr.Params()
			if err != nil {
				return err
			}
			return ps[0].Write(make([]byte, ps[0].Spec.Bytes()))
		}},
		"keep": {options: func(opt *trainer.Options) { opt.Keep = []string{"*/gradnorm"} }},
	} {
		ranks(t, 2, func(g group.Group) {
			opt := trainer.Options{Device: cputest.Open(t, cpu.Options{Threads: 1}), Batch: 2, Group: g, Fields: ds.Fields(),
				LossScale: optim.Scaling{Mode: optim.ScaleAlways}, Optimizer: optim.SGD{}}
			model := activation(layers.Tanh)
			if g.Rank() == 1 && diverge.options != nil {
				diverge.options(&opt)
			}
			if g.Rank() == 1 && diverge.model != nil {
				model = diverge.model
			}
			tr, err := trainer.New(t.Context(), model, opt)
			if err == nil {
				defer tr.Close()
				if g.Rank() == 1 && diverge.act != nil {
					err = diverge.act(tr)
				}
			}
			if err == nil {
				_, err = tr.Fit(t.Context(), ds)
			}
			var e *trainer.MismatchError
			if !errors.As(err, &e) || e.What != what {
				t.Errorf("%s: rank %d: got %v", what, g.Rank(), err)
			}
		})
	}
}

// A panic of the caller's code, or a goroutine that ends, does not let the other ranks wait.
func TestARankThatUnwindsEndsAll(t *testing.T) {
	ds := samples(t, 12, 4, 3)
	for what, unwind := range map[string]func(model *trainer.ModelFunc, opt *trainer.Options){
		"model that ends its goroutine": func(model *trainer.ModelFunc, _ *trainer.Options) {
			*model = func(*gorgonia.ExprGraph, int) (trainer.Model, error) { runtime.Goexit(); return trainer.Model{}, nil }
		},
		"panic in Progress": func(_ *trainer.ModelFunc, opt *trainer.Options) {
			opt.Progress = func(trainer.Progress) { panic("progress") }
		},
		"options": func(_ *trainer.ModelFunc, opt *trainer.Options) { opt.Batch = 0 },
	} {
		begin := time.Now()
		ranks(t, 2, func(g group.Group) {
			done := make(chan error, 1)
			go func() { // a goroutine of its own, which may end
				err := errors.New("unwound")
				defer func() { _ = recover(); done <- err }()
				model, opt := trainer.ModelFunc(small), trainer.Options{Device: cputest.Open(t, cpu.Options{Threads: 1}), Batch: 2, Group: g, Fields: ds.Fields(), Optimizer: optim.SGD{}}
				if g.Rank() == 1 {
					unwind(&model, &opt)
				}
				tr, e := trainer.New(t.Context(), model, opt)
				if e == nil {
					defer tr.Close()
					_, e = tr.Fit(t.Context(), ds)
				}
				err = e
			}()
			err := <-done
			var other *group.RankError
			if g.Rank() == 0 && (!errors.As(err, &other) || other.Rank != 1) {
				t.Errorf("%s: got %v", what, err)
			}
		})
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("%s: took %v", what, took)
		}
	}
}

// A rank whose dataset waits for its context alone ends when the group breaks.
func TestARankThatWaitsForSamplesSeesThatTheGroupIsBroken(t *testing.T) {
	ds := samples(t, 40, 4, 3)
	groups, err := group.Local(2, group.Options{Limit: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, g := range groups {
		wg.Go(func() {
			defer g.Close()
			data := &faulty{ds, func(ctx context.Context, at dataloader.At) error {
				if g.Rank() == 1 && at.Index >= 20 {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}}
			tr, err := trainer.New(t.Context(), small, trainer.Options{Device: cputest.Open(t, cpu.Options{Threads: 1}), Batch: 2, Group: g,
				Fields: ds.Fields(), Sequential: true, Workers: 1, Optimizer: optim.SGD{}})
			if err != nil {
				t.Error(err)
				return
			}
			defer tr.Close()
			_, err = tr.Fit(t.Context(), data)
			var broken *group.RankError
			if !errors.As(err, &broken) || broken.Rank != 1 || !errors.Is(err, group.ErrStuck) {
				t.Errorf("rank %d: got %v", g.Rank(), err)
			}
		})
	}
	wg.Wait()
}

// sharing is a device that pins memory of its own for functions of the host, and so for sums over ranks.
type sharing struct{ kernels.Device }

func (sharing) StagingBytes(*kernels.Op, any, []kernels.Spec, []kernels.Spec) int64 { return 0 }

func TestRanksThatShareAGPUAreRefused(t *testing.T) {
	dev := &sharing{cputest.Open(t, cpu.Options{Threads: 1})}
	ranks(t, 2, func(g group.Group) {
		tr, err := trainer.New(t.Context(), small, trainer.Options{Device: dev, Batch: 2, Group: g})
		if !errors.Is(err, trainer.ErrOption) || !strings.Contains(err.Error(), "ranks 0 and 1") {
			t.Errorf("rank %d: got %v", g.Rank(), err)
		}
		_ = tr.Close()
	})
}

// What ranks refuse before a pass begins is one error on all of them, also of those that would not have refused it, and the group
// goes on with other data.
func TestARefusalLeavesTheGroupUsable(t *testing.T) {
	good := samples(t, 24, 4, 3)
	for what, c := range map[string]struct {
		options func(opt *trainer.Options)
		data    dataloader.Dataset
		class   error
		rank    int  // the first that refuses
		all     bool // each rank refuses
	}{
		"short":           {options: func(opt *trainer.Options) { opt.Tail = dataloader.DropTail }, data: samples(t, 5, 4, 3), class: dataloader.ErrShort, all: true},
		"fields":          {data: columns(t, 12, dataloader.Column("other", make([]float32, 48), 4)), class: trainer.ErrData, all: true},
		"one row of one":  {data: samples(t, 23, 4, 3), class: kernels.ErrShape, rank: 2}, // 4, 4 and 3 rows are 2, 2 and 1 of the last batch
		"one row of all":  {data: samples(t, 19, 4, 3), class: kernels.ErrShape, rank: 0}, // ranks 1 and 2 have none
		"synced, one row": {options: func(opt *trainer.Options) { opt.SyncBatchNorm = true }, data: samples(t, 19, 4, 3), class: kernels.ErrShape, all: true},
	} {
		ranks(t, 3, func(g group.Group) {
			opt := trainer.Options{Device: cputest.Open(t, cpu.Options{Threads: 1}), Batch: 2, Group: g, Fields: good.Fields(), Optimizer: optim.SGD{Rate: 0.1}}
			if c.options != nil {
				c.options(&opt)
			}
			tr, err := trainer.New(t.Context(), undropped, opt)
			if err != nil {
				t.Errorf("%s: %v", what, err)
				return
			}
			defer tr.Close()
			for range 2 {
				before := tr.Position()
				_, err = tr.Fit(t.Context(), c.data)
				var e *trainer.RefusalError
				if !errors.As(err, &e) || !errors.Is(err, c.class) || e.Rank != c.rank || (e.Own != nil) != (c.all || g.Rank() == c.rank) {
					t.Errorf("%s: rank %d: got %v", what, g.Rank(), err)
				}
				if g.Err() != nil || tr.Position() != before {
					t.Errorf("%s: the group is broken: %v, position %v, was %v", what, g.Err(), tr.Position(), before)
				}
			}
			if _, err := tr.Fit(t.Context(), good); err != nil {
				t.Errorf("%s: rank %d, after the refusal: %v", what, g.Rank(), err)
			}
		})
	}
}

// A rank whose vote fails as it leaves the loop gives up: the others do not wait for it, and its next call has the error.
func TestARankThatCannotVoteGivesUp(t *testing.T) {
	ds := samples(t, 40, 4, 3)
	ranks(t, 3, func(g group.Group) {
		watched := grouptest.Watch(g, func(c grouptest.Call) grouptest.Fault {
			if c.Start && c.Op.Label == "leave the loop" && g.Rank() == 1 {
				return grouptest.Fail
			}
			return grouptest.None
		})
		tr, err := trainer.New(t.Context(), small, trainer.Options{Device: cputest.Open(t, cpu.Options{Threads: 1}), Batch: 2, Group: watched, Fields: ds.Fields(), Optimizer: optim.SGD{}})
		if err != nil {
			t.Error(err)
			return
		}
		defer tr.Close()
		for _, e := range tr.Steps(t.Context(), ds) {
			if err = e; g.Rank() == 1 {
				break
			}
		}
		if g.Rank() == 1 && err == nil {
			_, err = tr.Fit(t.Context(), ds)
		}
		var broken *group.RankError
		if !errors.As(err, &broken) || broken.Rank != 1 || !errors.Is(err, group.ErrAborted) || g.Rank() == 1 && !errors.Is(err, grouptest.ErrFault) {
			t.Errorf("rank %d: got %v", g.Rank(), err)
		}
	})
}

// outOfRange is a schedule whose rate is not a number from an update on.
type outOfRange int64

func (from outOfRange) Rate(base float64, t int64) float64 {
	if t >= int64(from) {
		return math.NaN()
	}
	return base
}

// An error that all ranks find by themselves in the middle of a pass is that of each, and the group goes on.
func TestAnErrorThatAllRanksFindLeavesTheGroup(t *testing.T) {
	ds := samples(t, 24, 4, 3)
	for what, change := range map[string]func(*trainer.Options){
		"streaming": func(*trainer.Options) {},
		"skipping":  func(o *trainer.Options) { o.SkipNonFinite = 3 },
		"shared":    func(o *trainer.Options) { o.Shard = trainer.ShardState },
	} {
		for _, call := range []string{"Fit", "Steps", "Step"} {
			ranks(t, 3, func(g group.Group) {
				opt := trainer.Options{Device: cputest.Open(t, cpu.Options{Threads: 1}), Batch: 2, Group: g, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 0.1}, Schedule: outOfRange(3)}
				change(&opt)
				tr, err := trainer.New(t.Context(), small, opt)
				if err != nil {
					t.Errorf("%s: %v", what, err)
					return
				}
				defer tr.Close()
				steps := 0
				switch call {
				case "Step":
					for ; err == nil; steps++ {
						_, err = tr.Step(t.Context(), rowsOf(t, ds, 2*g.Rank(), 2*g.Rank()+2))
					}
					steps--
				case "Steps":
					for _, err = range tr.Steps(t.Context(), ds) {
						if err == nil {
							steps++
						}
					}
				default:
					var r trainer.Result
					r, err = tr.Fit(t.Context(), ds)
					steps = r.Steps
				}
				var broken *group.RankError
				if !errors.Is(err, trainer.ErrOption) || errors.As(err, &broken) || steps != 2 {
					t.Errorf("%s, %s, rank %d: %v after %d steps, want ErrOption after 2", what, call, g.Rank(), err, steps)
				}
				if _, err := tr.Evaluate(t.Context(), ds); err != nil {
					t.Errorf("%s, %s, rank %d: afterwards: %v", what, call, g.Rank(), err)
				}
			})
		}
	}
}

// One that only one rank finds ends all.
func TestAnErrorThatOneRankFindsEndsAll(t *testing.T) {
	ds := samples(t, 24, 4, 3)
	ranks(t, 3, func(g group.Group) {
		own := optim.Schedule(&onRank{outOfRange(3), g.Rank() == 1})
		tr, err := trainer.New(t.Context(), small, trainer.Options{Device: cputest.Open(t, cpu.Options{Threads: 1}), Batch: 2, Group: g, Fields: ds.Fields(),
			Optimizer: optim.SGD{Rate: 0.1}, Schedule: own})
		if err != nil {
			t.Error(err)
			return
		}
		defer tr.Close()
		_, err = tr.Fit(t.Context(), ds)
		var broken *group.RankError
		if !errors.As(err, &broken) || errors.Is(err, trainer.ErrOption) != (g.Rank() == 1) || !strings.Contains(err.Error(), "the rate of upd") {
			t.Errorf("rank %d: %v", g.Rank(), err)
		}
	})
}

// onRank is a schedule that all ranks describe alike, and that fails on one.
type onRank struct {
	outOfRange
	fails bool
}

func (o *onRank) Rate(base float64, t int64) float64 {
	if o.fails {
		return o.outOfRange.Rate(base, t)
	}
	return base
}
