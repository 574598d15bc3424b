package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// ranks calls f for each rank of a new group, at once, and returns when all have returned.
func ranks(t *testing.T, n int, f func(g group.Group)) {
	t.Helper()
	all, err := group.Local(n, group.Options{Limit: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, g := range all {
		wg.Go(func() { f(g) })
	}
	wg.Wait()
	for _, g := range all {
		_ = g.Close()
	}
}

// ownDevice returns the device of a rank: ranks may share dev, but no GPU.
func ownDevice(t *testing.T, dev kernels.Device, g group.Group) kernels.Device {
	if _, ok := dev.(kernels.HostStager); !ok || g.Rank() == 0 {
		return dev
	}
	for _, d := range targets {
		if d.name == dev.Name() {
			return d.open(t, 0)
		}
	}
	return dev
}

// trainedTogether returns what a rank of n has learned after two epochs, and the results; all ranks must have the same.
func trainedTogether(t *testing.T, n int, model trainer.ModelFunc, opt trainer.Options, ds dataloader.Dataset) (want map[string]string, results []trainer.Result) {
	t.Helper()
	learnedBy, resultsOf := make([]map[string]string, n), make([][]trainer.Result, n)
	ranks(t, n, func(g group.Group) {
		own := opt
		own.Device = ownDevice(t, opt.Device, g)
		if n > 1 {
			own.Group = g
		}
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
			resultsOf[g.Rank()] = append(resultsOf[g.Rank()], r)
		}
		r, err := tr.Evaluate(t.Context(), ds)
		if err != nil {
			t.Errorf("rank %d: %v", g.Rank(), err)
			return
		}
		resultsOf[g.Rank()] = append(resultsOf[g.Rank()], r)
		learnedBy[g.Rank()] = learned(t, tr)
	})
	if t.Failed() {
		t.FailNow()
	}
	for rank := range n {
		if !maps.Equal(learnedBy[rank], learnedBy[0]) {
			t.Fatalf("%d ranks: rank %d has learned other bits than rank 0", n, rank)
		}
		for i, r := range resultsOf[rank] {
			if a := resultsOf[0][i]; fmt.Sprint(r.Loss, r.Samples, r.Accuracy, r.Losses, r.Skipped, r.Metrics) != fmt.Sprint(a.Loss, a.Samples, a.Accuracy, a.Losses, a.Skipped, a.Metrics) {
				t.Fatalf("%d ranks: result %d of rank %d is %v, that of rank 0 %v", n, i, rank, r, a)
			}
		}
	}
	return learnedBy[0], resultsOf[0]
}

// P ranks learn what one rank learns that adds up the gradients of P steps for each update, whatever the last batch of an epoch leaves for a rank.
func TestRanksLearnLikeOneThatAccumulates(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, n := range []int{16, 18, 19, 21, 24} {
			ds, model := samples(t, n, 4, 3), trainer.ModelFunc(small)
			if n == 24 { // with full batches only, noise is the same too
				model = onlyDropped
			}
			for _, clip := range []optim.Clip{{}, {Norm: 0.01}} {
				for _, size := range []int{2, 3, 4} {
					opt := trainer.Options{Device: dev, Batch: 2, EvalBatch: 4, Accumulate: size, Fields: ds.Fields(), Clip: clip,
						Optimizer: optim.SGD{Rate: 0.1, Momentum: 0.9}, Seed: 3}
					want, wantResults := trainedTogether(t, 1, model, opt, ds)
					opt.Accumulate = 1
					got, results := trainedTogether(t, size, model, opt, ds)
					sameNumbers(t, fmt.Sprintf("%d samples, %d ranks, clip %v", n, size, clip), got, want, 1e-6)
					for i, r := range results {
						if w := wantResults[i]; r.Samples != w.Samples || !about(r.Loss, w.Loss, 1e-6) || !about(r.Accuracy, w.Accuracy, 1e-6) {
							t.Errorf("%d samples, %d ranks: result %d: %d samples, loss %v, accuracy %v; want %d, %v, %v",
								n, size, i, r.Samples, r.Loss, r.Accuracy, w.Samples, w.Loss, w.Accuracy)
						}
					}
				}
			}
		}
	})
}

// sameNumbers compares what two trainers have learned.
func sameNumbers(t *testing.T, what string, got, want map[string]string, tol float64) {
	t.Helper()
	for name, b := range want {
		a, b := decoded([]byte(got[name])), decoded([]byte(b))
		for i := range b {
			if !about(a[i], b[i], tol) {
				t.Fatalf("%s: %s[%d] is %v, want %v", what, name, i, a[i], b[i])
			}
		}
	}
}

