package trainer_test

import (
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// TestTheEvaluationBatchChangesNoResult trains, evaluates and predicts in batches of evaluation below, at and above that of training, with
// ragged tails, streamed and resident.
func TestTheEvaluationBatchChangesNoResult(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 29, 4, 3)
		for _, resident := range []bool{false, true} {
			var want trainer.Result
			var wantOut []float64
			for _, rows := range []int{0, 1, 3, 8, 11, 29, 64} {
				opt := trainer.Options{Device: dev, Batch: 8, EvalBatch: rows, Fields: ds.Fields(), Optimizer: optim.Adam{Rate: 0.01}, Seed: 5,
					Keep: []string{"loss/rows"}}
				if resident {
					opt.Resident, opt.Fields = []dataloader.Dataset{ds}, nil
				}
				plan, err := trainer.Plan(t.Context(), small, opt)
				if err != nil {
					t.Fatal(err)
				}
				opt.Memory = plan.Total
				tr := made(t, small, opt)
				trained := fit(t, tr, ds)
				got, out := evaluate(t, tr, ds), outputs(t, tr, ds)
				full := rows
				if rows == 0 {
					full, want, wantOut = 8, got, out
				}
				if steps := (29 + full - 1) / full; got.Steps != steps || got.Samples != 29 || trained.Steps != 4 {
					t.Errorf("evaluation batch %d: %d steps, want %d; %d of training, want 4", rows, got.Steps, steps, trained.Steps)
				}
				// The mean of a batch rounds otherwise than that of another: 29 additions in float32.
				if !about(got.Loss, want.Loss, 29*0x1p-23) || got.Accuracy != want.Accuracy {
					t.Errorf("evaluation batch %d: loss %v, accuracy %v; want %v, %v", rows, got.Loss, got.Accuracy, want.Loss, want.Accuracy)
				}
				for i := range wantOut {
					if !about(out[i], wantOut[i], 8*0x1p-23) { // sums of 8 products, grouped by the tile that a batch gets
						t.Fatalf("evaluation batch %d: output %d is %v, want %v", rows, i, out[i], wantOut[i])
					}
				}
				if err := tr.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

func TestABadEvaluationBatchIsRefused(t *testing.T) {
	for _, rows := range []int{-1, 1 << 40} {
		_, err := trainer.New(t.Context(), small, trainer.Options{Device: openCPU(t), Batch: 8, EvalBatch: rows, Fields: samples(t, 8, 4, 3).Fields()})
		if !errors.Is(err, trainer.ErrOption) {
			t.Errorf("evaluation batch %d: got %v, want %v", rows, err, trainer.ErrOption)
		}
	}
}
