package trainer_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// TestFirstSteps checks every optimizer's first updates of loss = w, whose gradient is 1, from w = 2 at rate 0.1.
func TestFirstSteps(t *testing.T) {
	adam := func(t float64) float64 { return 0.1 / (1 + 1e-8) } // m and v are corrected to 1 at every step
	for _, c := range []struct {
		name string
		o    optim.Optimizer
		want []float64 // w after each update
	}{
		{"sgd", optim.SGD{Rate: 0.1}, []float64{1.9, 1.8, 1.7}},
		{"sgd with decay", optim.SGD{Rate: 0.1, Decay: 0.5}, []float64{1.8, 1.61, 1.4295}},
		{"momentum", optim.SGD{Rate: 0.1, Momentum: 0.9}, []float64{1.9, 1.71, 1.439}},
		{"nesterov", optim.SGD{Rate: 0.1, Momentum: 0.9, Nesterov: true}, []float64{1.81, 1.539, 1.1951}},
		{"rmsprop", optim.RMSProp{Rate: 0.1, Rho: 0.9, Epsilon: 1e-8}, []float64{2 - 0.1/(math.Sqrt(0.1)+1e-8)}},
		{"adam", optim.Adam{Rate: 0.1}, []float64{2 - adam(1), 2 - 2*adam(2), 2 - 3*adam(3)}},
		{"adamw", optim.AdamW{Rate: 0.1, Decay: 0.5}, []float64{2 - 0.1*0.5*2 - adam(1)}},
		{"adam in bytes", optim.Adam{Rate: 0.1, Storage: optim.Block8}, []float64{2 - adam(1)}},
		{"adamw in bytes", optim.AdamW{Rate: 0.1, Decay: 0.5, Storage: optim.Block8}, []float64{2 - 0.1*0.5*2 - adam(1)}},
		{"adam in bfloat16", optim.Adam{Rate: 0.1, Storage: optim.BFloat16}, []float64{2 - adam(1)}},
		{"adamw in bfloat16", optim.AdamW{Rate: 0.1, Decay: 0.5, Storage: optim.BFloat16}, []float64{2 - 0.1*0.5*2 - adam(1)}},
		{"lion", optim.Lion{Rate: 0.1}, []float64{1.9, 1.8, 1.7}},
		{"lion with decay", optim.Lion{Rate: 0.1, Decay: 0.5}, []float64{1.8}},
		{"adafactor", optim.Adafactor{Rate: 0.1}, []float64{1.8, 1.62, 1.458}}, // a tenth of its size each
		{"absolute adafactor", optim.Adafactor{Rate: 0.1, Absolute: true}, []float64{1.9, 1.8, 1.7}},
		{"adafactor with decay", optim.Adafactor{Rate: 0.1, Absolute: true, Decay: 0.5}, []float64{1.8}},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, dev kernels.Device) {
				ds := numbers(t, 1, 1)
				tr := made(t, scalar(2), trainer.Options{Device: dev, Batch: 2, Fields: ds.Fields(), Optimizer: c.o})
				if n := tr.Stats().Updates; n != 0 {
					t.Errorf("%d updates before the first step", n)
				}
				for i, want := range c.want {
					fit(t, tr, ds)
					if got := weight(t, tr); !about(got, want, 1e-12) {
						t.Fatalf("update %d: w = %.15g, want %.15g", i+1, got, want)
					}
					if n := tr.Stats().Updates; n != int64(i+1) {
						t.Errorf("%d updates, want %d", n, i+1)
					}
				}
			})
		})
	}
}

func TestAdamsFirstUpdateHasTheBiasOfStepOne(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := numbers(t, 1)
		tr := made(t, scalar(0), trainer.Options{Device: dev, Batch: 1, Fields: ds.Fields(), Optimizer: optim.Adam{Rate: 0.1}})
		fit(t, tr, ds)
		if got := weight(t, tr); !about(got, -0.0999999990, 1e-12) {
			t.Errorf("w = %.12f, want -0.0999999990", got)
		}
	})
}

