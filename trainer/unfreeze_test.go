package trainer_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// After each stage, training goes on as that of a trainer with less frozen and the same parameters, in the memory of
// the plan, which is the same before and after.
func TestUnfreezingGoesOnAsATrainerWithLessFrozen(t *testing.T) {
	frozen := []string{"trunk", "norm/*", "b/hidden"}
	for name, opt := range map[string]trainer.Options{
		"plain": {Optimizer: optim.Adam{}}, "windows": {Optimizer: optim.Adam{}, Accumulate: 2},
		"each":  {Optimizer: optim.Lion{}, Guard: trainer.GuardEach},
		"group": {Groups: []trainer.Group{{Match: []string{"trunk"}, Frozen: true}, {Match: []string{"norm/"}, Optimizer: optim.Adam{}}}},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, dev kernels.Device) {
				ds := samples(t, 29, 4, 3)
				opt := opt
				opt.Device, opt.Batch, opt.Fields, opt.Sequential, opt.Schedule = dev, 8, ds.Fields(), true, optim.Step{Every: 3, Factor: 0.5}
				opt.Objectives = []trainer.Objective{{Name: "b", Optimizer: optim.RMSProp{}}}
				staged := opt
				staged.Frozen, staged.Unfreeze = frozen, [][]string{{"norm/", "b/hidden"}, {"trunk/*"}}
				plan, err := trainer.Plan(t.Context(), undropped, staged)
				if err != nil {
					t.Fatal(err)
				}
				staged.Memory = plan.Total
				tr := made(t, undropped, staged)
				want := inUse(tr)
				for stage, left := range [][]string{frozen, {"trunk"}, nil} {
					if stage > 0 {
						if err := tr.Unfreeze(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					opt.Frozen = left
					if name == "group" && left == nil {
						opt.Groups = opt.Groups[1:]
					}
					other := made(t, undropped, opt)
					setValues(t, other, learned(t, tr))
					for range 2 {
						fit(t, tr, ds)
						fit(t, other, ds)
					}
					if d := differing(learned(t, tr), learned(t, other)); len(d) > 0 {
						t.Errorf("stage %d: %q differ", stage, d)
					}
					if got := inUse(tr); got != want {
						t.Errorf("stage %d: %d bytes in use, want %d", stage, got, want)
					}
				}
				if err := tr.Unfreeze(t.Context()); !errors.Is(err, trainer.ErrOption) {
					t.Errorf("after the last stage: got %v, want ErrOption", err)
				}
				if got, want := tr.Stats().Updates, int64(3*2*2*4); name != "windows" && got != want {
					t.Errorf("%d updates, want %d", got, want)
				}
				staged.Memory--
				if _, err := trainer.New(t.Context(), undropped, staged); !errors.As(err, new(*trainer.CapacityError)) {
					t.Errorf("a byte less: got %v, want a CapacityError", err)
				}
			})
		})
	}
}

func TestStagesAreChecked(t *testing.T) {
	for want, stages := range map[string][][]string{
		`unfreeze: stage 0: no frozen parameter matches "out"`:      {{"out"}},
		`unfreeze: stage 1: no frozen parameter matches "hidden/w"`: {{"hidden"}, {"hidden/w"}},
		"unfreeze: stage 0 has no pattern":                          {nil},
	} {
		_, err := trainer.Plan(t.Context(), small, trainer.Options{Batch: 4, Frozen: []string{"hidden"}, Unfreeze: stages})
		if !errors.Is(err, trainer.ErrOption) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
