package trainer

import (
	"context"
	"fmt"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// TestEveryShorterBatchFitsInTheScratchOfTheFullOne compiles what a short last batch would run, for every length that it can have.
func TestEveryShorterBatchFitsInTheScratchOfTheFullOne(t *testing.T) {
	t.Parallel()
	nets := [][]int{{784, 512, 256, 10}, {16, 1, 3}, {5, 700, 2}, {1, 1, 2}}
	batches, threads := []int{32, 64, 128}, []int{1, 2, 3, 4, 16}
	if testing.Short() {
		batches, threads = []int{64}, []int{2, 3}
	}
	for _, widths := range nets {
		for _, n := range threads {
			device := cputest.Open(t, cpu.Options{Threads: n})
			defer device.Close()
			for _, batch := range batches {
				t.Run(fmt.Sprintf("%v/threads=%d/batch=%d", widths, n, batch), func(t *testing.T) {
					checkTails(t, widths, Options{Device: device, Batch: batch, Optimizer: optim.Adam{}, Fields: []dataloader.Field{
						{Name: "x", Type: arena.Uint8, Shape: []int{widths[0]}, Scale: 1.0 / 255}, {Name: "y", Type: arena.Uint8}}})
				})
			}
		}
	}
}

func checkTails(t *testing.T, widths []int, opt Options) {
	ctx := context.Background()
	b, err := newPlanned(ctx, func(g *gorgonia.ExprGraph, batch int) (Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, widths[0])
		h := x
		for i, w := range widths[1 : len(widths)-1] {
			h = net.Dense(h, fmt.Sprint("hidden", i), w, layers.ReLU)
		}
		return net.Classifier(x, net.Dense(h, "out", widths[len(widths)-1], nil))
	}, opt, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []compile.Mode{compile.Train, compile.Predict} {
		full := b.programs[programKey{mode: mode, rows: opt.Batch, dataset: streamed}]
		for rows := 1; rows < opt.Batch; rows++ {
			p, err := b.compile(ctx, programKey{mode: mode, rows: rows, dataset: streamed}, full)
			if err != nil {
				t.Fatalf("%v %d: %v", mode, rows, err)
			}
			if p.Plan.Bytes > b.scratch {
				t.Errorf("%v %d needs %d bytes of scratch, a batch of %d has %d", mode, rows, p.Plan.Bytes, opt.Batch, b.scratch)
			}
		}
	}
}
