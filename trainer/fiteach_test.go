package trainer_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
)

// FitEach has the bits and the Result of Fit, and ends where it is told to.
func TestFitEachHasTheResultOfFit(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 45, 4, 3)
		for name, opt := range stepOptions() {
			opt.Device, opt.Seed, opt.Fields = dev, 5, ds.Fields()
			fitted, stepped := made(t, small, opt), made(t, small, opt)
			for epoch := range 2 {
				want, calls := fit(t, fitted, ds), 0
				got, err := stepped.FitEach(context.Background(), ds, func(trainer.Step) bool { calls++; return true })
				got.Input, want.Input = dataloader.Stalls{}, dataloader.Stalls{}
				if err != nil || calls != want.Steps || !reflect.DeepEqual(got, want) {
					t.Errorf("%s, epoch %d: %d calls, %v\n%+v, want\n%+v", name, epoch, calls, err, got, want)
				}
			}
			got, err := stepped.FitEach(context.Background(), ds, func(s trainer.Step) bool { return s.Step < 2 })
			if err != nil || got.Steps != 2 || stepped.Position().Epoch != 3 {
				t.Errorf("%s: ended after 2 steps: %d steps, %v", name, got.Steps, err)
			}
		}
		tr := made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()})
		if _, err := tr.FitEach(context.Background(), ds, nil); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("nothing to call: %v", err)
		}
	})
}
