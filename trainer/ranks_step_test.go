package trainer_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// ownRows are the rows of each rank in each call of Step: [call][rank] from and to.
type ownRows [][][2]int

// randomRows returns rows of n samples, cut into parts of 1 to most rows for ranks; each third call has full parts.
func randomRows(r *rand.Rand, calls, ranks, most, n int) (all ownRows) {
	for call := range calls {
		var parts [][2]int
		at := r.IntN(n - ranks*most)
		for range ranks {
			rows := most
			if call%3 > 0 {
				rows = 1 + r.IntN(most)
			}
			parts = append(parts, [2]int{at, at + rows})
			at += rows
		}
		all = append(all, parts)
	}
	return all
}

// stepped calls Step of each rank with its rows; within a window it goes on with other trainers from the state after call saved, if that is not 0.
// All ranks must learn the same bits and have the same steps.
func stepped(t *testing.T, what string, opt trainer.Options, model trainer.ModelFunc, ds *dataloader.Slices, rows ownRows, saved int) (want map[string]string, steps []trainer.Step) {
	t.Helper()
	n := len(rows[0])
	learnedBy, stepsOf := make([]map[string]string, n), make([][]trainer.Step, n)
	var mu sync.Mutex
	ranks(t, n, func(g group.Group) {
		own := opt
		own.Device = ownDevice(t, opt.Device, g)
		if n > 1 {
			own.Group = g
		}
		tr, err := trainer.New(t.Context(), model, own)
		if err != nil {
			t.Errorf("%s, rank %d: %v", what, g.Rank(), err)
			return
		}
		defer func() { _ = tr.Close() }()
		for call, parts := range rows {
			if call == saved && saved > 0 {
				s := save(t, tr)
				if err := tr.Close(); err != nil {
					t.Error(err)
				}
				if tr, err = trainer.New(t.Context(), model, own); err == nil {
					_, err = tr.Restore(t.Context(), s, trainer.RestoreOptions{})
				}
				if err != nil {
					t.Errorf("%s, rank %d: %v", what, g.Rank(), err)
					return
				}
			}
			s, err := tr.Step(t.Context(), rowsOf(t, ds, parts[g.Rank()][0], parts[g.Rank()][1]))
			if err != nil {
				t.Errorf("%s, rank %d, call %d: %v", what, g.Rank(), call, err)
				return
			}
			s.Uploaded, s.Metrics = 0, nil // of the rank
			stepsOf[g.Rank()] = append(stepsOf[g.Rank()], s)
		}
		got := learned(t, tr)
		mu.Lock()
		defer mu.Unlock()
		learnedBy[g.Rank()] = got
	})
	if t.Failed() {
		t.FailNow()
	}
	for rank := range n {
		if d := differing(learnedBy[rank], learnedBy[0]); len(d) > 0 {
			t.Errorf("%s: %q of rank %d differ from rank 0", what, d, rank)
		}
		if a, b := fmt.Sprint(stepsOf[rank]), fmt.Sprint(stepsOf[0]); a != b {
			t.Errorf("%s: rank %d has steps %s, rank 0 %s", what, rank, a, b)
		}
	}
	return learnedBy[0], stepsOf[0]
}

// Ranks that step on rows of their own, of which each may have another number, learn what one rank learns from all of them; with windows, also
// where they go on from a state within one.
func TestRanksStepOnRowsOfTheirOwn(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 100, 4, 3)
		r := seed.Rand(t, 1)
		for name, opt := range map[string]trainer.Options{
			"plain":        {Optimizer: optim.SGD{Rate: 0.1, Momentum: 0.9}},
			"clipped":      {Optimizer: optim.SGD{Rate: 0.1}, Clip: optim.Clip{Norm: 0.05}},
			"shared":       {Optimizer: optim.SGD{Rate: 0.1, Momentum: 0.9}, Shard: trainer.ShardState},
			"windows of 3": {Optimizer: optim.SGD{Rate: 0.1, Momentum: 0.9}, Accumulate: 3, Checkpoint: true},
		} {
			for size := 2; size <= 3; size++ {
				const most, calls = 5, 12
				opt := opt
				opt.Device, opt.Fields, opt.Batch, opt.Seed, opt.GradientNorm = dev, ds.Fields(), most, 3, true
				rows := randomRows(r, calls, size, most, ds.Len())
				if opt.Accumulate > 1 {
					for _, parts := range rows {
						for rank := range parts {
							parts[rank] = [2]int{parts[0][0] + rank*most, parts[0][0] + (rank+1)*most}
						}
					}
				}
				what := fmt.Sprintf("%s, %d ranks", name, size)
				got, steps := stepped(t, what, opt, small, ds, rows, 0)
				if opt.Accumulate > 1 {
					again, _ := stepped(t, what+", restored", opt, small, ds, rows, 7)
					sameNumbers(t, what+", restored", again, got, 1e-6) // the sum of gradients so far is rounded
				}
				alone := make(ownRows, calls)
				for i, parts := range rows {
					alone[i] = [][2]int{{parts[0][0], parts[size-1][1]}}
				}
				opt.Batch, opt.Shard = most*size, trainer.ShardNothing
				want, wantSteps := stepped(t, what, opt, small, ds, alone, 0)
				sameNumbers(t, what, got, want, 1e-6)
				for i, s := range steps {
					w := wantSteps[i]
					if s.Samples != w.Samples || s.Updated != w.Updated || s.Number != w.Number || !about(s.Loss, w.Loss, 1e-6) || s.Updated && !about(s.Norm, w.Norm, 1e-5) {
						t.Errorf("%s, call %d: %+v, one rank has %+v", what, i, s, w)
					}
				}
			}
		}
	})
}

