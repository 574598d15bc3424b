package trainer_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// averagedOutputs returns what the averages of a trainer predict.
func averagedOutputs(t testing.TB, tr *trainer.Trainer, ds dataloader.Dataset) (all []float64) {
	t.Helper()
	for p, err := range tr.Averaged().Predict(t.Context(), ds) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p.Output...)
	}
	return all
}

func TestAPredictorOfAveragesComputesWhatTheAveragedTrainerDoes(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 48, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 16, Fields: ds.Fields(), Frozen: []string{"hidden/b"},
			Average: optim.Average{Decay: 0.9}}
		if !dev.Unified() {
			opt.Offload = offloaded // the averages are in host memory
		}
		tr := made(t, small, opt)
		p := predictor(t, small, trainer.PredictorOptions{Device: dev, Batch: 16})
		other := cputest.Open(t, cpu.Options{})
		t.Cleanup(func() { other.Close() })
		elsewhere := predictor(t, small, trainer.PredictorOptions{Device: other, Batch: 16})
		x := fieldOf(t, ds, 0)
		for range 2 {
			fit(t, tr, ds)
			if err := errors.Join(p.LoadAveraged(t.Context(), tr.Averaged()), elsewhere.LoadAveraged(t.Context(), tr.Averaged())); err != nil {
				t.Fatal(err)
			}
			want := averagedOutputs(t, tr, ds)
			if slices.Equal(want, outputs(t, tr, ds)) {
				t.Fatal("the averages are the parameters")
			}
			for b := range 3 {
				equalTo(t, "full batch", predict(t, p, 16, x[b*64:(b+1)*64]), want[b*48:(b+1)*48])
			}
			got := predict(t, elsewhere, 16, x[:64])
			for i := range got {
				if !about(float64(got[i]), want[i], 1e-5) {
					t.Fatalf("another device: number %d is %v, want %v", i, got[i], want[i])
				}
			}
		}
		plain := made(t, small, trainer.Options{Device: dev, Batch: 16, Fields: ds.Fields()})
		if err := p.LoadAveraged(t.Context(), plain.Averaged()); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("without averages: got %v, want ErrOption", err)
		}
		if err := p.LoadAveraged(t.Context(), trainer.Averaged{}); !errors.Is(err, trainer.ErrClosed) {
			t.Errorf("the averages of no trainer: got %v, want ErrClosed", err)
		}
	})
}
