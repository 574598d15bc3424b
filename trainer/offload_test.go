package trainer_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// offloaded is all that can be kept in host memory.
var offloaded = trainer.Offload{State: true}

// State that is kept in host memory leaves the bits of what is learned as they are, with every optimizer, guard, window, and ragged tail: it trains in exactly its plan, which has no state in the arena, and is refused a byte below.
func TestOffloadedStateChangesNoBit(t *testing.T) {
	r := random(t)
	data := samplesFor(t, "every layer", 37)
	for k, o := range optimizers() {
		for i, guard := range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
			for j, accumulate := range []int{1, 3} {
				if testing.Short() && 2*i+j != k%4 {
					continue
				}
				opt := trainer.Options{Batch: 5, EvalBatch: 7, Accumulate: accumulate, Optimizer: o.Optimizer, Guard: guard, Seed: 5,
					Clip: optim.Clip{Norm: 1}}
				m := mix{net: o.Name, model: everyLayer, data: data, steps: 8, opt: opt}
				m.opt.Fields = data.(interface{ Fields() []dataloader.Field }).Fields()
				m.opt.Device = openEmu(t, emu.Options{Seed: r.Uint64(), Lazy: r.IntN(2) == 0})
				plain, other := m, m
				other.opt.Offload = offloaded
				plain.opt, other.opt = exactly(t, m, plain.opt), exactly(t, m, other.opt)
				if other.opt.Memory > plain.opt.Memory {
					t.Errorf("%v: %d bytes with state in host memory, %d without", other, other.opt.Memory, plain.opt.Memory)
				}
				want, got := plain.train(t), other.train(t)
				if d := differing(want, got); len(d) > 0 || len(want) != len(got) {
					t.Errorf("%v: %q differ", other, d)
				}
			}
		}
	}
}

// A large state is fetched and stowed in parts, so that scratch holds a small share of it, and the bits are the same.
func TestLargeStatesAreOffloadedInParts(t *testing.T) {
	model, data := classifier(300, 1024, 3), samples(t, 13, 300, 3)
	for k, o := range []optim.Optimizer{optim.Adam{}, optim.SGD{Momentum: 0.9}, optim.Adam{Storage: optim.Bfloat16}, optim.Adam{Storage: optim.Block8}, optim.Adafactor{}} {
		for _, guard := range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
			opt := trainer.Options{Device: openEmu(t, emu.Options{Seed: random(t).Uint64()}), Batch: 8, Optimizer: o, Guard: guard, Fields: data.Fields(), Seed: 3}
			plain, err := trainer.Plan(model, opt)
			if err != nil {
				t.Fatal(err)
			}
			want := learnedOf(t, model, opt, data)
			opt.Offload = offloaded
			away, err := trainer.Plan(model, opt)
			if err != nil {
				t.Fatal(err)
			}
			if d := differing(want, learnedOf(t, model, opt, data)); len(d) > 0 {
				t.Errorf("%T, guard %d: %q differ", o, guard, d)
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

// What a plan says of the bus is what crosses it.
func TestThePlanSaysWhatCrossesTheBus(t *testing.T) {
	for _, offload := range []trainer.Offload{{}, offloaded} {
		data, dev := samples(t, 4*6, 4, 3), openEmu(t, emu.Options{})
		tr := made(t, small, trainer.Options{Device: dev, Batch: 6, Fields: data.Fields(), Optimizer: optim.Adam{}, Offload: offload})
		plan, before := tr.Plan(), dev.Traffic()
		fit(t, tr, data)
		evaluate(t, tr, data)
		after := dev.Traffic()
		got := report.Bus{Uploads: after.Uploaded - before.Uploaded, Downloads: after.Downloaded - before.Downloaded,
			Fetches: after.Fetched - before.Fetched, Stows: after.Stowed - before.Stowed}
		var want report.Bus
		for _, p := range plan.Programs[:2] {
			want.Uploads, want.Downloads = want.Uploads+4*p.Bus.Uploads, want.Downloads+4*p.Bus.Downloads
			want.Fetches, want.Stows = want.Fetches+4*p.Bus.Fetches, want.Stows+4*p.Bus.Stows
		}
		if got != want || got.Uploads == 0 || got.Downloads == 0 || (got.Fetches > 0) != offload.State || got.Stows != got.Fetches {
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
		tr := made(t, small, trainer.Options{Device: openEmu(t, emu.Options{}), Batch: 8, Fields: good.Fields(), Optimizer: optim.Adam{}, Offload: offload, Sequential: true})
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
	_, err := trainer.New(small, trainer.Options{Device: dev, Batch: 4, Fields: samples(t, 9, 4, 3).Fields(), Offload: offloaded})
	if !errors.Is(err, trainer.ErrOption) {
		t.Errorf("got %v, want an error that wraps ErrOption", err)
	}
}
