package trainer_test

import (
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// alike returns the losses of four epochs of a network of every layer.
func alike(t *testing.T, dev kernels.Device) (losses []float64) {
	t.Helper()
	ds := samples(t, 40, 2*8*8, 3)
	tr := made(t, everyLayer, trainer.Options{Device: dev, Batch: 8, Seed: 3, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 0.01}})
	for range 4 {
		losses = append(losses, fit(t, tr, ds).Loss)
	}
	return losses
}

// sameLosses demands that losses of epochs differ by no more than tolerance, relative to those of the host.
func sameLosses(t *testing.T, got, want []float64, tolerance float64) {
	t.Helper()
	for epoch := range want {
		if !(math.Abs(got[epoch]-want[epoch]) <= tolerance*want[epoch]) {
			t.Errorf("epoch %d: loss %v, on the host %v", epoch, got[epoch], want[epoch])
		}
	}
}

// Devices add in other orders and have functions of their own, so their losses drift apart: by 1e-4 at most in 20 steps. Masks of dropout
// are the same, or the losses would differ in their second digit.
func TestDevicesLearnAlike(t *testing.T) {
	want := alike(t, openCPU(t))
	each(t, func(t *testing.T, dev kernels.Device) { sameLosses(t, alike(t, dev), want, 1e-4) })
}
