package trainer_test

import (
	"context"
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
)

// Each call that a predictor makes fails, one a run: NewPredictor, Load, Predict or Close returns
// the error. A predictor that was made predicts the same afterwards, and another one can be made.
func TestEveryFaultOfAPredictorIsReturnedAndSurvived(t *testing.T) {
	ds := samples(t, 20, 4, 3)
	x := fieldOf(t, ds, 0)
	var dev kernels.Device
	var p *trainer.Predictor // of the run; nil if it could not be made
	opt := func() trainer.PredictorOptions { return trainer.PredictorOptions{Device: dev, Batch: 4, Views: 1} }
	serve := func(p *trainer.Predictor, rows int) ([]float32, error) {
		dst := make([]float32, 3*rows)
		return dst, p.Predict(context.Background(), dst, x[:4*rows])
	}
	work := func(d kernels.Device, tr *trainer.Trainer) (err error) {
		dev = d
		if p, err = trainer.NewPredictor(context.Background(), small, opt()); err != nil {
			return err
		}
		q, err := p.View()
		if err != nil {
			return err
		}
		err = p.Load(context.Background(), tr)
		for rows := 1; rows <= 4; rows++ {
			_, failed := serve(p, rows)
			_, failed2 := serve(q, rows)
			err = errors.Join(err, failed, failed2)
		}
		return errors.Join(err, q.Close())
	}
	made := 0
	eachFault(t, ds, work, func(call, where string, err error) {
		// Only the first info decides anything; a later one is for the text of an error.
		if !errors.Is(err, errInjected) && (err != nil || call != "info") {
			t.Errorf("%s: got %v, want the injected error", where, err)
		}
	}, func(where string, tr *trainer.Trainer) {
		fresh := predictor(t, small, opt())
		if p != nil {
			made++
			for _, q := range []*trainer.Predictor{p, fresh} {
				if err := q.Load(t.Context(), tr); err != nil {
					t.Errorf("%s: load: %v", where, err)
				}
			}
			got, err := serve(p, 4)
			if err != nil {
				t.Errorf("%s: predict: %v", where, err)
			}
			want := predict(t, fresh, 4, x[:16])
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("%s: number %d is %v, want %v", where, i, got[i], want[i])
				}
			}
			if err := p.Close(); err != nil {
				t.Errorf("%s: close: %v", where, err)
			}
			p = nil
		}
		if err := fresh.Close(); err != nil {
			t.Errorf("%s: close another: %v", where, err)
		}
	})
	if made < 10 {
		t.Errorf("%d predictors outlived a fault", made)
	}
}
