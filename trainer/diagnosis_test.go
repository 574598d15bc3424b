package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// wordNet classifies rows of numbers x and of a word: labels, indices and numbers can all be bad.
func wordNet(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x, word := net.Input("x", batch, 4), net.Indices("word", batch)
	h, e := net.Dense(x, "hidden", 4, layers.ReLU), net.Embedding(word, "words", 5, 4)
	if err := net.Err(); err != nil {
		return trainer.Model{}, err
	}
	return net.Classifier(x, net.Dense(gorgonia.Must(gorgonia.Add(h, e)), "out", 3, nil))
}

// wordData are n samples for wordNet, without mistakes. Their x are positive.
func wordData(n int) (x []float32, word, y []uint8) {
	x, word, y = make([]float32, 4*n), make([]uint8, n), make([]uint8, n)
	for i := range n {
		word[i], y[i] = uint8(i%5), uint8(i%3)
		for j := range 4 {
			x[4*i+j] = float32((i+j)%7) / 4
		}
	}
	return x, word, y
}

// mixesOf calls f with the options of every mix that a diagnosis on dev must not depend on.
func mixesOf(dev kernels.Device, f func(name string, opt trainer.Options)) {
	mixes := map[string]trainer.Options{
		"guard step":  {},
		"guard each":  {Guard: trainer.GuardEach},
		"scaled loss": {LossScale: optim.Scaling{Mode: optim.ScaleAlways}},
	}
	for _, accumulate := range []int{1, 2, 4} {
		for name, opt := range mixes {
			opt.Device, opt.Batch, opt.Accumulate, opt.Sequential = dev, 4, accumulate, true
			f(fmt.Sprintf("accumulate %d, %s", accumulate, name), opt)
		}
	}
	other := trainer.Options{Device: dev, Batch: 4, Accumulate: 2, Sequential: true, Clip: optim.Clip{Norm: 1},
		Precision: arena.BFloat16, Recompute: trainer.Recompute{Layers: []string{"hidden", "out"}}, Optimizer: optim.Adam{}}
	if !dev.Unified() {
		other.Offload = trainer.Offload{State: true, Parameters: true}
	}
	f("clipped, 16 bits, recomputed, offloaded", other)
}

// A bad label, index or number is named by sample and field, in the same words, whatever the options are.
func TestADiagnosisDoesNotDependOnTheMix(t *testing.T) {
	for _, c := range []struct {
		name  string
		n     int
		spoil func(x []float32, word, y []uint8)
		class error
		want  string
	}{
		{"label", 16, func(_ []float32, _, y []uint8) { y[6] = 200 }, trainer.ErrLabel,
			`train epoch 0: step 1: sample 6: field "y" has label 200, the model has classes 0 to 2: label outside the classes`},
		{"label of the tail", 15, func(_ []float32, _, y []uint8) { y[14] = 3 }, trainer.ErrLabel,
			`train epoch 0: step 3: sample 14: field "y" has label 3, the model has classes 0 to 2: label outside the classes`},
		{"number", 16, func(x []float32, _, _ []uint8) { x[4*9+2] = float32(math.NaN()) }, trainer.ErrNonFinite,
			`train epoch 0: step 2: sample 9: field "x" has NaN at element 2: not finite`},
		{"index", 15, func(_ []float32, word, _ []uint8) { word[5] = 77 }, trainer.ErrIndex,
			`train epoch 0: step 1: sample 5: field "word": node "words/out": index 77 at 1 is not in 0..4: index outside the rows`},
	} {
		t.Run(c.name, func(t *testing.T) {
			parallel(t)
			x, word, y := wordData(c.n)
			good := columns(t, c.n, dataloader.Column("x", x, 4), dataloader.Column("word", word), dataloader.Column("y", y))
			x, word, y = wordData(c.n)
			c.spoil(x, word, y)
			bad := columns(t, c.n, dataloader.Column("x", x, 4), dataloader.Column("word", word), dataloader.Column("y", y))
			each(t, func(t *testing.T, dev kernels.Device) {
				mixesOf(dev, func(name string, opt trainer.Options) {
					opt.Fields, opt.Resident = good.Fields(), []dataloader.Dataset{bad}
					tr, err := trainer.New(t.Context(), wordNet, opt)
					if err != nil {
						t.Fatal(err)
					}
					defer tr.Close()
					for k, ds := range []dataloader.Dataset{bad, &faulty{Dataset: bad}} {
						_, err := tr.Fit(context.Background(), ds)
						if want := epochOf(c.want, k); !errors.Is(err, c.class) || err.Error() != want {
							t.Errorf("%s, dataset %d: got\n%v\nwant\n%v", name, k, err, want)
						}
					}
					fit(t, tr, good) // nothing is left of the failures
				})
			})
		})
	}
}

