package trainer_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// linear is loss = x·w for a batch of one row of n elements: the gradient of w, which starts at 0, is
// the row.
func linear(n int, typ tensor.Dtype) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		net.Type = typ
		x, w := net.Input("x", batch, n), net.Param("layer/w", layers.Constant{}, n, 1)
		if err := net.Err(); err != nil {
			return trainer.Model{}, err
		}
		xw, err := gorgonia.Mul(x, w)
		if err != nil {
			return trainer.Model{}, err
		}
		loss, err := gorgonia.Mean(xw)
		return trainer.Model{Inputs: net.Inputs(), Output: xw, Loss: loss, Params: net.Params()}, err
	}
}

// moved returns w after one update by each row of gradients.
func moved(t *testing.T, dev kernels.Device, o optim.Optimizer, clip optim.Clip, rows [][]float32) []float64 {
	t.Helper()
	n := len(rows[0])
	var x []float32
	for _, row := range rows {
		x = append(x, row...)
	}
	ds := columns(t, len(rows), dataloader.Column("x", x, n))
	tr := made(t, linear(n, tensor.Float32), trainer.Options{Device: dev, Batch: 1, Fields: ds.Fields(), Optimizer: o, Clip: clip, Sequential: true})
	fit(t, tr, ds)
	ps, err := tr.Params()
	if err != nil {
		t.Fatal(err)
	}
	b, w := make([]byte, 4*n), make([]float64, n)
	if err := ps[0].Read(b); err != nil {
		t.Fatal(err)
	}
	kernels.Load(w, arena.Float32, b)
	return w
}

// adamPath is how far Adam in float64 moves an element by gradients g.
func adamPath(o optim.Adam, g func(t int) float64, updates int) (p float64) {
	var m, v float64
	for t := 1; t <= updates; t++ {
		x := g(t)
		m, v = o.Beta1*m+(1-o.Beta1)*x, o.Beta2*v+(1-o.Beta2)*x*x
		if v > 0 {
			p -= o.Rate * m / (1 - math.Pow(o.Beta1, float64(t))) / (math.Sqrt(v/(1-math.Pow(o.Beta2, float64(t)))) + o.Epsilon)
		}
	}
	return p
}

// TestAHugeGradientFreezesNoElement: of gradients of 1 the third is 1e21, whose square is no float32.
func TestAHugeGradientFreezesNoElement(t *testing.T) {
	outlier := func(t int) float64 {
		if t == 3 {
			return 1e21
		}
		return 1
	}
	usual := optim.Adam{Rate: 0.01, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
	fast := usual
	fast.Beta2 = 0.9
	with := func(a optim.Adam, s optim.Storage) optim.Adam {
		a.Storage = s
		return a
	}
	rms := func(updates int) (p float64) {
		for s, t := 0.0, 1; t <= updates; t++ {
			s = 0.9*s + 0.1*outlier(t)*outlier(t)
			p -= 0.01 * outlier(t) / (math.Sqrt(s) + 1e-8)
		}
		return p
	}
	factors := func(updates int) (p float64) {
		for s, t := 0.0, 1; t <= updates; t++ {
			fresh := math.Pow(float64(t), -0.8)
			s = (1-fresh)*s + fresh*outlier(t)*outlier(t)
			p -= 0.01 * min(1, outlier(t)/math.Sqrt(s))
		}
		return p
	}
	const many, some = 8003, 2000 // updates; of the fast ones 900 forget the outlier
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, c := range []struct {
			name    string
			o       optim.Optimizer
			updates int
			want    float64
			off     float64 // relative
		}{
			{"usual adam", usual, many, adamPath(usual, outlier, many), 0.01},
			{"adam", fast, some, adamPath(fast, outlier, some), 0.1}, // a limited square is forgotten earlier
			{"adamw", optim.AdamW{Rate: 0.01, Beta2: 0.9, Decay: 1e-9}, some, adamPath(fast, outlier, some), 0.1},
			{"adam16", with(fast, optim.BFloat16), some, adamPath(fast, outlier, some), 0.1},
			{"rmsprop", optim.RMSProp{Rate: 0.01, Rho: 0.9, Epsilon: 1e-8}, some, rms(some), 0.1},
			{"adafactor", optim.Adafactor{Rate: 0.01, Absolute: true}, some, factors(some), 0.01},
		} {
			rows := make([][]float32, c.updates)
			for i := range rows {
				rows[i] = []float32{float32(outlier(i + 1))}
			}
			if got := moved(t, dev, c.o, optim.Clip{}, rows)[0]; !(math.Abs(got-c.want) <= c.off*math.Abs(c.want)) {
				t.Errorf("%s: w is %v after %d updates, in float64 %v", c.name, got, c.updates, c.want)
			}
		}
	})
}

