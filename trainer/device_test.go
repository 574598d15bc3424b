package trainer_test

import (
	"context"
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
)

func TestADeviceThatIsClosedUnderATrainerEndsEveryPass(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 9, 4, 3)
		tr, err := trainer.New(t.Context(), small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields()})
		if err != nil {
			t.Fatal(err)
		}
		fit(t, tr, ds)
		if err := dev.Close(); err != nil {
			t.Fatal(err)
		}
		_, fitted := tr.Fit(context.Background(), ds)
		_, evaluated := tr.Evaluate(context.Background(), ds)
		for what, err := range map[string]error{"fit": fitted, "evaluate": evaluated, "predict": firstError(tr, ds), "close": tr.Close()} {
			if !errors.Is(err, arena.ErrClosed) {
				t.Errorf("%s: %s: got %v, want arena.ErrClosed", dev.Name(), what, err)
			}
		}
	})
}

func TestADeviceThatWasNotOpenedIsRefused(t *testing.T) {
	for _, d := range targets {
		for name, dev := range map[string]kernels.Device{"nil": d.absent, "zero": d.zero} {
			t.Run(d.name+"/"+name, func(t *testing.T) {
				if _, err := trainer.New(t.Context(), small, trainer.Options{Device: dev, Batch: 4}); !errors.Is(err, arena.ErrClosed) {
					t.Errorf("got %v, want arena.ErrClosed", err)
				}
			})
		}
	}
}
