//go:build gpu && cgo

package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/cudatest"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/cuda"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// onNCCL calls f for each of n ranks, at once, each on a GPU of its own that is joined with the others. It skips the test where there are
// not so many, or no NCCL.
func onNCCL(t *testing.T, n int, o cuda.Options, limit time.Duration, f func(dev kernels.Device, g group.Group)) {
	t.Helper()
	if fakecuda.Loaded() {
		gpu(t, "devices", int64(n), 1)
	}
	o.Device = n - 1
	if last, err := cuda.Open(o); err != nil {
		t.Skipf("needs %d GPUs: %v", n, err)
	} else if err := last.Close(); err != nil {
		t.Fatal(err)
	}
	devices := make([]kernels.Device, n)
	for r := range n {
		o.Device = r
		devices[r] = cudatest.OpenChecked(t, o)
	}
	all, err := group.Local(n, group.Options{Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	missing := make([]*cuda.NoLibraryError, n)
	for r, g := range all {
		wg.Go(func() {
			joined, err := devices[r].(interface {
				Join(context.Context, group.Group, group.Options) (*cuda.Comm, error)
			}).Join(t.Context(), g, group.Options{Limit: limit})
			if errors.As(err, &missing[r]) {
				return
			}
			if err != nil {
				t.Errorf("rank %d: %v", r, err)
				return
			}
			f(devices[r], joined)
			if err := errors.Join(joined.Close(), g.Close()); err != nil {
				t.Errorf("rank %d: %v", r, err)
			}
		})
	}
	wg.Wait()
	if missing[0] != nil {
		t.Skipf("needs NCCL: %v", missing[0])
	}
}

// learnedOnNCCL returns what each rank has learned after two epochs, and the losses of rank 0.
func learnedOnNCCL(t *testing.T, n int, o cuda.Options, model trainer.ModelFunc, opt trainer.Options, ds dataloader.Dataset) (all []map[string]string, losses []float64) {
	t.Helper()
	all = make([]map[string]string, n)
	onNCCL(t, n, o, 20*time.Second, func(dev kernels.Device, g group.Group) {
		own := opt
		own.Device, own.Group = dev, g
		tr, err := trainer.New(t.Context(), model, own)
		if err != nil {
			t.Errorf("rank %d: %v", g.Rank(), err)
			return
		}
		defer tr.Close()
		for range 2 {
			r, err := tr.Fit(t.Context(), ds)
			if err != nil {
				t.Errorf("rank %d: %v", g.Rank(), err)
				return
			}
			if g.Rank() == 0 {
				losses = append(losses, r.Loss)
			}
		}
		all[g.Rank()] = learned(t, tr)
	})
	if t.Failed() {
		t.FailNow()
	}
	return all, losses
}

// GPUs that NCCL joins learn what ranks on the host do, with last batches that leave a rank fewer samples or none; they end with the same
// bits on each rank, run for run, and in a graph or without.
func TestRanksOnNCCLLearnLikeRanksOnTheHost(t *testing.T) {
	for _, c := range []struct {
		ranks, samples, accumulate int
		model                      trainer.ModelFunc
		clip                       optim.Clip
		shard                      trainer.Shard
	}{
		{2, 21, 1, small, optim.Clip{Norm: 0.01}, 0},
		{3, 19, 2, small, optim.Clip{}, trainer.ShardGradients},
		{2, 24, 1, onlyDropped, optim.Clip{}, trainer.ShardState},
	} {
		t.Run(fmt.Sprintf("%d ranks, %d samples", c.ranks, c.samples), func(t *testing.T) {
			ds := samples(t, c.samples, 4, 3)
			opt := trainer.Options{Batch: 2, Accumulate: c.accumulate, Shard: c.shard, Fields: ds.Fields(), Clip: c.clip, Optimizer: optim.SGD{Rate: 0.1, Momentum: 0.9}, Seed: 3}
			onHost := opt
			onHost.Device = cputest.Open(t, cpu.Options{Threads: 1})
			want, results := trainedTogether(t, c.ranks, c.model, onHost, ds)
			var first map[string]string
			for name, o := range map[string]cuda.Options{"graphs": {}, "launches": {Graphs: cuda.Never}} {
				t.Run(name, func(t *testing.T) {
					all, losses := learnedOnNCCL(t, c.ranks, o, c.model, opt, ds)
					sameNumbers(t, "on NCCL", all[0], want, 1e-6)
					if sent := fakecuda.Calls("ncclReduceScatter") > 0; fakecuda.Loaded() && sent != (c.shard != trainer.ShardNothing) {
						t.Errorf("NCCL scatters gradients: %v", sent)
					}
					for i, loss := range losses {
						if !about(loss, results[i].Loss, 1e-6) {
							t.Errorf("epoch %d: loss %v, on the host %v", i, loss, results[i].Loss)
						}
					}
					if first == nil {
						first = all[0]
					}
					for r := range all {
						if d := differing(all[r], first); len(d) > 0 {
							t.Errorf("rank %d has other bits in %q than rank 0 of the first run", r, d)
						}
					}
				})
			}
		})
	}
}

// A step on NCCL is one graph: it calls no function of NCCL, and copies no gradient to the host.
func TestAStepOnNCCLIsOneGraph(t *testing.T) {
	emulated(t) // which counts calls
	ds := samples(t, 16, 4, 3)
	onNCCL(t, 2, cuda.Options{}, 20*time.Second, func(dev kernels.Device, g group.Group) {
		tr, err := trainer.New(t.Context(), small, trainer.Options{Device: dev, Group: g, Batch: 2, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 0.1}})
		if err != nil {
			t.Error(err)
			return
		}
		defer tr.Close()
		barrier := func() {
			if err := group.Once(g, group.Op{Kind: group.Barrier}); err != nil {
				t.Error(err)
			}
		}
		if _, err := tr.Fit(t.Context(), ds); err != nil {
			t.Error(err)
		}
		barrier()
		before := fakecuda.Called()
		barrier()
		if _, err := tr.Fit(t.Context(), ds); err != nil {
			t.Error(err)
		}
		barrier()
		after := fakecuda.Called()
		barrier()
		for _, call := range []string{"ncclAllReduce", "ncclGroupEnd", "cuLaunchKernel"} {
			if n := after[call] - before[call]; n != 0 {
				t.Errorf("an epoch calls %s %d times", call, n)
			}
		}
		if n := after["cuGraphLaunch"] - before["cuGraphLaunch"]; n != 2*16/4 { // of two ranks
			t.Errorf("an epoch of 4 steps of 2 ranks launches %d graphs", n)
		}
		if before["ncclAllReduce"] == 0 {
			t.Error("NCCL was not used")
		}
	})
}

// A number that is not finite in one rank's samples is an error of all, which the devices agree on; no parameter changes, and the group goes on.
func TestABadSampleOfARankOnNCCL(t *testing.T) {
	const n = 16
	x, y := make([]float32, 4*n), make([]uint8, n)
	x[4*2] = nan32 // of the second rank
	ds := columns(t, n, dataloader.Column("x", x, 4), dataloader.Column("y", y))
	good := samples(t, n, 4, 3)
	onNCCL(t, 2, cuda.Options{}, 20*time.Second, func(dev kernels.Device, g group.Group) {
		tr, err := trainer.New(t.Context(), small, trainer.Options{Device: dev, Group: g, Batch: 2, Fields: ds.Fields(), Sequential: true, Optimizer: optim.SGD{Rate: 0.1}})
		if err != nil {
			t.Error(err)
			return
		}
		defer tr.Close()
		before := learned(t, tr)
		_, err = tr.Fit(t.Context(), ds)
		var other *trainer.RankError
		if !errors.Is(err, trainer.ErrNonFinite) || errors.As(err, &other) != (g.Rank() == 0) {
			t.Errorf("rank %d: got %v", g.Rank(), err)
		}
		if d := differing(learned(t, tr), before); len(d) > 0 {
			t.Errorf("rank %d: %q changed", g.Rank(), d)
		}
		if _, err := tr.Fit(t.Context(), good); err != nil || g.Err() != nil {
			t.Errorf("rank %d, after it: %v, %v", g.Rank(), err, g.Err())
		}
	})
}

// A rank that fails, or does not come, ends the training of all within the limit: each returns the same *group.RankError.
func TestARankThatFailsOnNCCLEndsAll(t *testing.T) {
	ds := samples(t, 32, 4, 3)
	for name, c := range map[string]struct {
		fail func(ctx context.Context, g group.Group) error
		want error
		text string
	}{
		"gives up": {func(context.Context, group.Group) error { return errors.New("no more") }, group.ErrAborted, "rank 1: gave up"},
		"is stuck": {func(_ context.Context, g group.Group) error {
			for g.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			return g.Err()
		}, group.ErrStuck, "rank 1: is stuck"},
	} {
		t.Run(name, func(t *testing.T) {
			onNCCL(t, 2, cuda.Options{}, time.Second, func(dev kernels.Device, g group.Group) {
				step := 0
				opt := trainer.Options{Device: dev, Group: g, Batch: 2, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 0.1}}
				tr, err := trainer.New(t.Context(), small, opt)
				if err != nil {
					t.Error(err)
					return
				}
				defer tr.Close()
				_, err = tr.Fit(t.Context(), ds)
				if err == nil {
					for _, err = range tr.Steps(t.Context(), ds) {
						if step++; err != nil {
							break
						}
						if step == 3 && g.Rank() == 1 {
							if err = c.fail(t.Context(), g); g.Err() == nil {
								g.Abort(err)
							}
							break
						}
					}
				}
				if g.Rank() == 0 && (!errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text)) {
					t.Errorf("got %v, want %q", err, c.text)
				}
				if !errors.Is(g.Err(), c.want) {
					t.Errorf("rank %d: the group has %v", g.Rank(), g.Err())
				}
			})
		})
	}
}