// TestEightBitsKeepEveryElementInStep: a block of Adam8 with an outlier, and one with gradients from 1
// to 1e-8, moves each element as float64 does.
func TestEightBitsKeepEveryElementInStep(t *testing.T) {
	const updates = 1000
	o := optim.Adam{Rate: 0.01, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-15, Storage: optim.Block8}
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, c := range []struct {
			name string
			grad func(i, t int) float64
		}{
			{"thirty times once, at first", func(i, t int) float64 { return 1 + 29*oneIf(i == 7 && t == 1) }},
			{"thirty times once", func(i, t int) float64 { return 1 + 29*oneIf(i == 7 && t == 40) }},
			{"ten million times once", func(i, t int) float64 { return 1 + 1e7*oneIf(i == 7 && t == 40) }},
			{"eight decades", func(i, _ int) float64 { return math.Pow(10, -8*float64(i)/255) }},
		} {
			rows := make([][]float32, updates)
			for k := range rows {
				rows[k] = make([]float32, 256)
				for i := range rows[k] {
					rows[k][i] = float32(c.grad(i, k+1))
				}
			}
			for i, got := range moved(t, dev, o, optim.Clip{}, rows) {
				want := adamPath(o, func(t int) float64 { return float64(rows[t-1][i]) }, updates)
				off := 0.08
				if i == 7 && c.grad(7, 40) > 1e6 { // beyond what its root may grow by at once
					off = 1
				}
				if !(math.Abs(got-want) <= off*math.Abs(want)) {
					t.Errorf("%s: element %d moved to %v, in float64 %v", c.name, i, got, want)
					break
				}
			}
		}
	})
}

// oneIf returns 1 if b, else 0.
func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// TestAHugeNormIsClippedOrNamed: the norm of 100 gradients of 3e37 is 3e38, whose reciprocal is no
// normal float32. The norm of those of 1e200 is no float64.
func TestAHugeNormIsClippedOrNamed(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		row := make([]float32, 100)
		for i := range row {
			row[i] = 3e37
		}
		for i, w := range moved(t, dev, optim.SGD{Rate: 1}, optim.Clip{Norm: 1}, [][]float32{row}) {
			if !(math.Abs(w+0.1) < 1e-6) {
				t.Fatalf("element %d moved to %v, want -0.1", i, w)
			}
		}
		x := make([]float64, 100)
		for i := range x {
			x[i] = 1e200
		}
		ds := columns(t, 1, dataloader.Column("x", x, 100))
		tr := made(t, linear(100, tensor.Float64), trainer.Options{Device: dev, Batch: 1, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 1}, Clip: optim.Clip{Norm: 1}})
		before := learned(t, tr)
		_, err := tr.Fit(t.Context(), ds)
		var e *trainer.NonFiniteError
		if !errors.As(err, &e) || !strings.Contains(e.Label, "layer/w") {
			t.Errorf("a norm beyond float64: got %v, want an error that names layer/w", err)
		}
		if d := differing(before, learned(t, tr)); d != nil {
			t.Errorf("%q changed", d)
		}
	})
}

// TestOptionsThatUnderflowAreRefused: no trainer is made whose numbers float32 takes for 0.
func TestOptionsThatUnderflowAreRefused(t *testing.T) {
	ds := numbers(t, 1)
	for field, o := range map[string]trainer.Options{
		"Epsilon":  {Optimizer: optim.Adam{Epsilon: 1e-40}},
		"Epsilon ": {Optimizer: optim.RMSProp{Epsilon: 1e-40}},
		"Rate":     {Optimizer: optim.SGD{Rate: 1e-40}},
		"Decay":    {Optimizer: optim.AdamW{Decay: 1e-40}},
		"Norm":     {Clip: optim.Clip{Norm: 1e-40}},
		"Value":    {Clip: optim.Clip{Value: 1e-40}},
		"MinRMS":   {Optimizer: optim.Adafactor{MinRMS: 1e-40}},
		"Beta2":    {Optimizer: optim.Adam{Beta2: 1 - 1e-9}},
	} {
		o.Device, o.Batch, o.Fields = openCPU(t), 1, ds.Fields()
		_, err := trainer.New(t.Context(), scalar(1), o)
		if want := strings.TrimSpace(field) + " is "; !errors.Is(err, optim.ErrOption) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", field, err, want)
		}
	}
}
