package trainer_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

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

// synced normalizes images and vectors: before a ReLU, after another normalization, and twice in one layer.
func synced(of tensor.Dtype) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		net.Type = of
		x := net.Input("x", batch, 2, 4, 4)
		c := three
		c.Out = 3
		h := net.BatchNorm(net.Conv(net.BatchNorm(x, "images", nil), "conv", c, nil), "bn", layers.ReLU)
		h = net.BatchNorm(net.Dense(net.GlobalAvgPool(h, "mean"), "dense", 5, layers.Tanh), "vectors", nil)
		return net.Classifier(x, net.Dense(h, "out", 3, nil))
	}
}

// farSamples returns n samples of synced whose pixels lie far from 0, and differ from channel to channel.
func farSamples(t *testing.T, n int, off float64) *dataloader.Slices {
	t.Helper()
	r := rand.New(rand.NewPCG(11, uint64(n)))
	x, y := make([]float32, n*2*4*4), make([]uint8, n)
	for i := range x {
		x[i] = float32(off*float64(1+i/16%2) + r.NormFloat64())
	}
	for i := range y {
		y[i] = uint8(r.IntN(3))
	}
	return columns(t, n, dataloader.Column("x", x, 2, 4, 4), dataloader.Column("y", y))
}

// P ranks with batches of B learn what one rank with batches of P·B learns, running statistics included, whatever
// the last batch leaves for a rank: a part, one sample, or none.
func TestSyncedRanksLearnLikeOneWithAllSamples(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, c := range []struct {
			of  tensor.Dtype
			tol float64
		}{{gorgonia.Float64, 1e-12}, {gorgonia.Float32, 1e-6}} {
			for _, size := range []int{2, 3, 4} {
				for _, tail := range []int{0, 3, 5} { // two vectors are normalized to ±1, and the gradient is that of rounding
					if testing.Short() && (size+tail)%3 != 0 {
						continue
					}
					n := 6*size + tail
					ds := farSamples(t, n, 3)
					opt := trainer.Options{Device: dev, Batch: 3 * size, EvalBatch: 4, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 0.1, Momentum: 0.9}, Seed: 3}
					want, wantResults := trainedTogether(t, 1, synced(c.of), opt, ds)
					opt.Batch, opt.SyncBatchNorm = 3, true
					got, results := trainedTogether(t, size, synced(c.of), opt, ds)
					what := fmt.Sprintf("%v, %d samples, %d ranks", c.of, n, size)
					nearNumbers(t, what, c.of, got, want, c.tol)
					for i, r := range results {
						if w := wantResults[i]; r.Samples != w.Samples || !about(r.Loss, w.Loss, c.tol) {
							t.Errorf("%s: result %d: %d samples, loss %v, want %d, %v", what, i, r.Samples, r.Loss, w.Samples, w.Loss)
						}
					}
				}
			}
		}
	})
}

// nearNumbers compares what two trainers of a type have learned.
func nearNumbers(t *testing.T, what string, of tensor.Dtype, got, want map[string]string, tol float64) {
	t.Helper()
	if of == gorgonia.Float32 {
		sameNumbers(t, what, got, want, tol)
		return
	}
	worst, where := 0.0, ""
	for name, b := range want {
		for i := 0; i < len(b); i += 8 {
			x, y := double(got[name][i:]), double(b[i:])
			if off := math.Abs(x-y) / max(1, math.Abs(y)); !(off <= worst) {
				worst, where = off, fmt.Sprintf("%s[%d] is %v, want %v", name, i/8, x, y)
			}
		}
	}
	if !(worst <= tol) {
		t.Errorf("%s: %s: off by %.2g", what, where, worst)
	}
}

// double decodes the first number of a tensor.
func double(b string) float64 {
	return math.Float64frombits(binary.NativeEndian.Uint64([]byte(b)))
}

