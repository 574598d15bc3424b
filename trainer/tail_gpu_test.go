//go:build gpu && cgo

package trainer

import (
	"fmt"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
	"github.com/evenkeel/evenkeel/kernels/cuda"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Workspaces of GPU kernels depend on the number of multiprocessors. A short batch fits on any.
func TestEveryShorterBatchFitsOnAGPUOfAnySize(t *testing.T) {
	processors, batches := []int64{1, 7, 8, 46, 108, 132}, []int{32, 64, 128}
	if testing.Short() {
		processors, batches = []int64{7, 108}, []int{64}
	}
	if !fakecuda.Loaded() {
		processors = []int64{0} // as many as there are
	}
	for _, n := range processors {
		if n > 0 {
			if err := fakecuda.Set("processors", n); err != nil {
				t.Fatal(err)
			}
			defer fakecuda.Set("processors", 8)
		}
		dev, err := cuda.Open(cuda.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		for _, widths := range [][]int{{784, 512, 256, 10}, {16, 1, 3}, {5, 700, 2}, {1, 1, 2}} {
			for _, batch := range batches {
				t.Run(fmt.Sprintf("%v/processors=%d/batch=%d", widths, n, batch), func(t *testing.T) {
					checkTails(t, widths, Options{Device: dev, Batch: batch, Optimizer: optim.Adam{}, Fields: []dataloader.Field{
						{Name: "x", Type: arena.Uint8, Shape: []int{widths[0]}, Scale: 1.0 / 255}, {Name: "y", Type: arena.Uint8}}})
				})
			}
		}
	}
}
