package trainer_test

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// The state of ranks, shared or not, is the state of an unshared run, and each goes on from the other,
// with any number of ranks, also within an epoch and within a window.
func TestStateGoesOnWithOtherRanks(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 96, 4, 3)
		type part struct {
			size  int
			shard trainer.Shard
		}
		// run trains until the end of a step, from a state if there is one; at the end of the last it returns what was learned.
		run := func(p part, from *saved, opt trainer.Options, until int64) (state *saved, got map[string]string) {
			var mu sync.Mutex
			ranks(t, p.size, func(g group.Group) {
				own := opt
				own.Device, own.Shard, own.Batch = ownDevice(t, dev, g), p.shard, 12/p.size
				if p.size > 1 {
					own.Group = g
				}
				tr, err := trainer.New(t.Context(), classifier(4, 33, 3), own)
				if err != nil {
					t.Errorf("%v: %v", p, err)
					return
				}
				defer tr.Close()
				if from != nil {
					if _, err := tr.Restore(t.Context(), from, trainer.RestoreOptions{}); err != nil {
						t.Errorf("%v: %v", p, err)
						return
					}
				}
				for step, err := range tr.Steps(t.Context(), ds) {
					if err != nil {
						t.Errorf("%v: %v", p, err)
						return
					}
					if step.Number == until {
						s := save(t, tr)
						mu.Lock()
						if state == nil {
							state = s
						} else if !maps.EqualFunc(s.tensors, state.tensors, func(a, b []byte) bool { return string(a) == string(b) }) {
							t.Errorf("%v: ranks have captured different states", p)
						}
						mu.Unlock()
					}
				}
				if g.Rank() == 0 {
					got = learned(t, tr)
				}
			})
			if t.Failed() {
				t.FailNow()
			}
			return state, got
		}
		for i, o := range []optim.Optimizer{optim.Adam{}, optim.SGD{Rate: 0.1, Momentum: 0.9}, optim.Adam{Storage: optim.Block8}} {
			for _, accumulate := range []int{2, 1}[:1+(i+1)%2] {
				opt := trainer.Options{Fields: ds.Fields(), Optimizer: o, Seed: 3, Accumulate: accumulate, Checkpoint: true}
				tol := 1e-5
				if o.Op() == kernels.Adam8 {
					tol = 1e-3
				}
				_, want := run(part{1, 0}, nil, opt, 3)
				for i, from := range []part{{1, 0}, {3, trainer.ShardState}, {2, trainer.ShardGradients}, {3, 0}} {
					if accumulate == 1 && from == (part{3, 0}) {
						continue // it is that of one rank
					}
					state, _ := run(from, nil, opt, 3) // within a window of two steps
					for _, to := range []part{{1, 0}, {2, trainer.ShardState}, {4, trainer.ShardGradients}, {3, 0}} {
						_, got := run(to, state, opt, 0)
						sameNumbers(t, fmt.Sprintf("%T, %d steps an update, %v to %v (%d)", o, accumulate, from, to, i), got, want, tol)
					}
				}
			}
		}
	})
}

// A state that one rank cannot copy is an error of all, and the group goes on; during a pass there is none.
func TestSharedStateIsCapturedByAllRanksOrNone(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 24, 4, 3)
		ranks(t, 2, func(g group.Group) {
			var tr *trainer.Trainer
			opt := trainer.Options{Device: ownDevice(t, dev, g), Batch: 2, Group: g, Fields: ds.Fields(), Checkpoint: true, Shard: trainer.ShardState, Optimizer: optim.Adam{}}
			opt.Progress = func(trainer.Progress) {
				if _, err := tr.Capture(t.Context()); !errors.Is(err, trainer.ErrBusy) {
					t.Errorf("in a pass: got %v, want ErrBusy", err)
				}
			}
			tr, err := trainer.New(t.Context(), small, opt)
			if err != nil {
				t.Error(err)
				return
			}
			defer tr.Close()
			first, err := tr.Capture(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if g.Rank() == 0 {
				first.Release()
			}
			if _, err := tr.Capture(t.Context()); !errors.Is(err, trainer.ErrBusy) {
				t.Errorf("rank 1 has a state: rank %d got %v, want ErrBusy", g.Rank(), err)
			}
			first.Release()
			if _, err := tr.Fit(t.Context(), ds); err != nil {
				t.Error(err)
			}
			last, err := tr.Capture(t.Context())
			if err != nil {
				t.Error(err)
			}
			last.Release()
		})
	})
}
