package trainer_test

import (
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Devices add in other orders and have functions of their own, so their losses drift apart: by 1e-4 at most in 20 steps. Masks of dropout
// are the same, or the losses would differ in their second digit.
func TestDevicesLearnAlike(t *testing.T) {
	ds := samples(t, 40, 2*8*8, 3)
	losses := func(t *testing.T, dev kernels.Device) (all []float64) {
		tr := made(t, everyLayer, trainer.Options{Device: dev, Batch: 8, Seed: 3, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 0.01}})
		for range 4 {
			all = append(all, fit(t, tr, ds).Loss)
		}
		return all
	}
	want := losses(t, openCPU(t))
	each(t, func(t *testing.T, dev kernels.Device) {
		for epoch, got := range losses(t, dev) {
			if !(math.Abs(got-want[epoch]) <= 1e-4*want[epoch]) {
				t.Errorf("epoch %d: loss %v, on the host %v", epoch, got, want[epoch])
			}
		}
	})
}
