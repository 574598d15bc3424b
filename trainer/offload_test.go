package trainer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// offloaded is all that can be kept in host memory.
var offloaded = trainer.Offload{State: true, Parameters: true}

// What is kept in host memory leaves the bits of what is learned as they are, with every optimizer, guard, window, and ragged tail: it trains in exactly its plan.
func TestOffloadChangesNoBit(t *testing.T) {
	t.Parallel()
	r := random(t)
	data := samplesFor(t, "every layer", 37)
	for k, o := range optimizers() {
		for i, guard := range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
			for j, accumulate := range []int{1, 3} {
				// An optimizer has two of the four combinations, with both guards and both windows.
				if c := 2*i + j; c != k%4 && (testing.Short() || c != 3-k%4) {
					continue
				}
				opt := trainer.Options{Batch: 5, EvalBatch: 7, Accumulate: accumulate, Optimizer: o.Optimizer, Guard: guard, Seed: 5,
					Clip: optim.Clip{Norm: 1}}
				m := mix{net: o.Name, model: everyLayer, data: data, steps: 8, opt: opt}
				m.opt.Fields = data.(interface{ Fields() []dataloader.Field }).Fields()
				m.opt.Device = emutest.OpenChecked(t, emu.Options{Seed: r.Uint64(), Lazy: r.IntN(2) == 0})
				plain, other := m, m
				other.opt.Offload = offloaded
				plain.opt, other.opt = exactly(t, m, plain.opt), exactly(t, m, other.opt)
				want, got := plain.train(t), other.train(t)
				if d := differing(want, got); len(d) > 0 || len(want) != len(got) {
					t.Errorf("%v: %q differ", other, d)
				}
			}
		}
	}
}

// A large state, and a large parameter, is fetched and stowed in parts, so that scratch holds a small share of a state, and the bits are the same.
func TestLargeStatesAreOffloadedInParts(t *testing.T) {
	t.Parallel()
	model, data := classifier(300, 1024, 3), samples(t, 13, 300, 3)
	for k, o := range []optim.Optimizer{optim.Adam{}, optim.SGD{Momentum: 0.9}, optim.Adam{Storage: optim.BFloat16}, optim.Adam{Storage: optim.Block8}, optim.Adafactor{}} {
		for _, guard := range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
			opt := trainer.Options{Device: emutest.OpenChecked(t, emu.Options{Seed: random(t).Uint64()}), Batch: 8, Optimizer: o, Guard: guard, Fields: data.Fields(), Seed: 3}
			plain, err := trainer.Plan(t.Context(), model, opt)
			if err != nil {
				t.Fatal(err)
			}
			want := learnedOf(t, model, opt, data)
			opt.Offload = offloaded
			if d := differing(want, learnedOf(t, model, opt, data)); len(d) > 0 {
				t.Errorf("%T, guard %d: %q differ", o, guard, d)
			}
			opt.Offload.Parameters = false
			away, err := trainer.Plan(t.Context(), model, opt)
			if err != nil {
				t.Fatal(err)
			}
			state := plain.Category("optimizer state")
			if away.Offloaded != state || away.Category("optimizer state") != 0 {
				t.Errorf("%T: %d bytes of state are offloaded, and %d not, of %d", o, away.Offloaded, away.Category("optimizer state"), state)
			}
			if k > 2 { // of two parts, or one, both are there at once
				continue
			}
			if saved := plain.Total - away.Total; saved < state/3 {
				t.Errorf("%T, guard %d: %d bytes less of %d of state", o, guard, saved, state)
			}
		}
	}
}

// The bytes that a plan lists for the bus are those that cross it.
func TestThePlanSaysWhatCrossesTheBus(t *testing.T) {
	for _, offload := range []trainer.Offload{{}, {State: true}, {Parameters: true}, {Layers: []string{"out"}}, offloaded} {
		data, dev := samples(t, 4*6, 4, 3), emutest.OpenChecked(t, emu.Options{})
		tr := made(t, small, trainer.Options{Device: dev, Batch: 6, Fields: data.Fields(), Optimizer: optim.Adam{}, Offload: offload})
		plan, before := tr.Plan(), dev.Traffic()
		fit(t, tr, data)
		evaluate(t, tr, data)
		after := dev.Traffic()
		got := report.Bus{Uploads: after.Uploaded - before.Uploaded, Downloads: after.Downloaded - before.Downloaded,
			Prefetches: after.Prefetched - before.Prefetched, Writebacks: after.WrittenBack - before.WrittenBack}
		var want report.Bus
		for _, p := range plan.Programs[:2] {
			want.Uploads, want.Downloads = want.Uploads+4*p.Bus.Uploads, want.Downloads+4*p.Bus.Downloads
			want.Prefetches, want.Writebacks = want.Prefetches+4*p.Bus.Prefetches, want.Writebacks+4*p.Bus.Writebacks
		}
		if got != want || got.Uploads == 0 || got.Downloads == 0 || got.Prefetches == 0 && !reflect.ValueOf(offload).IsZero() {
			t.Errorf("%+v: %+v crossed the bus in 4 steps of %q and %q, the plan says %+v", offload, got, plan.Programs[0].Name, plan.Programs[1].Name, want)
		}
		if have := tr.Stats().Pinned; have != plan.Pinned {
			t.Errorf("%+v: %d bytes are pinned, the plan says %d", offload, have, plan.Pinned)
		}
	}
}