func TestSchedulesSetTheRateOfEachUpdate(t *testing.T) {
	for _, c := range []struct {
		name  string
		s     optim.Schedule
		rates []float64 // of updates 1, 2, ... at rate 1
	}{
		{"constant", optim.Constant{}, []float64{1, 1, 1}},
		{"step", optim.Step{Every: 2, Factor: 0.5}, []float64{1, 1, 0.5, 0.5, 0.25}},
		{"warmup", optim.Warmup{Steps: 4}, []float64{0.25, 0.5, 0.75, 1, 1}},
		{"cosine", optim.Cosine{Steps: 2}, []float64{1, 0.5, 0}},
		{"warmup, then cosine", optim.Warmup{Steps: 2, Then: optim.Cosine{Steps: 2}}, []float64{0.5, 1, 1, 0.5, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, dev kernels.Device) {
				ds := numbers(t, 1)
				tr := made(t, scalar(0), trainer.Options{Device: dev, Batch: 1, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 1}, Schedule: c.s})
				var want float64
				for i, rate := range c.rates {
					fit(t, tr, ds)
					want -= rate
					if got := weight(t, tr); !about(got, want, 1e-12) {
						t.Fatalf("after update %d: w = %v, want %v", i+1, got, want)
					}
				}
			})
		})
	}
}

// pair is loss = mean(x·w) with w of two elements, so that the gradient is x of a batch of one.
func pairOf(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	net.Type = gorgonia.Float64
	x := net.Input("x", batch, 2)
	return meanProduct(net, x, net.Param("layer/w", layers.Zeros{}, 2, 1))
}

func TestClippingBoundsGradients(t *testing.T) {
	for _, c := range []struct {
		name string
		clip optim.Clip
		want [2]float64 // -w after one step of SGD at rate 1 on the gradient [3, 4]
	}{
		{"none", optim.Clip{}, [2]float64{3, 4}},
		{"norm", optim.Clip{Norm: 1}, [2]float64{0.6, 0.8}},
		{"norm that is large enough", optim.Clip{Norm: 5}, [2]float64{3, 4}},
		{"value", optim.Clip{Value: 3.5}, [2]float64{3, 3.5}},
		{"norm, then value", optim.Clip{Norm: 1, Value: 0.7}, [2]float64{0.6, 0.7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, dev kernels.Device) {
				for _, guard := range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
					ds := columns(t, 1, dataloader.Column("x", []float64{3, 4}, 2))
					tr := made(t, pairOf, trainer.Options{Device: dev, Batch: 1, Fields: ds.Fields(),
						Optimizer: optim.SGD{Rate: 1}, Clip: c.clip, Guard: guard})
					fit(t, tr, ds)
					got := outputs(t, tr, columns(t, 2, dataloader.Column("x", []float64{1, 0, 0, 1}, 2)))
					if !about(-got[0], c.want[0], 1e-12) || !about(-got[1], c.want[1], 1e-12) {
						t.Errorf("guard %d: w = %v, want -%v", guard, got, c.want)
					}
					if err := tr.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

func TestFrozenParametersKeepTheirBitsAndLeaveOthersTheirs(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 4, 4, 3)
		run := func(frozen ...string) (before, after map[string][]byte) {
			tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Keep: weights, Frozen: frozen, Sequential: true})
			before = kept(t, tr, ds, weights...)
			fit(t, tr, ds)
			return before, kept(t, tr, ds, weights...)
		}
		_, free := run()
		for _, frozen := range [][]string{{"hidden"}, {"hidden/w", "hidden/b"}, {"out/b"}, {"hidden", "out"}} {
			before, after := run(frozen...)
			for _, name := range weights {
				still := bytes.Equal(before[name], after[name])
				ours := false
				for _, f := range frozen {
					ours = ours || f == name || name[:len(name)-2] == f
				}
				switch {
				case ours && !still:
					t.Errorf("frozen %q: %q has changed", frozen, name)
				case !ours && !bytes.Equal(after[name], free[name]):
					t.Errorf("frozen %q: %q is not what one step without frozen parameters makes of it", frozen, name)
				}
			}
		}
	})
}

// eye starts a matrix as the identity.
type eye struct{}

func (eye) Fill(_ *rand.Rand, shape []int, at int, dst []float64) {
	for i := range dst {
		dst[i] = 0
		if row, column := (at+i)/shape[1], (at+i)%shape[1]; row == column {
			dst[i] = 1
		}
	}
}

func TestTheErrorOfTheIdentityIsZeroAndTeachesNothing(t *testing.T) {
	identity := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 5)
		w := net.Param("layer/w", eye{}, 5, 5)
		if err := net.Err(); err != nil {
			return trainer.Model{}, err
		}
		return net.Regressor(x, gorgonia.Must(gorgonia.Mul(x, w)))
	}
	each(t, func(t *testing.T, dev kernels.Device) {
		r, x := random(t), make([]float32, 13*5)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		ds := columns(t, 13, dataloader.Column("x", x, 5), dataloader.Column("y", x, 5))
		tr := made(t, identity, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 1}})
		before := parameters(t, tr)
		if got := []float64{fit(t, tr, ds).Loss, evaluate(t, tr, ds).Loss}; got[0] != 0 || got[1] != 0 {
			t.Errorf("losses %v, want 0", got)
		}
		if !bytes.Equal(parameters(t, tr), before) {
			t.Error("a loss of 0 has changed parameters")
		}
	})
}

