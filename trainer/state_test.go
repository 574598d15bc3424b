package trainer_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// saved is a state in Go memory, as a file would hold it: its numbers as JSON.
type saved struct {
	info    []byte
	specs   []trainer.NamedSpec
	tensors map[string][]byte
}

func (s *saved) Info() (info trainer.Info, err error) {
	err = json.Unmarshal(s.info, &info)
	return info, err
}
func (s *saved) Tensors() []trainer.NamedSpec { return s.specs }
func (s *saved) Read(name string, dst []byte) error {
	copy(dst, s.tensors[name])
	return nil
}

// save captures the state of a trainer.
func save(t testing.TB, tr *trainer.Trainer) *saved {
	t.Helper()
	state, err := tr.Capture(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer state.Release()
	s := &saved{specs: state.Tensors(), tensors: make(map[string][]byte)}
	if s.info, err = json.Marshal(state.Info()); err != nil {
		t.Fatal(err)
	}
	for i, x := range s.specs {
		s.tensors[x.Name] = slices.Clone(state.Bytes(i))
	}
	return s
}

// restore restores a state exactly.
func restore(t testing.TB, tr *trainer.Trainer, s trainer.StateSource) trainer.Restored {
	t.Helper()
	r, err := tr.Restore(t.Context(), s, trainer.RestoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// stepsOf trains n steps of passes over ds, by loops that go on where they begin, and returns them.
// cut, unless it is nil, is called in the body after the last one.
func stepsOf(t testing.TB, tr *trainer.Trainer, ds dataloader.Dataset, n int, cut func()) (all []trainer.Step) {
	t.Helper()
	for {
		for s, err := range tr.Steps(t.Context(), ds) {
			if err != nil {
				t.Fatal(err)
			}
			if all = append(all, s); len(all) == n {
				if cut != nil {
					cut()
				}
				return all
			}
		}
	}
}

func TestARunThatIsRestoredHasTheSameBits(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 53, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Seed: 5, Optimizer: optim.Adam{}, Checkpoint: true}
		straight := made(t, small, opt)
		want := stepsOf(t, straight, ds, 20, nil)
		end := save(t, straight)
		for _, at := range []int{1, 6, 7, 11, 14, 19} {
			var middle *saved
			first := made(t, small, opt)
			got := stepsOf(t, first, ds, at, func() { middle = save(t, first) })
			if d := differing(stringsOf(middle.tensors), stringsOf(save(t, first).tensors)); len(d) > 0 {
				t.Errorf("after the loop %q differ from the body", d)
			}
			second := made(t, small, opt)
			r := restore(t, second, middle)
			if len(r.Differences) > 0 {
				t.Errorf("differences: %v", r.Differences)
			}
			if want := (trainer.Position{Epoch: at / 7, Step: at % 7}); r.Position != want || second.Position() != want {
				t.Errorf("%d steps: position %+v and %+v, want %+v", at, r.Position, second.Position(), want)
			}
			got = append(got, stepsOf(t, second, ds, 20-at, nil)...)
			for i := range want {
				if got[i].Loss != want[i].Loss || got[i].Number != want[i].Number || got[i].Epoch != want[i].Epoch || got[i].Step != want[i].Step {
					t.Errorf("cut at %d: step %d is %+v, want %+v", at, i, got[i], want[i])
				}
			}
			last := save(t, second)
			if d := differing(stringsOf(end.tensors), stringsOf(last.tensors)); len(d) > 0 {
				t.Errorf("cut at %d: %q differ", at, d)
			}
			if string(last.info) != string(end.info) {
				t.Errorf("cut at %d: numbers\n%s\nwant\n%s", at, last.info, end.info)
			}
		}
	})
}

// stringsOf converts values for differing.
func stringsOf(m map[string][]byte) map[string]string {
	all := make(map[string]string)
	for name, b := range m {
		all[name] = string(b)
	}
	return all
}
