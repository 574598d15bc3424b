package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// everyLayer is a network for images of 2×8×8 with a layer of each kind.
func everyLayer(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 2, 8, 8)
	c := three
	c.Out = 4
	h := net.MaxPool(net.Conv(x, "conv", c, layers.ReLU), "max", halve)
	h = net.Residual(h, "block", func(x *gorgonia.Node) *gorgonia.Node {
		c := three
		c.Out, c.NoBias, c.Stride = 6, true, layers.Square(2)
		return net.BatchNorm(net.Conv(x, "block/conv", c, nil), "block/bn", nil)
	}, layers.ReLU)
	h = net.GroupNorm(h, "groups", 2)
	h = net.AvgPool(h, "average", layers.Pool{Kernel: layers.Square(2), Stride: layers.Square(1)})
	h = net.Dropout(h, "drop", 0.1)
	h = net.LayerNorm(net.GlobalAvgPool(h, "mean"), "rows")
	return net.Classifier(x, net.Dense(h, "out", 3, nil))
}

func TestANetworkOfEveryLayerLearnsInFlatMemory(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 37, 2*8*8, 3)
		tr := made(t, everyLayer, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.Adam{Rate: 0.01}})
		want := inUse(tr)
		first := fit(t, tr, ds)
		var last trainer.Result
		for range 30 {
			last = fit(t, tr, ds)
			evaluate(t, tr, ds)
			outputs(t, tr, ds)
			if got := inUse(tr); got != want {
				t.Fatalf("%d bytes in use, %d at the start", got, want)
			}
		}
		if !(last.Loss < first.Loss*0.7) {
			t.Errorf("the loss went from %v to %v", first.Loss, last.Loss)
		}
		for _, p := range tr.Plan().Programs {
			if len(p.Fallbacks) > 0 {
				t.Errorf("%s falls back: %q", p.Name, p.Fallbacks)
			}
		}
	})
}

// Every call of such a network stays within its operands, at every batch.
func TestANetworkOfEveryLayerWritesNothingOutsideOfItsBuffers(t *testing.T) {
	ds := samples(t, 11, 2*8*8, 3)
	for batch := 2; batch <= 7; batch++ {
		tail := 11 % batch
		if tail == 1 {
			continue
		}
		tr := made(t, everyLayer, trainer.Options{Device: openCPU(t), Batch: batch, Fields: ds.Fields(), Debug: true})
		fit(t, tr, ds)
		evaluate(t, tr, ds)
		outputs(t, tr, ds)
	}
}

// What a network has learned does not depend on the number of rows that are evaluated at once.
func TestPredictionsAreTheSameInBatchesOfAnySize(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 23, 2*8*8, 3)
		var want []float64
		for _, rows := range []int{4, 1, 7, 23} {
			tr := made(t, everyLayer, trainer.Options{Device: dev, Batch: 4, EvalBatch: rows, Fields: ds.Fields(), Sequential: true})
			fit(t, tr, ds)
			got := outputs(t, tr, ds)
			if want == nil {
				want = got
			}
			// Sums over rows of other lengths may be cut at other places: a few float32 roundings of values of about 1.
			if !slices.EqualFunc(got, want, func(a, b float64) bool { return about(a, b, 1e-5) }) {
				t.Errorf("batches of %d: %v, want %v", rows, got[:6], want[:6])
			}
		}
	})
}

// words is the mean of the embeddings of three words, classified.
func words(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Indices("x", batch, 3)
	h := net.Flatten(net.Embedding(x, "embedding", 5, 4), "flat")
	return net.Classifier(x, net.Dense(h, "out", 2, nil))
}

func TestAnIndexOutsideOfItsTableStopsTheStepByName(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		text := func(last uint8) *dataloader.Slices {
			x := []uint8{0, 1, 2, 3, 4, 0, 1, 1, 1, 2, 2, last}
			return columns(t, 4, dataloader.Column("x", x, 3), dataloader.Column("y", []uint8{0, 1, 0, 1}))
		}
		good, bad := text(3), text(5)
		tr := made(t, words, trainer.Options{Device: dev, Batch: 2, Fields: good.Fields(), Optimizer: optim.Adam{Rate: 0.05}, Sequential: true})
		first := fit(t, tr, good)
		before := tr.Stats().Updates
		_, err := tr.Fit(context.Background(), bad)
		for _, want := range []string{"step 1", "embedding/rows", "index 5 at 5", "0..4"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q in it", err, want)
			}
		}
		var e *trainer.IndexError
		if !errors.As(err, &e) || !errors.Is(err, trainer.ErrIndex) || e.Sample != 3 || e.At != 2 || e.Index != 5 || e.Rows != 5 {
			t.Errorf("got %v, want index 5 of sample 3, at 2", err)
		}
		for _, err = range tr.Predict(context.Background(), bad) {
		}
		if !errors.As(err, &e) || e.Sample != 3 {
			t.Errorf("predicted: got %v, want sample 3", err)
		}
		if _, err := tr.Evaluate(context.Background(), bad); !errors.As(err, &e) || e.Sample != 3 || !strings.Contains(err.Error(), "step 1") {
			t.Errorf("evaluated: got %v, want sample 3 in step 1", err)
		}
		evaluate(t, tr, good)
		if got := tr.Stats().Updates - before; got != 1 {
			t.Errorf("%d updates, want that of the first batch", got)
		}
		var last trainer.Result
		for range 30 {
			last = fit(t, tr, good)
		}
		if !(last.Loss < first.Loss/2) {
			t.Errorf("the loss went from %v to %v", first.Loss, last.Loss)
		}
	})
}