// Random nets and options, at the capacity that the plan says: ranks end with the same bits. Every other mix has nothing that makes a large
// difference of a small one, nor statistics of a batch: ranks then learn what one rank with larger windows learns.
func TestRanksMixWithOtherOptions(t *testing.T) {
	r := seed.Rand(t, 17)
	names, _, normalized := mixNets()
	trained, compared := 0, 0
	for range *mixes {
		m := randomMix(t, r, names)
		size := 2 + r.IntN(2)
		m.opt.Device, m.opt.Checkpoint, m.opt.Workers = cputest.Open(t, cpu.Options{Threads: 1}), false, 1
		compare := r.IntN(2) == 0 && !normalized[m.net]
		if shard := trainer.Shard(r.IntN(3)); shardable(&m.opt) {
			m.opt.Shard = shard
		}
		switch {
		case compare:
			if m.net == "dropped" { // which rows a number is drawn for depends on how a short batch is cut
				m.data = samplesFor(t, m.net, m.steps*m.opt.Batch*size*max(1, m.opt.Accumulate))
				if m.resident {
					m.opt.Resident = []dataloader.Dataset{m.data}
				}
			}
			m.opt.Optimizer, m.opt.Objectives, m.opt.Groups, m.opt.Average = optim.SGD{Rate: 0.05, Momentum: 0.9}, nil, nil, optim.Average{}
			m.opt.Precision, m.opt.KeepFloat32, m.opt.LossScale, m.opt.Tail = 0, nil, optim.Scaling{}, dataloader.KeepTail
		case normalized[m.net]:
			m.opt.Tail, m.opt.SyncBatchNorm = dataloader.DropTail, r.IntN(2) == 0 // a rank with one row is refused
			if m.opt.SyncBatchNorm && m.data.Len()%(m.opt.Batch*size) != 1 {
				m.opt.Tail = dataloader.KeepTail
			}
		}
		if m.opt.Tail == dataloader.DropTail && m.data.Len() < m.opt.Batch*size {
			continue
		}
		m.opt.Memory = capacityOf(t, size, m)
		got, results := trainedTogether(t, size, m.model, m.opt, m.data)
		trained++
		if !compare {
			continue
		}
		m.opt.Memory, m.opt.Accumulate = 0, max(1, m.opt.Accumulate)*size
		want, wantResults := trainedTogether(t, 1, m.model, m.opt, m.data)
		what := fmt.Sprintf("%d ranks, %v", size, m)
		sameNumbers(t, what, got, want, 1e-3)
		for i := range results {
			if !about(results[i].Loss, wantResults[i].Loss, 1e-3) {
				t.Errorf("%s: loss %v, want %v", what, results[i].Loss, wantResults[i].Loss)
			}
		}
		compared++
	}
	t.Logf("%d mixes trained, %d compared with one rank", trained, compared)
}

// shardable reports whether ranks can share the state under these options.
func shardable(o *trainer.Options) bool {
	whole := func(opt optim.Optimizer) bool { return opt != nil && opt.Op().Block == 0 }
	return !whole(o.Optimizer) && !slices.ContainsFunc(o.Objectives, func(x trainer.Objective) bool { return whole(x.Optimizer) }) &&
		!slices.ContainsFunc(o.Groups, func(g trainer.Group) bool { return whole(g.Optimizer) }) &&
		!slices.ContainsFunc(o.Keep, func(name string) bool { return strings.Contains(name, "/grad") })
}

// capacityOf returns the bytes that the plan of a rank needs.
func capacityOf(t *testing.T, size int, m mix) (bytes int64) {
	t.Helper()
	ranks(t, size, func(g group.Group) {
		opt := m.opt
		opt.Group, opt.Memory = g, 0
		plan, err := trainer.Plan(t.Context(), m.model, opt)
		if err != nil {
			t.Errorf("%v: %v", m, err)
		} else if g.Rank() == 0 {
			bytes = plan.Total
		}
	})
	return bytes
}

