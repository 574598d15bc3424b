package trainer_test

import (
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// offloaded is all that can be kept in host memory.
var offloaded = trainer.Offload{State: true}

// State that is kept in host memory leaves the bits of what is learned as they are, with every optimizer, guard, window, and ragged tail: it trains in exactly its plan, which has no state in the arena, and is refused a byte below.
func TestOffloadedStateChangesNoBit(t *testing.T) {
	r := random(t)
	data := samplesFor(t, "every layer", 37)
	for _, o := range optimizers() {
		for _, guard := range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
			for _, accumulate := range []int{1, 3} {
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

func TestOffloadIsRefusedWhereThereIsNoOtherMemory(t *testing.T) {
	dev := openCPU(t)
	_, err := trainer.New(small, trainer.Options{Device: dev, Batch: 4, Fields: samples(t, 9, 4, 3).Fields(), Offload: offloaded})
	if !errors.Is(err, trainer.ErrOption) {
		t.Errorf("got %v, want an error that wraps ErrOption", err)
	}
}