// However many steps are in flight, it is the step with the bad index that ends, after the updates of those before it.
func TestABadIndexEndsItsOwnStep(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		const bad = 17
		x, y := make([]uint8, 24*3), make([]uint8, 24)
		for i := range x {
			x[i] = uint8(i % 5)
		}
		good := columns(t, 24, dataloader.Column("x", slices.Clone(x), 3), dataloader.Column("y", y))
		x[3*bad+1] = 9
		ds := columns(t, 24, dataloader.Column("x", x, 3), dataloader.Column("y", y))
		for _, guard := range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
			tr := made(t, words, trainer.Options{Device: dev, Batch: 2, Fields: ds.Fields(), Resident: []dataloader.Dataset{ds}, Sequential: true, Guard: guard})
			for _, from := range []dataloader.Dataset{ds, &faulty{Dataset: ds}} { // resident, then streamed
				before, steps := tr.Stats().Updates, bad/2
				res, err := tr.Fit(context.Background(), from)
				var e *trainer.IndexError
				if !errors.As(err, &e) || e.Sample != bad || e.At != 1 || e.Index != 9 || !strings.Contains(err.Error(), fmt.Sprint("step ", steps)) {
					t.Errorf("guard %d: got %v, want index 9 of sample %d in step %d", guard, err, bad, steps)
				}
				if n := tr.Stats().Updates - before; n != int64(steps) || res.Steps != steps {
					t.Errorf("guard %d: %d updates in %d steps, want %d", guard, n, res.Steps, steps)
				}
				if res := fit(t, tr, good); res.Steps != 12 {
					t.Errorf("guard %d: after the error: %+v", guard, res)
				}
			}
		}
	})
}

func TestAllTailsOfANetworkOfEveryLayerRunInTheMemoryOfTheFullBatch(t *testing.T) {
	tails := func(t *testing.T, dev kernels.Device, step int) {
		const batch = 33
		fields := samples(t, 1, 2*8*8, 3).Fields()
		tr := made(t, everyLayer, trainer.Options{Device: dev, Batch: batch, Fields: fields})
		for tail := 2; tail < batch; tail += step {
			ds := samples(t, tail, 2*8*8, 3)
			if got := fit(t, tr, ds); got.Samples != tail {
				t.Errorf("trained on %d of %d", got.Samples, tail)
			}
			evaluate(t, tr, ds)
		}
	}
	for threads := 1; threads <= 4; threads++ {
		t.Run(fmt.Sprint(threads, " threads"), func(t *testing.T) { tails(t, cputest.OpenChecked(t, cpu.Options{Threads: threads}), 1) })
	}
	each(t, func(t *testing.T, dev kernels.Device) {
		step := 1
		if testing.Short() {
			step = 6
		}
		tails(t, dev, step)
	})
}

// gorgoniaNet is a network of Gorgonia's own convolution, batch normalization, rectifier, pooling and dropout.
func gorgoniaNet(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 2, 8, 8)
	k := net.Param("conv/k", layers.HeUniform{}, 4, 2, 3, 3)
	gamma, beta := net.Param("bn/gamma", layers.Ones{}, 1, 4, 1, 1), net.Param("bn/beta", layers.Zeros{}, 1, 4, 1, 1)
	if err := net.Err(); err != nil {
		return trainer.Model{}, err
	}
	h := gorgonia.Must(gorgonia.Conv2d(x, k, tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1}))
	h, _, _, _, err := gorgonia.BatchNorm(h, gamma, beta, 0.1, 1e-5)
	if err != nil {
		return trainer.Model{}, err
	}
	h = gorgonia.Must(gorgonia.MaxPool2D(gorgonia.Must(gorgonia.Rectify(h)), tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
	h = gorgonia.Must(gorgonia.Dropout(net.Flatten(h, "flat"), 0.1))
	return net.Classifier(x, net.Dense(h, "out", 3, nil))
}

func TestGorgoniasOwnConvolutionalNetworkTrainsOnOurKernels(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 37, 2*8*8, 3)
		tr := made(t, gorgoniaNet, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.Adam{Rate: 0.01}})
		start := learned(t, tr)
		first := fit(t, tr, ds)
		var last trainer.Result
		for range 20 {
			last = fit(t, tr, ds)
		}
		if !(last.Loss < first.Loss/2) {
			t.Errorf("the loss went from %v to %v", first.Loss, last.Loss)
		}
		trained := learned(t, tr)
		if got := differing(start, trained); len(got) != len(start) || len(got) != 7 {
			t.Errorf("training changed %q of %d", got, len(start))
		}
		if got := evaluate(t, tr, ds); !(got.Loss < first.Loss) || differing(trained, learned(t, tr)) != nil {
			t.Errorf("evaluation: %+v, changed %q", got, differing(trained, learned(t, tr)))
		}
		for _, p := range tr.Plan().Programs {
			if len(p.Fallbacks) > 0 {
				t.Errorf("%s falls back: %q", p.Name, p.Fallbacks)
			}
		}
	})
}