// The mean is that over the weights of all ranks, and of all steps of a window: gradient 7/3 for the first two samples.
func TestWeightsOfAllRanksAreOneMean(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, accumulate := range []int{1, 2} {
			x, weight := []float32{1, 1, 1, 5, 3, 2}, []float32{1, 1, 0, 1, 0, 0}
			ds := weighing(t, 1, x, weight)
			ranks(t, 2, func(g group.Group) {
				tr, err := trainer.New(t.Context(), weighted(0, 1), trainer.Options{Device: ownDevice(t, dev, g), Batch: 2 / accumulate, Accumulate: accumulate, Group: g,
					Fields: ds.Fields(), Sequential: true, Frozen: []string{"layer/five"}, Optimizer: optim.SGD{Rate: 3}})
				if err != nil {
					t.Error(err)
					return
				}
				defer tr.Close()
				res, err := tr.Fit(t.Context(), ds)
				if got := wOf(t, tr); err != nil || !about(got, -7, 1e-6) || res.Skipped != 1 || res.Weight != 3 {
					t.Errorf("w = %v, %d skipped, weight %v, %v; want -7, 1, 3", got, res.Skipped, res.Weight, err)
				}
			})
		}
	})
}

// Ranks with equal batches learn what one rank learns from one of them, running statistics included.
func TestRanksWithEqualBatchesLearnLikeOne(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		const batch, steps = 4, 3
		x, y := make([]float32, 4*batch*steps), make([]uint8, batch*steps)
		r := rand.New(rand.NewPCG(3, 4))
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		for i := range y {
			y[i] = uint8(r.IntN(3))
		}
		var x2 []float32
		var y2 []uint8
		for s := range steps {
			for range 2 {
				x2, y2 = append(x2, x[4*batch*s:4*batch*(s+1)]...), append(y2, y[batch*s:batch*(s+1)]...)
			}
		}
		one := columns(t, len(y), dataloader.Column("x", x, 4), dataloader.Column("y", y))
		two := columns(t, len(y2), dataloader.Column("x", x2, 4), dataloader.Column("y", y2))
		opt := trainer.Options{Device: dev, Batch: batch, Fields: one.Fields(), Sequential: true, Optimizer: optim.SGD{Rate: 0.1}}
		want, _ := trainedTogether(t, 1, undropped, opt, one)
		got, _ := trainedTogether(t, 2, undropped, opt, two)
		sameNumbers(t, "two ranks", got, want, 1e-5)
	})
}

// The program of a rank without samples neither reads a batch nor computes anything of the model.
func TestARankWithoutSamplesOnlyUpdates(t *testing.T) {
	ranks(t, 2, func(g group.Group) {
		plan, err := trainer.Plan(t.Context(), small, trainer.Options{Device: emutest.Open(t, emu.Options{}), Batch: 4, Group: g})
		if err != nil {
			t.Error(err)
			return
		}
		if len(plan.Programs) < 2 || plan.Programs[1].Name != "train 4, no samples" {
			t.Fatalf("programs: %v", plan.Programs)
		}
		idle := plan.Programs[1]
		// 4-8-3 has 67 parameters; loss, and count of correct outputs
		if got := plan.Programs[0].Network; got != 4*(67+2) || idle.Network != got || !strings.Contains(plan.String(), "276 bytes in 2 sums over 2 ranks") {
			t.Errorf("%d bytes over the network, without samples %d, want 276 in 2 sums: %v", got, idle.Network, plan)
		}
		for _, label := range idle.Labels {
			if strings.HasPrefix(label, "hidden/") || strings.HasPrefix(label, "out/") {
				t.Errorf("instruction %q", label)
			}
		}
	})
}

// drawnNet has a parameter whose value the model function draws itself, without a seed.
func drawnNet(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 4)
	w := gorgonia.NewMatrix(g, gorgonia.Float32, gorgonia.WithShape(4, 3), gorgonia.WithName("own/w"), gorgonia.WithInit(gorgonia.GlorotN(1)))
	m, err := net.Classifier(x, gorgonia.Must(gorgonia.Mul(x, w)))
	m.Params = append(m.Params, layers.Param{Node: w})
	return m, err
}

func TestAllRanksStartWithTheValuesOfTheFirst(t *testing.T) {
	ds := samples(t, 12, 4, 3)
	trainedTogether(t, 3, drawnNet, trainer.Options{Device: cputest.Open(t, cpu.Options{Threads: 1}), Batch: 2, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 0.1}}, ds)
}