func TestTrainingLearns(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 256, 8, 4)
		tr := made(t, classifier(8, 32, 4), trainer.Options{Device: dev, Batch: 32, Fields: ds.Fields(), Optimizer: optim.Adam{Rate: 0.01}})
		first := evaluate(t, tr, ds)
		for range 30 {
			fit(t, tr, ds)
		}
		if last := evaluate(t, tr, ds); last.Accuracy < 0.95 || last.Loss > first.Loss/3 {
			t.Errorf("loss %v accuracy %v, before training %v and %v", last.Loss, last.Accuracy, first.Loss, first.Accuracy)
		}
	})
}

// TestStepEqualsFloat64Reference holds small's loss and first update of SGD against a reference written out by hand.
func TestStepEqualsFloat64Reference(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 6, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Keep: weights, Optimizer: optim.SGD{Rate: 0.5}})
		p := make(map[string][]float64)
		for name, b := range kept(t, tr, ds, weights...) {
			p[name] = decoded(b)
		}
		x, y := sampleValues(t, ds)
		loss, grads := reference(p, x, y)
		// Single precision against double, over sums of at most 8 terms.
		if got := fit(t, tr, ds).Loss; !about(got, loss, 1e-6) {
			t.Errorf("loss %v, want %v", got, loss)
		}
		for name, b := range kept(t, tr, ds, weights...) {
			for i, got := range decoded(b) {
				if want := p[name][i] - 0.5*grads[name][i]; !about(got, want, 1e-6) {
					t.Errorf("%s[%d] = %v, want %v", name, i, got, want)
				}
			}
		}
	})
}

// sampleValues reads a dataset of small.
func sampleValues(t *testing.T, ds dataloader.Dataset) (x [][]float64, y []int) {
	for i := range ds.Len() {
		row, label := make([]byte, 16), make([]byte, 1)
		if err := ds.Fetch(t.Context(), dataloader.At{Index: i}, [][]byte{row, label}); err != nil {
			t.Fatal(err)
		}
		x, y = append(x, decoded(row)), append(y, int(label[0]))
	}
	return x, y
}

// reference returns small's mean loss and its gradients.
func reference(p map[string][]float64, x [][]float64, y []int) (loss float64, grads map[string][]float64) {
	grads = make(map[string][]float64)
	for name, w := range p {
		grads[name] = make([]float64, len(w))
	}
	for r, row := range x {
		h, z := make([]float64, 8), make([]float64, 3)
		for j := range h {
			h[j] = p["hidden/b"][j]
			for i, v := range row {
				h[j] += v * p["hidden/w"][i*8+j]
			}
			h[j] = max(h[j], 0)
		}
		var sum float64
		for k := range z {
			z[k] = p["out/b"][k]
			for j, v := range h {
				z[k] += v * p["out/w"][j*3+k]
			}
			sum += math.Exp(z[k])
		}
		n := float64(len(x))
		loss += (math.Log(sum) - z[y[r]]) / n
		for k := range z {
			dz := math.Exp(z[k]) / sum / n
			if k == y[r] {
				dz -= 1 / n
			}
			grads["out/b"][k] += dz
			for j, v := range h {
				grads["out/w"][j*3+k] += v * dz
				if v > 0 {
					dh := dz * p["out/w"][j*3+k]
					grads["hidden/b"][j] += dh
					for i, v := range row {
						grads["hidden/w"][i*8+j] += v * dh
					}
				}
			}
		}
	}
	return loss, grads
}

// TestNarrowStatesLearnAsFloatsDo trains beside states of float32, from the same start. Loss differs by what narrow ones lose of each step, up
// to some percent in either direction.
func TestNarrowStatesLearnAsFloatsDo(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 512, 8, 4)
		loss := func(storage optim.Storage) (before, after float64) {
			tr := made(t, classifier(8, 64, 4), trainer.Options{Device: dev, Batch: 32, Fields: ds.Fields(), Optimizer: optim.AdamW{Rate: 0.005, Storage: storage}})
			before = evaluate(t, tr, ds).Loss
			for range 20 {
				fit(t, tr, ds)
			}
			return before, evaluate(t, tr, ds).Loss
		}
		before, floats := loss(optim.Full)
		for _, storage := range []optim.Storage{optim.Block8, optim.BFloat16} {
			if _, narrow := loss(storage); !(floats < before/3) || !(narrow < 1.15*floats) || floats == narrow {
				t.Errorf("loss %v, after training %v, with storage %d %v", before, floats, storage, narrow)
			}
		}
	})
}