// Recomputed activations, windows, larger buckets and metrics change no bit of what synced ranks learn, and the plan counts the
// sums: one of 2·C+1 numbers for each normalization forwards, and one of 2·C backwards where x needs a gradient.
func TestSyncedNormsArePlanned(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := farSamples(t, 22, 3)
		opt := trainer.Options{Device: dev, Batch: 3, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 0.1}, SyncBatchNorm: true, Accumulate: 2}
		want, _ := trainedTogether(t, 2, synced(gorgonia.Float32), opt, ds)
		opt.Recompute.Layers = []string{"images", "conv", "bn", "dense", "vectors"}
		got, _ := trainedTogether(t, 2, synced(gorgonia.Float32), opt, ds)
		if d := differing(got, want); len(d) > 0 {
			t.Errorf("with recomputation %q differ", d)
		}
		opt.Recompute.Layers, opt.SyncBatchNorm = nil, false
		if own, _ := trainedTogether(t, 2, synced(gorgonia.Float32), opt, ds); len(differing(own, want)) == 0 {
			t.Error("statistics of a rank's own make no difference")
		}
	})
	summed := func(sync bool, frozen ...string) (bytes int64) {
		ranks(t, 2, func(g group.Group) {
			p, err := trainer.Plan(t.Context(), synced(gorgonia.Float32), trainer.Options{Batch: 3, Group: g, SyncBatchNorm: sync, Frozen: frozen})
			if err != nil {
				t.Error(err)
			} else if g.Rank() == 0 {
				bytes = p.Programs[0].Network
			}
		})
		return bytes
	}
	// images has 2 channels and needs no gradient of x; bn has 3, vectors 5. With their own statistics, means and
	// variances are among the results, in float32.
	for frozen, want := range map[string]int64{"": 8*(5+7+11+6+10) - 2*4*(2+3+5), "bn": 8*(5+11+10) - 2*4*(2+5)} {
		var names []string
		if frozen != "" {
			names = []string{frozen}
		}
		if got := summed(true, names...) - summed(false, names...); got != want {
			t.Errorf("frozen %q: the sums have %d bytes more, want %d", frozen, got, want)
		}
	}
}

// Buckets of gradients are sent between the sums of the backward pass, as soon as their gradients are there, in one order on all ranks:
// also on one without samples.
func TestBucketsAreSentBetweenTheSumsOfNorms(t *testing.T) {
	wide := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 4)
		h := net.BatchNorm(net.Dense(x, "first", 1100, nil), "low", layers.ReLU)
		h = net.BatchNorm(net.Dense(h, "second", 1000, nil), "high", layers.ReLU)
		return net.Classifier(x, net.Dense(h, "out", 3, nil))
	}
	ds, size := part(t, samples(t, 20, 4, 3), 0, 8), 3 // a step of 6 samples and one of 2: rank 2 has none
	started := make([][]string, size)
	ranks(t, size, func(g group.Group) {
		watched := grouptest.Watch(g, func(c grouptest.Call) grouptest.Fault {
			if c.Start && c.Op.Type.Float() {
				started[g.Rank()] = append(started[g.Rank()], c.Op.Label)
			}
			return grouptest.None
		})
		tr, err := trainer.New(t.Context(), wide, trainer.Options{Device: cputest.Open(t, cpu.Options{Threads: 1}), Batch: 2, Group: watched, Fields: ds.Fields(),
			SyncBatchNorm: true, Accumulate: 2})
		if err != nil {
			t.Error(err)
			return
		}
		defer tr.Close()
		if _, err := tr.Fit(t.Context(), ds); err != nil {
			t.Error(err)
		}
	})
	want := []string{"statistics 0 of low/out", "statistics 1 of high/out", "results, float32", "gradients of statistics 1 of high/out", "gradients 0", "gradients of statistics 0 of low/out", "gradients 1"}
	step := len(want) - 2 // without an update
	for rank, all := range started {
		if len(all) != step+len(want) || !slices.Equal(all[step:], want) {
			t.Errorf("rank %d: sums %q, want %q", rank, all, want)
		}
	}
}

// Frozen normalization and evaluation use running statistics, and change none: the option makes no difference.
func TestFrozenNormsAreNotSynced(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := farSamples(t, 24, 0)
		opt := trainer.Options{Device: dev, Batch: 3, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 0.1}, Frozen: []string{"images", "bn", "vectors"}}
		want, _ := trainedTogether(t, 2, synced(gorgonia.Float32), opt, ds)
		opt.SyncBatchNorm = true
		got, _ := trainedTogether(t, 2, synced(gorgonia.Float32), opt, ds)
		if d := differing(got, want); len(d) > 0 {
			t.Errorf("%q differ", d)
		}
	})
}

// A bucket may end with a gradient that the sum of its own normalization reads as well: it is sent after that.
func TestABucketThatEndsWithANormIsSentAfterItsSum(t *testing.T) {
	wide := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 2)
		h := net.BatchNorm(net.Dense(x, "first", 530_000, nil), "norm", nil) // its scales and shifts are one bucket of 4 MiB
		return net.Classifier(x, net.Dense(h, "out", 2, nil))
	}
	ds := samples(t, 6, 2, 2)
	opt := trainer.Options{Device: cputest.OpenChecked(t, cpu.Options{Threads: 2}), Batch: 6, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 0.01}}
	want, _ := trainedTogether(t, 1, wide, opt, ds)
	opt.Batch, opt.SyncBatchNorm = 3, true
	got, _ := trainedTogether(t, 2, wide, opt, ds)
	sameNumbers(t, "two ranks", got, want, 1e-4) // sums of 530,000 products
}
