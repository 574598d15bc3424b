package trainer_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// shards are all kinds of sharing.
var shards = []trainer.Shard{trainer.ShardState, trainer.ShardGradients}

// Ranks that share the state learn the bits that ranks with whole states learn: a sum of parts adds in the same order. With a norm, whose
// squares are added by parts, they learn the same numbers.
func TestSharedStateLearnsWhatWholeStateLearns(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 151, 4, 3) // 26 steps of 2 ranks; the last one leaves some ranks without samples
		for i, o := range optimizers() {
			if o.Optimizer.Op().Block == 0 || testing.Short() && i%3 != 0 {
				continue
			}
			size, accumulate := 2+i%5%3, 1+i%2*2
			clip := []optim.Clip{{Value: 0.1}, {Norm: 0.01}}[i/2%2]
			opt := trainer.Options{Device: dev, Batch: 3, Fields: ds.Fields(), Clip: clip, Optimizer: o.Optimizer, Seed: 3, Accumulate: accumulate}
			want, wantResults := trainedTogether(t, size, classifier(4, 33, 3), opt, ds)
			for _, opt.Shard = range shards {
				what := fmt.Sprintf("%s, %d ranks, %d steps an update, clip %v, shared %v", o.Name, size, accumulate, clip, opt.Shard)
				got, results := trainedTogether(t, size, classifier(4, 33, 3), opt, ds)
				tol := 1e-6
				if strings.HasSuffix(o.Name, "8") || strings.HasSuffix(o.Name, "16") { // a bit of a gradient decides how a mean is rounded
					tol = 1e-3
				}
				if sameNumbers(t, what, got, want, tol); clip.Norm == 0 && accumulate == 1 && o.Optimizer.Op().Block == 1 && !maps.Equal(got, want) {
					t.Errorf("%s: %v have other bits", what, differing(got, want))
				}
				for k, r := range results {
					if w := wantResults[k]; r.Samples != w.Samples || !about(r.Loss, w.Loss, tol) {
						t.Errorf("%s: result %d is %v of %d samples, want %v of %d", what, k, r.Loss, r.Samples, w.Loss, w.Samples)
					}
				}
			}
		}
	})
}

// Each rank has its part of the state: a P-th, up to padding of each tensor to P parts and a multiple of 256 bytes.
func TestThePlanHasAPartOfTheState(t *testing.T) {
	const in, hidden, out, dev = 40, 500, 10, 256
	model := classifier(in, hidden, out)
	sizes := []int64{in * hidden, hidden, hidden * out, out}
	for _, size := range []int{1, 2, 3, 4} {
		for _, shard := range append([]trainer.Shard{trainer.ShardNothing}, shards...) {
			ranks(t, size, func(g group.Group) {
				plan, err := trainer.Plan(t.Context(), model, trainer.Options{Batch: 2, Group: g, Optimizer: optim.Adam{}, Shard: shard, Accumulate: 2})
				if err != nil {
					t.Error(err)
					return
				}
				cut := func(parts bool) (n int64) {
					for _, s := range sizes {
						if parts {
							s = (s + int64(size) - 1) / int64(size)
						}
						n += (4*s + dev - 1) / dev * dev
					}
					return n
				}
				state, gradients := 2*cut(shard != trainer.ShardNothing), cut(shard == trainer.ShardGradients)
				for _, r := range plan.Regions {
					if want, ok := map[string]int64{"optimizer state": state, "gradients": gradients, "parameters": cut(false)}[r.Name]; ok && r.Size != want {
						t.Errorf("rank %d of %d, shared %v: %s has %d bytes, want %d", g.Rank(), size, shard, r.Name, r.Size, want)
					}
				}
			})
		}
	}
}

// What no rank has a whole of is refused before any plan.
func TestSharedStateRefusesWhatNeedsWholeTensors(t *testing.T) {
	ranks(t, 2, func(g group.Group) {
		base := trainer.Options{Batch: 2, Group: g, Shard: trainer.ShardState}
		for what, change := range map[string]func(o *trainer.Options){
			"optim.Adafactor updates whole parameters": func(o *trainer.Options) { o.Optimizer = optim.Adafactor{} },
			"optim.Adafactor of group 0 updates whole parameters": func(o *trainer.Options) {
				o.Groups = []trainer.Group{{Match: []string{"out/"}, Optimizer: optim.Adafactor{}}}
			},
			`"hidden/w/grad"`: func(o *trainer.Options) { o.Keep = []string{"hidden/w/grad"} },
			"shard 3":         func(o *trainer.Options) { o.Shard = 3 },
		} {
			opt := base
			change(&opt)
			if _, err := trainer.Plan(t.Context(), small, opt); !errors.Is(err, trainer.ErrOption) || !strings.Contains(err.Error(), what) {
				t.Errorf("got %v, want an ErrOption that says %s", err, what)
			}
		}
	})
	opt := trainer.Options{Batch: 2, Shard: trainer.ShardState, Optimizer: optim.Adafactor{}}
	if _, err := trainer.Plan(t.Context(), small, opt); err != nil {
		t.Errorf("one rank: %v", err)
	}
}