func TestStepOfAGroupMakesNoHeapObjects(t *testing.T) {
	ds := samples(t, 8, 4, 3)
	ranks(t, 2, func(g group.Group) {
		tr, err := trainer.New(t.Context(), small, trainer.Options{Device: cputest.Open(t, cpu.Options{Threads: 1}), Batch: 4, Group: g, Fields: ds.Fields(), Optimizer: optim.Adam{}})
		if err != nil {
			t.Error(err)
			return
		}
		defer tr.Close()
		b := trainer.Batch{Rows: 3 + g.Rank(), Fill: func(f trainer.Fields) error {
			clear(f.Float32("x"))
			clear(f.Uint8("y"))
			return nil
		}}
		best := uint64(1 << 62) // the other rank begins and ends meanwhile
		for range 20 {
			var first, last runtime.MemStats
			for step := range 12 {
				switch step {
				case 2:
					runtime.ReadMemStats(&first)
				case 10:
					runtime.ReadMemStats(&last)
				}
				if _, err := tr.Step(t.Context(), b); err != nil {
					t.Errorf("rank %d: %v", g.Rank(), err)
					return
				}
			}
			best = min(best, last.Mallocs-first.Mallocs)
		}
		if best != 0 {
			t.Errorf("rank %d: %d heap objects in 8 calls, want 0", g.Rank(), best)
		}
	})
}

// A rank whose parameters or counters are not those of the others any more is found by the next call of Step.
func TestStepOfRanksFindsStatesThatDiffer(t *testing.T) {
	ds := samples(t, 8, 4, 3)
	for what, change := range map[string]func(tr *trainer.Trainer, s *saved) error{
		"Write": func(tr *trainer.Trainer, _ *saved) error {
			ps, err := tr.Params()
			if err != nil {
				return err
			}
			return ps[0].Write(make([]byte, ps[0].Spec.Bytes()))
		},
		"WriteFloat32": func(tr *trainer.Trainer, _ *saved) error {
			ps, err := tr.Params()
			if err != nil {
				return err
			}
			return ps[0].WriteFloat32(make([]float32, ps[0].Spec.Shape.Elems()))
		},
		"WriteWeights": func(tr *trainer.Trainer, _ *saved) error {
			w := tr.Weights()[0]
			return tr.WriteWeights(t.Context(), func(all trainer.Weights) error { return all.WriteAt(w.Name, make([]byte, w.Spec.Bytes()), 0) })
		},
		"Restore": func(tr *trainer.Trainer, s *saved) error {
			_, err := tr.Restore(t.Context(), s, trainer.RestoreOptions{})
			return err
		},
		"Unfreeze": func(tr *trainer.Trainer, _ *saved) error { return tr.Unfreeze(t.Context()) },
	} {
		for _, all := range []bool{true, false} { // ranks, or only the second one
			ranks(t, 2, func(g group.Group) {
				tr, err := trainer.New(t.Context(), small, trainer.Options{Device: cputest.Open(t, cpu.Options{Threads: 1}), Batch: 4, Group: g, Fields: ds.Fields(),
					Frozen: []string{"hidden/b"}, Unfreeze: [][]string{{"hidden/b"}}, Checkpoint: true})
				if err != nil {
					t.Error(err)
					return
				}
				defer tr.Close()
				s := save(t, tr)
				for step := range 4 {
					if step == 2 && (all || g.Rank() == 1) {
						if err := change(tr, s); err != nil {
							t.Errorf("%s: %v", what, err)
						}
					}
					_, err = tr.Step(t.Context(), rowsOf(t, ds, 4*g.Rank(), 4*g.Rank()+4))
					if err != nil {
						break
					}
				}
				var differ *trainer.MismatchError
				if found := errors.As(err, &differ); found == all || all && err != nil {
					t.Errorf("%s of all ranks: %v, rank %d: %v", what, all, g.Rank(), err)
				}
			})
		}
	}
}
