package trainer_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// wideRows and wideCols are the shape of a weight whose gradient is all that a step's peak is made of.
const wideRows, wideCols = 400, 128

// summedColumns is the sum of x·w, with w at 0: dw[j, k] is the sum of column j of x, which MeanLoss permits.
func summedColumns(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, wideRows)
	w := net.Param("wide/w", layers.Zeros{}, wideRows, wideCols)
	if err := net.Err(); err != nil {
		return trainer.Model{}, err
	}
	y := gorgonia.Must(gorgonia.Mul(x, w))
	return trainer.Model{Inputs: net.Inputs(), Output: y, Loss: gorgonia.Must(gorgonia.Sum(y)), MeanLoss: true, Params: net.Params()}, nil
}

func TestABadSliceOfAGradientIsNamedByItsTrueIndexAndStopsTheRowsFromItOn(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		const bad = 300 // the row
		x := make([]float32, 2*wideRows)
		for i := range x {
			x[i] = 1
		}
		x[bad], x[wideRows+bad] = math.MaxFloat32, math.MaxFloat32 // finite, but not their sum
		ds := columns(t, 2, dataloader.Column("x", x, wideRows))
		changed := map[trainer.Guard]int{}
		for _, guard := range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
			tr := made(t, summedColumns, trainer.Options{Device: dev, Batch: 2, Fields: ds.Fields(), Guard: guard, Keep: []string{"wide/w"}})
			_, err := tr.Fit(context.Background(), ds)
			var e *trainer.NonFiniteError
			if !errors.As(err, &e) || e.Op != "matmul" || e.Index != bad*wideCols || !math.IsInf(e.Value, 1) || e.Label != "dwide/w" {
				t.Fatalf("guard %d: got %v, want +Inf at element %d of the gradient of wide/w", guard, err, bad*wideCols)
			}
			w := dataloader.View[float32]([]byte(kept(t, tr, ds, "wide/w")["wide/w"]))
			for i, v := range w {
				if v == 0 {
					changed[guard] = i / wideCols
					break
				}
			}
			for i, v := range w[changed[guard]*wideCols:] {
				if v != 0 {
					t.Errorf("guard %d: row %d changed, row %d did not", guard, changed[guard]+i/wideCols, changed[guard])
					break
				}
			}
		}
		if got := changed[trainer.GuardStep]; got != 0 {
			t.Errorf("GuardStep: %d rows changed, want 0", got)
		}
		if got := changed[trainer.GuardEach]; got <= 0 || got > bad {
			t.Errorf("GuardEach: %d rows changed, want those of the slices before row %d", got, bad)
		}
	})
}