// A plan's capacity is enough, and one byte less is refused.
func TestSharedStateNeedsWhatItsPlanSays(t *testing.T) {
	ds := samples(t, 40, 4, 3)
	m := mix{model: small, data: ds, opt: trainer.Options{Batch: 2, Fields: ds.Fields(), Optimizer: optim.Adam{}, Accumulate: 2}}
	m.opt.Device = cputest.Open(t, cpu.Options{Threads: 1})
	for _, m.opt.Shard = range shards {
		m.opt.Memory = capacityOf(t, 3, m)
		trainedTogether(t, 3, m.model, m.opt, m.data)
	}
	m.opt.Memory--
	ranks(t, 3, func(g group.Group) {
		opt := m.opt
		opt.Group = g
		var small *trainer.CapacityError
		if tr, err := trainer.New(t.Context(), m.model, opt); !errors.As(err, &small) {
			t.Errorf("rank %d: got %v, want a CapacityError", g.Rank(), err)
			_ = tr.Close()
		}
	})
}

// Offloading, recomputation and 16 bits change no bit of what ranks learn that share the state; large states are moved too.
func TestSharedStateMixesWithWhatSavesMemory(t *testing.T) {
	model, ds := classifier(300, 512, 3), samples(t, 13, 300, 3)
	for i, shard := range shards {
		opt := trainer.Options{Device: emutest.OpenChecked(t, emu.Options{Seed: random(t).Uint64()}), Batch: 4, Fields: ds.Fields(), Optimizer: optim.Adam{},
			Accumulate: 1 + i, Precision: []arena.DType{0, arena.BFloat16}[i]}
		want, _ := trainedTogether(t, 2, model, opt, ds)
		opt.Shard = shard
		for what, change := range map[string]func(o *trainer.Options){
			"nothing":    func(*trainer.Options) {},
			"state":      func(o *trainer.Options) { o.Offload.State = true },
			"parameters": func(o *trainer.Options) { o.Offload.Parameters = true },
			"all":        func(o *trainer.Options) { o.Offload, o.Recompute.Layers = offloaded, []string{"hidden"} },
		} {
			own := opt
			change(&own)
			got, _ := trainedTogether(t, 2, model, own, ds)
			if i == 0 && !maps.Equal(got, want) {
				t.Errorf("%s: %v have other bits", what, differing(got, want))
			}
			sameNumbers(t, what, got, want, 1e-5)
		}
	}
}

// Large parameters are buckets of their own, without a copy where the ranks have equal parts; equal ones stay apart, also on a rank without
// samples.
func TestLargeParametersAreSharedInPlace(t *testing.T) {
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 256)
		h := x
		for i := range 3 {
			h = net.Dense(h, fmt.Sprint("hidden", i), 256, layers.Tanh)
		}
		return net.Classifier(x, net.Dense(h, "out", 3, nil))
	}
	ds := samples(t, 13, 256, 3)
	for _, size := range []int{2, 3, 4} {
		opt := trainer.Options{Device: cputest.Open(t, cpu.Options{Threads: 1}), Batch: 2, Fields: ds.Fields(), Optimizer: optim.Adam{}, Seed: 3}
		want, _ := trainedTogether(t, size, model, opt, ds)
		for _, opt.Shard = range shards {
			if got, _ := trainedTogether(t, size, model, opt, ds); !maps.Equal(got, want) {
				t.Errorf("%d ranks, shared %v: %v have other bits", size, opt.Shard, differing(got, want))
			}
			ranks(t, size, func(g group.Group) {
				own := opt
				own.Group = g
				plan, err := trainer.Plan(t.Context(), model, own)
				if err != nil {
					t.Error(err)
					return
				}
				copies := strings.Contains(strings.Join(plan.Programs[0].Labels, "\n"), "unpack hidden1/w")
				if copies != (size == 3) {
					t.Errorf("%d ranks: a parameter of 2^16 elements is copied: %v", size, copies)
				}
			})
		}
	}
}

// Explore has what ranks can share among its choices, and rules that need whole parameters only with nothing shared.
func TestExploreTriesWhatRanksShare(t *testing.T) {
	ranks(t, 3, func(g group.Group) {
		if g.Rank() > 0 { // a plan needs no other rank
			return
		}
		opt := trainer.Options{Batch: 2, Group: g, Optimizer: optim.Adam{}, Memory: 1 << 30}
		x, err := trainer.Explore(t.Context(), classifier(64, 128, 10), opt, trainer.ExploreOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		at := slices.Index(x.Axes, "shared by 3 ranks")
		least, of := make(map[string]int64), make(map[string]bool)
		for i, c := range x.Choices.Choices {
			if x.Options[i].Shard.String() != c.Settings[at] {
				t.Errorf("choice %v has options that share %v", c.Settings, x.Options[i].Shard)
			}
			if n, ok := least[c.Settings[at]]; c.Settings[0] == "adam" && (!ok || c.Total < n) {
				least[c.Settings[at]] = c.Total
			}
			of[c.Settings[0]+" "+c.Settings[at]] = true
		}
		if least["state"] >= least["nothing"] || of["adafactor state"] || !of["adafactor nothing"] || !of["adam state, gradients"] {
			t.Errorf("least bytes %v, choices %v", least, of)
		}
	})
}