// A number that is not finite, or an index outside a table, of one rank's samples ends the step on all, and no rank changes a parameter.
func TestABadSampleOfARankIsAnErrorOfAll(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for what, spoil := range map[string]func(x []float32, word []uint8){
			"NaN":           func(x []float32, _ []uint8) { x[4*25] = nan32 },
			"index":         func(_ []float32, word []uint8) { word[25] = 9 },
			"NaN, window":   func(x []float32, _ []uint8) { x[4*25] = nan32 },
			"index, window": func(_ []float32, word []uint8) { word[25] = 9 },
		} {
			x, word, y := wordData(48)
			spoil(x, word)
			accumulate := 1
			if strings.HasSuffix(what, "window") { // in the first step of the second one
				accumulate = 2
			}
			ds := columns(t, 48, dataloader.Column("x", x, 4), dataloader.Column("word", word), dataloader.Column("y", y))
			shard := trainer.Shard(len(what) % 3)
			var mu sync.Mutex
			kinds := make(map[string]int)
			skip := 0 // an index is a mistake in the data, which is not skipped
			if strings.HasPrefix(what, "index") {
				skip = 3
			}
			ranks(t, 3, func(g group.Group) {
				tr, err := trainer.New(t.Context(), wordNet, trainer.Options{Device: ownDevice(t, dev, g), SkipNonFinite: skip, Accumulate: accumulate, Shard: shard, Batch: 4, Group: g, Fields: ds.Fields(), Sequential: true, Optimizer: optim.SGD{}})
				if err != nil {
					t.Error(err)
					return
				}
				defer tr.Close()
				before := learned(t, tr)
				_, err = tr.Fit(t.Context(), ds)
				var peer *trainer.RankError
				mu.Lock()
				defer mu.Unlock()
				switch {
				case errors.As(err, &peer) && peer.Rank == 0 && strings.Contains(err.Error(), "sample 25"):
					kinds["peer"]++
				case err != nil && strings.Contains(err.Error(), "sample 25"):
					kinds["own"]++
				default:
					t.Errorf("%s: rank %d: got %v", what, g.Rank(), err)
				}
				if tr.Stats().Updates != int64(2/accumulate) || maps.Equal(before, learned(t, tr)) {
					t.Errorf("%s: rank %d: %d updates, want those of the first two steps", what, g.Rank(), tr.Stats().Updates)
				}
				if g.Err() != nil {
					t.Errorf("%s: the group is broken: %v", what, g.Err())
				}
			})
			if kinds["own"] != 1 || kinds["peer"] != 2 {
				t.Errorf("%s: errors %v", what, kinds)
			}
		}
	})
}

// With SkipNonFinite all ranks leave out the same steps.
func TestRanksSkipTheSameSteps(t *testing.T) {
	x, word, y := wordData(24)
	x[4*13] = nan32
	ds := columns(t, 24, dataloader.Column("x", x, 4), dataloader.Column("word", word), dataloader.Column("y", y))
	opt := trainer.Options{Device: cputest.Open(t, cpu.Options{Threads: 1}), Batch: 4, EvalBatch: 1, Fields: ds.Fields(), Optimizer: optim.SGD{}, SkipNonFinite: 1}
	ranks(t, 3, func(g group.Group) {
		opt := opt
		opt.Group = g
		tr, err := trainer.New(t.Context(), wordNet, opt)
		if err != nil {
			t.Error(err)
			return
		}
		defer tr.Close()
		res, err := tr.Fit(t.Context(), ds)
		if err != nil || res.NonFinite != 1 || tr.Stats().Updates != 1 {
			t.Errorf("rank %d: %d steps skipped, %d updates, %v", g.Rank(), res.NonFinite, tr.Stats().Updates, err)
		}
	})
}

// A rank that cannot read its data, or whose context ends, ends the passes of all.
func TestARankThatFailsEndsThePassesOfAll(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		r := rand.New(rand.NewPCG(1, 2))
		ds, broken := samples(t, 60, 4, 3), errors.New("broken")
		for _, cancelled := range []bool{false, true} {
			bad, begin := 2*r.IntN(30), time.Now()
			ranks(t, 3, func(g group.Group) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var data dataloader.Dataset = ds
				data = &faulty{ds, func(_ context.Context, at dataloader.At) error {
					if g.Rank() != 1 || at.Index/2%3 != 1 || at.Index < bad {
						return nil
					}
					if cancelled {
						cancel()
						return ctx.Err()
					}
					return broken
				}}
				tr, err := trainer.New(ctx, small, trainer.Options{Device: ownDevice(t, dev, g), Batch: 2, Group: g, Fields: ds.Fields(), Sequential: true, Workers: 1, Optimizer: optim.SGD{}})
				if err != nil {
					t.Error(err)
					return
				}
				defer tr.Close()
				for err == nil {
					_, err = tr.Fit(ctx, data)
				}
				var peer *group.RankError
				switch {
				case g.Rank() == 1 && !cancelled && errors.Is(err, broken), g.Rank() == 1 && errors.Is(err, context.Canceled):
				case g.Rank() != 1 && errors.As(err, &peer) && peer.Rank == 1 && errors.Is(err, group.ErrAborted):
				default:
					t.Errorf("rank %d: got %v", g.Rank(), err)
				}
			})
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
		}
	})
}

