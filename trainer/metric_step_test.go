package trainer_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// The metrics of the steps of an epoch add up to those of Fit, with the same bits; their accuracy
// is that of the step.
func TestStepsHaveTheMetricsOfTheirBatches(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 21, 4, 3) // the last batch is short
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.Adam{}, TrainMetrics: true}
		want := fit(t, made(t, measured, opt), ds).Metrics
		sums := make([][]float64, len(want))
		for i, s := range stepwise(t, made(t, measured, opt), ds, func(s trainer.Step) {
			if len(s.Metrics) != len(want) {
				t.Fatalf("step %d has %d metrics, want %d", s.Step, len(s.Metrics), len(want))
			}
			for k, m := range s.Metrics {
				if sums[k] == nil {
					sums[k] = make([]float64, len(m.Sum))
				}
				for e, x := range m.Sum {
					sums[k][e] += x
				}
			}
			if m := s.Metrics[0]; math.Abs(m.Value-s.Accuracy) > 1e-7 {
				t.Errorf("step %d: accuracy %v, its metric %v", s.Step, s.Accuracy, m.Value)
			}
		}) {
			if i == 2 && s.Samples != 5 {
				t.Errorf("the last batch has %d rows, want 5", s.Samples)
			}
		}
		for k, m := range want {
			if got := fmt.Sprint(sums[k]); got != fmt.Sprint(m.Sum) {
				t.Errorf("%s: the sums of all steps are %v, those of Fit %v", m.Name, got, m.Sum)
			}
		}
		opt.TrainMetrics = false
		for _, s := range stepwise(t, made(t, measured, opt), ds, nil) {
			if s.Metrics != nil {
				t.Errorf("without TrainMetrics: %+v", s.Metrics)
			}
		}
	})
}

// A step on a batch of the caller's has them, too, and allocates nothing.
func TestAStepOfTheCallersBatchHasMetrics(t *testing.T) {
	dev := openCPU(t)
	ds := samples(t, 8, 4, 3)
	opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.Adam{}, TrainMetrics: true}
	want := fit(t, made(t, measured, opt), ds).Metrics
	tr, x := made(t, measured, opt), fieldOf(t, ds, 0)
	var y []uint8
	for i := range 8 {
		row := [][]byte{make([]byte, 16), make([]byte, 1)}
		if err := ds.Fetch(t.Context(), dataloader.At{Index: i}, row); err != nil {
			t.Fatal(err)
		}
		y = append(y, row[1][0])
	}
	b := trainer.Batch{Rows: 8, Fill: func(f trainer.Fields) error {
		copy(f.Float32("x"), x)
		copy(f.Uint8("y"), y)
		return nil
	}}
	for k, m := range step(t, tr, b).Metrics {
		if m.Name != want[k].Name || !about(m.Value, want[k].Value, 1e-6) && !math.IsNaN(want[k].Value) {
			t.Errorf("%s is %v, that of Fit %v", m.Name, m.Value, want[k].Value)
		}
	}
	if n := testing.AllocsPerRun(50, func() { _, _ = tr.Step(t.Context(), b) }); n >= 1 {
		t.Errorf("%v heap objects a step", n)
	}
}

// A window of Trainer.Step that goes on after a restore has the metrics of its steps, too.
func TestStepsOfARestoredWindowHaveMetrics(t *testing.T) {
	dev := openCPU(t)
	ds := samples(t, 16, 4, 3)
	opt := trainer.Options{Device: dev, Batch: 8, Accumulate: 2, Fields: ds.Fields(), Optimizer: optim.Adam{}, TrainMetrics: true, Checkpoint: true}
	first, second := made(t, measured, opt), made(t, measured, opt)
	step(t, first, rowsOf(t, ds, 0, 8))
	restore(t, second, save(t, first))
	want, got := step(t, first, rowsOf(t, ds, 8, 16)).Metrics, step(t, second, rowsOf(t, ds, 8, 16)).Metrics
	if len(want) == 0 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("metrics %v, want %v", got, want)
	}
}