// epochOf returns a message about epoch 0 as one about epoch k.
func epochOf(message string, k int) string {
	return strings.Replace(message, "epoch 0", fmt.Sprint("epoch ", k), 1)
}

// A number that decoding makes infinite is named as it is stored.
func TestAnOverflowWhileDecodingNamesTheStoredValue(t *testing.T) {
	y := make([]uint8, 8)
	bytes, wide := make([]uint8, 32), make([]float64, 32)
	bytes[4*5+1], wide[4*5+1] = 255, -1e300
	for _, c := range []struct {
		name string
		x    dataloader.Array
		want string
	}{
		{"scaled bytes", dataloader.Column("x", bytes, 4).Scaled(1e37, 0), "has 255 at element 1, which its scale and shift decode to +Inf"},
		{"float64", dataloader.Column("x", wide, 4), "has -1e+300 at element 1, which its scale and shift decode to -Inf"},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, dev kernels.Device) {
				ds := columns(t, 8, c.x, dataloader.Column("y", y))
				for _, accumulate := range []int{1, 2} {
					tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Accumulate: accumulate, Fields: ds.Fields(),
						Resident: []dataloader.Dataset{ds}, Sequential: true})
					for k, from := range []dataloader.Dataset{ds, &faulty{Dataset: ds}} {
						_, err := tr.Fit(context.Background(), from)
						want := fmt.Sprintf(`train epoch %d: step 1: sample 5: field "x" %s: not finite`, k, c.want)
						var e *trainer.NonFiniteError
						if !errors.As(err, &e) || err.Error() != want || !e.Decoded || e.Sample != 5 || e.Label != "x" || e.Index != 1 {
							t.Errorf("accumulate %d, dataset %d: got\n%v\nwant\n%v", accumulate, k, err, want)
						}
					}
				}
			})
		})
	}
}

// Several labels in a sample: the position is that in the sample, also where the model reshapes them.
func TestALabelAmongSeveralIsNamedByItsPosition(t *testing.T) {
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x, y := net.Input("x", batch, 3, 4), net.Indices("y", batch, 3)
		if err := net.Err(); err != nil {
			return trainer.Model{}, err
		}
		rows := gorgonia.Must(gorgonia.Reshape(x, []int{batch * 3, 4}))
		labels := gorgonia.Must(gorgonia.Reshape(y, []int{batch * 3}))
		logits := net.Dense(rows, "out", 5, nil)
		ce := net.CrossEntropy(logits, labels, "rows")
		if err := net.Err(); err != nil {
			return trainer.Model{}, err
		}
		loss, err := gorgonia.Mean(ce)
		return trainer.Model{Inputs: net.Inputs(), Output: logits, Loss: loss, Params: net.Params()}, err
	}
	each(t, func(t *testing.T, dev kernels.Device) {
		y := make([]uint8, 24)
		y[3*6+2] = 9
		ds := columns(t, 8, dataloader.Column("x", make([]float32, 96), 3, 4), dataloader.Column("y", y, 3))
		tr := made(t, model, trainer.Options{Device: dev, Batch: 2, Accumulate: 4, Fields: ds.Fields(), Sequential: true})
		_, err := tr.Fit(context.Background(), ds)
		const want = `train epoch 0: step 3: sample 6: field "y" has label 9 at element 2, the model has classes 0 to 4: label outside the classes`
		var e *trainer.NonFiniteError
		if !errors.As(err, &e) || err.Error() != want || e.Sample != 6 || e.Index != 2 {
			t.Errorf("got\n%v\nwant\n%v", err, want)
		}
	})
}

// functionNet is loss = mean f(w·x), with w at 1.
func functionNet(f func(*gorgonia.Node) (*gorgonia.Node, error)) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 1)
		w := net.Param("root/w", layers.Ones{}, 1, 1)
		if err := net.Err(); err != nil {
			return trainer.Model{}, err
		}
		y := gorgonia.Must(f(gorgonia.Must(gorgonia.Mul(x, w))))
		gorgonia.WithName("root/f")(y)
		loss, err := gorgonia.Mean(y)
		return trainer.Model{Inputs: net.Inputs(), Output: y, Loss: loss, Params: net.Params()}, err
	}
}

