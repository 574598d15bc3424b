//go:build gpu && cgo

package trainer_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/internal/cudatest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cuda"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Products by cuBLAS learn what the host learns, in an arena of exactly the plan's bytes, and the same bits each time.
func TestCuBLASLearnsInPlannedMemory(t *testing.T) {
	var missing *cuda.NoLibraryError
	if d, err := cuda.Open(cuda.Options{CuBLAS: true}); errors.As(err, &missing) {
		t.Skip(err)
	} else if err == nil {
		err = d.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	ds, model := samples(t, 45, 6, 3), classifier(6, 9, 3)
	learned := func(dev kernels.Device) (losses []float64, params []byte) {
		opt := trainer.Options{Device: dev, Batch: 8, Optimizer: optim.Adam{}, Seed: 3, Fields: ds.Fields()}
		plan, err := trainer.Plan(t.Context(), model, opt)
		if err != nil {
			t.Fatal(err)
		}
		opt.Memory = plan.Total
		tr := made(t, model, opt)
		var use, left []int64
		for range 4 {
			losses = append(losses, fit(t, tr, ds).Loss, evaluate(t, tr, ds).Loss)
			info, err := dev.Info()
			if err != nil {
				t.Fatal(err)
			}
			use, left = append(use, inUse(tr)), append(left, info.Free)
		}
		for i := range use {
			if dev.Name() == "cuda" && (use[i] != use[0] || left[i] != left[0]) {
				t.Errorf("bytes in use %v and free %v after each epoch, want one number each", use, left)
				break
			}
		}
		all, err := tr.Params()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			b := make([]byte, p.Spec.Bytes())
			if err := p.Read(b); err != nil {
				t.Fatal(err)
			}
			params = append(params, b...)
		}
		return losses, params
	}
	want, _ := learned(openCPU(t))
	got, first := learned(cudatest.OpenChecked(t, cuda.Options{CuBLAS: true}))
	_, second := learned(cudatest.OpenChecked(t, cuda.Options{CuBLAS: true, Graphs: cuda.Never}))
	for i := range want {
		if !about(got[i], want[i], 1e-4) { // 24 steps, sums in other orders: as examples are compared
			t.Errorf("losses %v on the GPU, %v on the host", got, want)
			break
		}
	}
	if !bytes.Equal(first, second) {
		t.Error("a captured step and launches one by one give different parameters")
	}
}