// A step that is not finite changes neither parameters nor states, and is named as ever.
func TestAStepThatIsNotFiniteLeavesOffloadedState(t *testing.T) {
	good, bad := samples(t, 24, 4, 3), columns(t, 8, dataloader.Column("x", slices.Repeat([]float32{float32(math.NaN())}, 32), 4), dataloader.Column("y", make([]uint8, 8)))
	ctx := context.Background()
	learn := func(offload trainer.Offload, spoil bool) map[string]string {
		tr := made(t, small, trainer.Options{Device: emutest.OpenChecked(t, emu.Options{}), Batch: 8, Fields: good.Fields(), Optimizer: optim.Adam{}, Offload: offload, Sequential: true})
		fit(t, tr, good)
		if spoil {
			_, err := tr.Fit(ctx, bad)
			var e *trainer.NonFiniteError
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want a NonFiniteError", err)
			}
		}
		fit(t, tr, good)
		return learned(t, tr)
	}
	for _, spoil := range []bool{false, true} {
		if d := differing(learn(trainer.Offload{}, spoil), learn(offloaded, spoil)); len(d) > 0 {
			t.Errorf("spoiled %v: %q differ", spoil, d)
		}
	}
}

func TestOffloadIsRefusedWhereThereIsNoOtherMemory(t *testing.T) {
	dev := openCPU(t)
	_, err := trainer.New(t.Context(), small, trainer.Options{Device: dev, Batch: 4, Fields: samples(t, 9, 4, 3).Fields(), Offload: offloaded})
	if !errors.Is(err, trainer.ErrOption) {
		t.Errorf("got %v, want an error that wraps ErrOption", err)
	}
}

// Parameters of all layers, and those of some, are kept in host memory, but for vectors; a name that no layer with such parameters has is refused.
func TestParametersAreKeptInHostMemory(t *testing.T) {
	data := samples(t, 9, 40, 3)
	opt := trainer.Options{Batch: 4, Fields: data.Fields()}
	model := classifier(40, 300, 3)
	at := func(o trainer.Offload) *report.Plan {
		opt.Offload = o
		p, err := trainer.Plan(t.Context(), model, opt)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	all := at(trainer.Offload{}).Category("parameters")
	const hidden, out = 40 * 300 * 4, 300*3*4 + 240 // bytes, in multiples of 256
	for _, c := range []struct {
		o    trainer.Offload
		away int64
	}{{trainer.Offload{State: true}, 0}, {trainer.Offload{Parameters: true}, hidden + 128 + out}, {trainer.Offload{Layers: []string{"hidden"}}, hidden + 128}, {trainer.Offload{Layers: []string{"hidden", "out"}}, hidden + 128 + out}} {
		p := at(c.o)
		if p.Offloaded != c.away || p.Category("parameters") != all-c.away {
			t.Errorf("%+v: %d bytes are offloaded and %d not, want %d and %d", c.o, p.Offloaded, p.Category("parameters"), c.away, all-c.away)
		}
	}
	for _, o := range []trainer.Offload{{Layers: []string{"hidden/w"}}, {Layers: []string{""}}, {Parameters: true, Layers: []string{"out"}}} {
		opt.Offload = o
		if _, err := trainer.Plan(t.Context(), model, opt); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("%+v: got %v, want an error that wraps ErrOption", o, err)
		}
	}
}

// What is kept in host memory is read and written like all parameters, in the order of their first use, on devices with memory of their own.
func TestOffloadedParametersAreReadAndWritten(t *testing.T) {
	data := samples(t, 12, 4, 3)
	names := func(offload trainer.Offload) (s []string) {
		tr := made(t, small, trainer.Options{Device: emutest.OpenChecked(t, emu.Options{}), Batch: 6, Fields: data.Fields(), Offload: offload})
		ps, err := tr.Params()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ps {
			s = append(s, p.Name)
			want, got := make([]byte, p.Spec.Bytes()), make([]byte, p.Spec.Bytes())
			for i := range want {
				want[i] = byte(i % 60) // finite
			}
			if err := errors.Join(p.Write(want), p.Read(got)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%q: wrote %x, read %x, %v", p.Name, want, got, err)
			}
			for _, n := range []int{len(want) - 1, len(want) + 1, 0} {
				if err := errors.Join(p.Read(make([]byte, n))); !errors.Is(err, arena.ErrInvalid) || !strings.Contains(err.Error(), p.Name) {
					t.Errorf("%q: reading %d of %d bytes: got %v", p.Name, n, len(want), err)
				}
			}
		}
		fit(t, tr, data)
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
		if err := ps[0].Read(make([]byte, ps[0].Spec.Bytes())); !errors.Is(err, trainer.ErrClosed) {
			t.Errorf("after Close: got %v", err)
		}
		return s
	}
	if want, got := names(trainer.Offload{}), names(offloaded); !slices.Equal(got, want) {
		t.Errorf("the parameters are %q, want %q", got, want)
	}
}

// A weight that many layers share is planned with whatever is recomputed: fetched for each round of it, and no copy stays that nobody reads.
func TestASharedWeightIsOffloadedAndRecomputed(t *testing.T) {
	t.Parallel()
	shared := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 7)
		u, h := net.Param("shared/w", layers.GlorotUniform{}, 7, 7), x
		for i := range 4 {
			h = net.LayerNorm(gorgonia.Must(gorgonia.Tanh(gorgonia.Must(gorgonia.Mul(h, u)))), fmt.Sprint("norm", i))
			h = net.Dense(h, fmt.Sprint("layer", i), 7, layers.Tanh)
		}
		return meanProduct(net, h, net.Param("out/w", layers.Ones{}, 7, 1))
	}
	for _, offload := range []trainer.Offload{{Parameters: true}, {Layers: []string{"shared"}}} {
		for _, part := range []float64{0, 0.4} {
			opt := tight(t, shared, trainer.Options{Batch: 5, Accumulate: 3, Offload: offload}, part)
			if _, err := trainer.Plan(t.Context(), shared, opt); err != nil {
				t.Errorf("%v, %v of scratch: %v", offload, part, err)
			}
		}
	}
}