// rootNet is loss = mean √(w·x): finite at x = 0, where its gradient is not.
var rootNet = functionNet(gorgonia.Sqrt)

// weightedRows returns a model of functionNet whose rows have weights, the field "w".
func weightedRows(f func(*gorgonia.Node) (*gorgonia.Node, error)) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		m, err := functionNet(f)(g, batch)
		if err != nil {
			return m, err
		}
		net := layers.New(g)
		w := net.Input("w", batch)
		m.Loss, m.Weight, m.Inputs = net.Reshape(m.Output, "rows", batch), w, append(m.Inputs, w)
		return m, net.Err()
	}
}

// A step whose loss is finite and whose gradient is not: the window's last step finds it, and the error is that of the step that made it.
func TestAGradientOfAnEarlierStepIsNamedAsWithoutAWindow(t *testing.T) {
	for _, c := range []struct {
		name     string
		model    trainer.ModelFunc
		weighted bool
		bad      float32 // of sample 5
		want     string
	}{
		{"operation", rootNet, false, 0, `step 2: div "droot/f" made +Inf at element 1: not finite`},
		{"data", functionNet(gorgonia.Rectify), false, float32(math.Inf(-1)), `step 2: sample 5: field "x" has -Inf at element 0: not finite`},
		{"operation, weighted", weightedRows(gorgonia.Sqrt), true, 0, `step 2: div "droot/f" made +Inf at element 1: not finite`},
		{"data, weighted", weightedRows(gorgonia.Rectify), true, float32(math.Inf(-1)), `step 2: sample 5: field "x" has -Inf at element 0: not finite`},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, dev kernels.Device) {
				x := []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
				w := []float32{1, 2, 1, 3, 1, 1, 0, 0, 1, 1, 0, 0} // of some last steps of windows: none
				data := func(x []float32) dataloader.Dataset {
					cols := []dataloader.Array{dataloader.Column("x", slices.Clone(x), 1)}
					if c.weighted {
						cols = append(cols, dataloader.Column("w", w))
					}
					return columns(t, len(x), cols...)
				}
				good := data(x)
				x[5] = c.bad
				ds := data(x)
				for _, accumulate := range []int{1, 2, 3, 4, 6} {
					for _, guard := range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
						tr := made(t, c.model, trainer.Options{Device: dev, Batch: 2, Accumulate: accumulate, Guard: guard, Fields: ds.Fields(),
							Resident: []dataloader.Dataset{ds}, Sequential: true, Optimizer: optim.SGD{Rate: 1.1e-19}})
						for k, from := range []dataloader.Dataset{ds, &faulty{Dataset: ds}} {
							_, err := tr.Fit(context.Background(), from)
							if want := fmt.Sprintf("train epoch %d: %s", k, c.want); !errors.Is(err, trainer.ErrNonFinite) || err.Error() != want {
								t.Errorf("accumulate %d, guard %d, dataset %d: got %v, want %s", accumulate, guard, k, err, want)
							}
						}
						fit(t, tr, good)
					}
				}
			})
		})
	}
}

// What is left to say if the samples of the earlier steps cannot be fetched again.
func TestAGradientOfSamplesThatAreGoneIsNamed(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := columns(t, 4, dataloader.Column("x", []float32{1, 0, 3, 4}, 1))
		for name, again := range map[string]func() error{
			"error": func() error { return errors.New("read once only") },
			"panic": func() error { panic("read once only") },
		} {
			var fetched [4]atomic.Bool
			once := &faulty{ds, func(_ context.Context, at dataloader.At) error {
				if fetched[at.Index].Swap(true) {
					return again()
				}
				return nil
			}}
			tr := made(t, rootNet, trainer.Options{Device: dev, Batch: 2, Accumulate: 2, Fields: ds.Fields(), Sequential: true})
			_, err := tr.Fit(context.Background(), once)
			if want := `train epoch 0: step 1: gradient of "root/w", added up over 2 steps: not finite`; fmt.Sprint(err) != want {
				t.Errorf("%s: got %v, want %s", name, err, want)
			}
		}
	})
}
