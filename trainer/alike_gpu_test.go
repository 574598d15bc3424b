//go:build gpu && cgo

package trainer_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/internal/cudatest"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cuda"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// gpu sets what the emulated GPU has, until the end of the test.
func gpu(t *testing.T, setting string, value, usual int64) {
	t.Helper()
	emulated(t)
	if err := fakecuda.Set(setting, value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fakecuda.Set(setting, usual) })
}

// Whatever a GPU's size and age, and however programs are launched, it learns what the host learns: see TestDevicesLearnAlike.
func TestGPUsOfEveryKindLearnAlike(t *testing.T) {
	want := alike(t, openCPU(t))
	for _, c := range []struct {
		capability, processors int64
		o                      cuda.Options
	}{
		{70, 80, cuda.Options{}},
		{75, 1, cuda.Options{}},
		{80, 108, cuda.Options{}},
		{89, 7, cuda.Options{Graphs: cuda.Never}},
		{90, 132, cuda.Options{Sync: true}},
		{120, 170, cuda.Options{}},
	} {
		t.Run(fmt.Sprintf("capability %d, %d processors", c.capability, c.processors), func(t *testing.T) {
			gpu(t, "capability", c.capability, 80)
			gpu(t, "processors", c.processors, 8)
			sameLosses(t, alike(t, cudatest.OpenChecked(t, c.o)), want, 1e-4)
		})
	}
}

// Products on tensor cores round their operands, to 11 or 8 bits: losses of a mean over many differ by less than one such rounding.
func TestRoundedProductsLearnAlike(t *testing.T) {
	ds := samples(t, 64, 64, 8)
	losses := func(t *testing.T, dev kernels.Device) (all []float64) {
		tr := made(t, classifier(64, 64, 8), trainer.Options{Device: dev, Batch: 16, Seed: 4, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 0.1}})
		for range 5 {
			all = append(all, fit(t, tr, ds).Loss)
		}
		return all
	}
	want := losses(t, openCPU(t))
	full := losses(t, cudatest.OpenChecked(t, cuda.Options{}))
	for _, c := range []struct {
		products  cuda.Precision
		tolerance float64
	}{{cuda.TF32, 0x1p-11}, {cuda.Float16, 0x1p-11}, {cuda.BFloat16, 0x1p-8}} {
		t.Run(c.products.String(), func(t *testing.T) {
			got := losses(t, cudatest.OpenChecked(t, cuda.Options{Products: c.products}))
			sameLosses(t, got, want, c.tolerance)
			if slices.Equal(got, full) {
				t.Error("the losses are those of products in full precision: the tensor cores were not used")
			}
		})
	}
}

// Graphs draw the masks that launches one by one draw, and the host.
func TestMasksAreTheSameInGraphs(t *testing.T) {
	masks, _ := dropped(t, openCPU(t), 7, 1)
	_, want := dropped(t, cudatest.OpenChecked(t, cuda.Options{}), 7, 1)
	for name, o := range map[string]cuda.Options{"launches": {Graphs: cuda.Never}, "one by one": {Sync: true}} {
		got, learned := dropped(t, cudatest.OpenChecked(t, o), 7, 1)
		if !slices.Equal(got, masks) || differing(want, learned) != nil {
			t.Errorf("%s: other masks, or other parameters than by graphs: %q", name, differing(want, learned))
		}
	}
}