func TestAStepOfAGroupMakesNoHeapObjects(t *testing.T) {
	for _, shard := range []trainer.Shard{trainer.ShardNothing, trainer.ShardState} {
		t.Run("plain, shared "+shard.String(), func(t *testing.T) { makesNoHeapObjects(t, small, samples(t, 80, 4, 3), shard) })
	}
	t.Run("synced", func(t *testing.T) {
		makesNoHeapObjects(t, synced(gorgonia.Float32), farSamples(t, 80, 0), trainer.ShardNothing)
	})
}

func makesNoHeapObjects(t *testing.T, model trainer.ModelFunc, ds *dataloader.Slices, shard trainer.Shard) {
	ranks(t, 2, func(g group.Group) {
		opt := trainer.Options{Device: cputest.Open(t, cpu.Options{Threads: 1}), Batch: 2, Group: g, Fields: ds.Fields(), Optimizer: optim.Adam{}, SyncBatchNorm: true, Shard: shard}
		var first, last runtime.MemStats
		opt.Progress = func(p trainer.Progress) {
			switch p.Step {
			case 2:
				runtime.ReadMemStats(&first)
			case p.Steps - 3: // no rank has begun the next epoch
				runtime.ReadMemStats(&last)
			}
		}
		tr, err := trainer.New(t.Context(), model, opt)
		if err != nil {
			t.Error(err)
			return
		}
		defer tr.Close()
		best := uint64(1 << 62) // both ranks begin and end their epochs meanwhile
		for range 20 {
			if _, err := tr.Fit(t.Context(), ds); err != nil {
				t.Error(err)
				return
			}
			best = min(best, last.Mallocs-first.Mallocs)
		}
		if best != 0 {
			t.Errorf("rank %d: %d heap objects in %d steps, want 0", g.Rank(), best, ds.Len()/4-5)
		}
	})
}

// nan32 is not a number.
var nan32 = float32(nan64())

func nan64() float64 { var zero float64; return zero / zero }

// A rank that leaves the loop over Steps ends those of all ranks after the same step. The group goes on: with the bits of ranks that
// all left there.
func TestALeftLoopEndsOnAllRanks(t *testing.T) {
	ds := samples(t, 40, 4, 3)
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, last := range []int{2, 7} { // of 7 steps
			var bits []map[string]string
			for _, leavers := range [][]int{{0, 1, 2}, {1}, {0, 2}, {0}} {
				learnedBy := make([]map[string]string, 3)
				ranks(t, 3, func(g group.Group) {
					tr, err := trainer.New(t.Context(), small, trainer.Options{Device: ownDevice(t, dev, g), Batch: 2, Accumulate: 3, Group: g, Fields: ds.Fields(), Optimizer: optim.Adam{}})
					if err != nil {
						t.Error(err)
						return
					}
					defer tr.Close()
					leaves, steps := slices.Contains(leavers, g.Rank()), 0
					for step, e := range tr.Steps(t.Context(), ds) {
						if err = e; err != nil {
							break
						}
						if steps++; leaves && step.Step == last {
							break
						}
					}
					var left *trainer.LeaveError
					if steps != last || errors.As(err, &left) == leaves || left != nil && (left.Rank != slices.Max(leavers) || left.Step != int64(last) || !errors.Is(err, trainer.ErrLeft)) {
						t.Errorf("leavers %v: rank %d: %d steps, %v", leavers, g.Rank(), steps, err)
					}
					if _, err := tr.Evaluate(t.Context(), ds); err != nil {
						t.Errorf("leavers %v: rank %d: %v", leavers, g.Rank(), err)
					}
					if _, err := tr.Fit(t.Context(), ds); err != nil || g.Err() != nil {
						t.Errorf("leavers %v: rank %d: %v, the group %v", leavers, g.Rank(), err, g.Err())
					}
					learnedBy[g.Rank()] = learned(t, tr)
				})
				bits = append(bits, learnedBy...)
			}
			for i, b := range bits {
				if !maps.Equal(b, bits[0]) {
					t.Errorf("step %d: run %d has learned other bits", last, i)
				}
			}
		}
	})
}
