package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// affine is loss = mean(x·w + b) for rows of two, in float32, with w and b 0. The gradient of w is the mean of x, that of b 1.
func affine(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 2)
	w, b := net.Param("layer/w", layers.Zeros{}, 2, 1), net.Param("layer/b", layers.Zeros{}, 1, 1)
	if err := net.Err(); err != nil {
		return trainer.Model{}, err
	}
	y := gorgonia.Must(gorgonia.BroadcastAdd(gorgonia.Must(gorgonia.Mul(x, w)), b, nil, []byte{0}))
	loss, err := gorgonia.Mean(y)
	return trainer.Model{Inputs: net.Inputs(), Output: y, Loss: loss, Params: net.Params()}, err
}

// pairs is a dataset of rows of two.
func pairs(t testing.TB, x ...float32) *dataloader.Slices {
	return columns(t, len(x)/2, dataloader.Column("x", x, 2))
}

// beyond is what makes the gradient of affine's w infinite in float32 at a scale above 1024, while the loss stays finite.
const beyond = 3e35

// asked is a schedule that remembers which updates it was asked about.
type asked struct{ at *[]int64 }

func (a asked) Rate(base float64, t int64) float64 {
	*a.at = append(*a.at, t)
	return base
}

// An update that overflows is skipped as a whole: what is learned then and later is as if the step had not been.
func TestAnUpdateThatOverflowsIsSkippedAsAWhole(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		head, bad, tail := []float32{1, -2, 0.5, 3}, []float32{beyond, 1}, []float32{-1, 2, 4, 0.25}
		without, with := pairs(t, slices.Concat(head, tail)...), pairs(t, slices.Concat(head, bad, tail)...)
		for _, o := range optimizers() {
			for k, clip := range []optim.Clip{{}, {Norm: 1}, {Value: 0.5, Norm: 2}} {
				opt := trainer.Options{Device: dev, Batch: 1, Fields: with.Fields(), Sequential: true, Optimizer: o.Optimizer, Clip: clip, Guard: trainer.Guard(k % 2)}
				want := made(t, affine, opt)
				fit(t, want, without)
				var updates, rates []int64
				var scales []float64
				var tr *trainer.Trainer
				opt.LossScale.Mode, opt.Schedule = optim.ScaleAlways, asked{&rates}
				opt.Progress = func(trainer.Progress) {
					updates, scales = append(updates, tr.Stats().Updates), append(scales, tr.LossScale().Scale)
				}
				tr = made(t, affine, opt)
				rates = nil
				res := fit(t, tr, with)
				if d := differing(learned(t, want), learned(t, tr)); d != nil && o.Optimizer.Op() != kernels.Adam16 { // which rounds by chance, drawn from scaled gradients
					t.Errorf("%s, clip %v: %q differ from training without the step", o.Name, clip, d)
				}
				if w := []int64{1, 2, 2, 3, 4}; !slices.Equal(updates, w) || res.Steps != 5 {
					t.Errorf("%s: updates after each of %d steps: %v, want %v", o.Name, res.Steps, updates, w)
				}
				if w := []int64{1, 2, 3, 3, 4}; !slices.Equal(rates, w) {
					t.Errorf("%s: rates were asked for of updates %v, want %v", o.Name, rates, w)
				}
				if w := []float64{65536, 65536, 32768, 32768, 32768}; !slices.Equal(scales, w) {
					t.Errorf("%s: scales after each step: %v, want %v", o.Name, scales, w)
				}
				if got, w := tr.LossScale(), (optim.ScalingState{Scale: 32768, Good: 2, Skipped: 1}); got != w {
					t.Errorf("%s: state %v, want %v", o.Name, got, w)
				}
				before := learned(t, tr)
				fit(t, tr, pairs(t, 1e36, 1))
				if d := differing(before, learned(t, tr)); d != nil || tr.LossScale().Skipped != 2 {
					t.Errorf("%s: a step that overflows changes %q", o.Name, d)
				}
			}
		}
	})
}

// An overflow in any step of a window skips its update, and no other; the scale falls once.
func TestAnOverflowInAWindowSkipsItsUpdate(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		good := []float32{1, -2, 0.5, 3, -1, 2, 4, 0.25, 1, 1, 3, -0.5, 2, 1}
		opt := trainer.Options{Device: dev, Batch: 1, Accumulate: 3, Fields: pairs(t, good...).Fields(), Sequential: true, Optimizer: optim.Adam{}}
		for at := 3; at < 6; at++ {
			x := slices.Clone(good)
			x[2*at] = beyond
			opt.LossScale = optim.Scaling{}
			want := learnedOf(t, affine, opt, pairs(t, slices.Delete(slices.Clone(x), 6, 12)...))
			opt.LossScale.Mode = optim.ScaleAlways
			tr := made(t, affine, opt)
			fit(t, tr, pairs(t, x...))
			if d := differing(want, learned(t, tr)); d != nil {
				t.Errorf("overflow in step %d: %q differ from training without its window", at+1, d)
			}
			if got, w := tr.LossScale(), (optim.ScalingState{Scale: 32768, Good: 1, Skipped: 1}); got != w || tr.Stats().Updates != 2 {
				t.Errorf("overflow in step %d: %v after %d updates, want %v after 2", at+1, got, tr.Stats().Updates, w)
			}
		}
	})
}

// Scales are powers of two: as long as nothing leaves the range of float32, parameters have the bits that they have without. Adam16 alone has
// others: the bits of a gradient, scale included, are its chance.
func TestScalingChangesNoBitWhereNothingOverflows(t *testing.T) {
	parallel(t)
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, m := range []struct {
			model trainer.ModelFunc
			in    int
		}{{small, 4}, {everyLayer, 2 * 8 * 8}} {
			ds := samples(t, 37, m.in, 3)
			for i, o := range optimizers() {
				opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: o.Optimizer, Accumulate: 1 + i%3, Seed: 5, Tail: dataloader.DropTail,
					Guard: trainer.Guard(i / 2 % 2), Clip: []optim.Clip{{Norm: 0.1}, {}, {Value: 0.01}, {Norm: 0.2, Value: 0.02}}[i%4]}
				want := learnedOf(t, m.model, opt, ds)
				opt.LossScale = optim.Scaling{Mode: optim.ScaleAlways, Initial: 1024, Interval: 2} // and the scale moves
				tr := made(t, m.model, opt)
				fit(t, tr, ds)
				if d := differing(want, learned(t, tr)); (d != nil) != (o.Optimizer.Op() == kernels.Adam16) {
					t.Errorf("%s, rows of %d, clip %v: %q differ", o.Name, m.in, opt.Clip, d)
				}
				if s := tr.LossScale(); s.Skipped != 0 || s.Scale != 1024*math.Pow(2, float64(tr.Stats().Updates/2)) {
					t.Errorf("%s: %v after %d updates", o.Name, s, tr.Stats().Updates)
				}
			}
		}
	})
}

// A norm of 5 is brought down to 1: [0.6 0.8]. Clipped before it is divided by the scale, the gradient would be [0.000586 0.000781].
func TestClippingSeesGradientsWithoutTheScale(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := pairs(t, 3, 4)
		opt := trainer.Options{Device: dev, Batch: 1, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 1}, Frozen: []string{"layer/b"}}
		opt.LossScale = optim.Scaling{Mode: optim.ScaleAlways, Initial: 1024}
		for clip, want := range map[optim.Clip][]float64{{Norm: 1}: {-0.6, -0.8}, {Value: 3.5}: {-3, -3.5}, {Norm: 10}: {-3, -4}, {}: {-3, -4}} {
			opt.Clip = clip
			got := decoded([]byte(learnedOf(t, affine, opt, ds)["layer/w"]))
			if !about(got[0], want[0], 1e-7) || !about(got[1], want[1], 1e-7) { // rounded to float32 once
				t.Errorf("clip %v: w = %v, want %v", clip, got, want)
			}
		}
	})
}

// squares is loss = mean(x ⊙ (x·w)): with w = 0 the loss is 0 and its gradient x².
func squares(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 1)
	w := net.Param("layer/w", layers.Zeros{}, 1, 1)
	if err := net.Err(); err != nil {
		return trainer.Model{}, err
	}
	y := gorgonia.Must(gorgonia.HadamardProd(x, gorgonia.Must(gorgonia.Mul(x, w))))
	loss, err := gorgonia.Mean(y)
	return trainer.Model{Inputs: net.Inputs(), Output: y, Loss: loss, Params: net.Params()}, err
}

// Where the smallest scale overflows too, the step is an error that names what overflowed, and nothing has changed.
func TestAnOverflowAtTheSmallestScaleIsAnError(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		good, bad := columns(t, 1, dataloader.Column("x", []float32{1}, 1)), columns(t, 4, dataloader.Column("x", []float32{1e30, 1e30, 1e30, 1e30}, 1))
		opt := trainer.Options{Device: dev, Batch: 1, Fields: good.Fields(), Sequential: true}
		opt.LossScale = optim.Scaling{Mode: optim.ScaleAlways, Initial: 4}
		for _, opt.Guard = range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
			tr := made(t, squares, opt)
			before := learned(t, tr)
			res, err := tr.Fit(context.Background(), bad)
			var e *trainer.NonFiniteError
			if !errors.As(err, &e) || e.Scale != 1 || e.Op == "" || !strings.Contains(err.Error(), "step 2") || !strings.Contains(err.Error(), "loss scale of 1") {
				t.Errorf("got %v, want an overflow in step 2 at a scale of 1", err)
			}
			if got, want := tr.LossScale(), (optim.ScalingState{Scale: 1, Skipped: 2}); got != want || res.Steps != 2 || tr.Stats().Updates != 0 {
				t.Errorf("%v after %d steps and %d updates, want %v after 2 and 0", got, res.Steps, tr.Stats().Updates, want)
			}
			if d := differing(before, learned(t, tr)); d != nil {
				t.Errorf("%q changed", d)
			}
			fit(t, tr, good)
			if tr.Stats().Updates != 1 {
				t.Error("training does not go on")
			}
		}
	})
}

// A scale cures no loss that is not finite: it is the error that it is without.
func TestALossThatIsNotFiniteIsNoOverflow(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		bad := pairs(t, 1, 2, float32(math.Inf(1)), 1)
		opt := trainer.Options{Device: dev, Batch: 1, Fields: bad.Fields(), Sequential: true}
		opt.LossScale.Mode = optim.ScaleAlways
		tr := made(t, affine, opt)
		_, err := tr.Fit(context.Background(), bad)
		var e *trainer.NonFiniteError
		if !errors.As(err, &e) || e.Sample != 1 || e.Scale != 0 || strings.Contains(err.Error(), "scale") {
			t.Errorf("got %v, want sample 1", err)
		}
		if got, want := tr.LossScale(), (optim.ScalingState{Scale: 65536, Good: 1}); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// A trainer that starts with another's state goes on as that one would.
func TestScalingGoesOnFromAState(t *testing.T) {
	dev, ds := openCPU(t), pairs(t, 1, 2, 3, 4, 5, 6)
	opt := trainer.Options{Device: dev, Batch: 1, Fields: ds.Fields()}
	opt.LossScale = optim.Scaling{Mode: optim.ScaleAlways, Initial: 8, Interval: 5}
	one := made(t, affine, opt)
	fit(t, one, ds)
	opt.LossScale.State = one.LossScale()
	two := made(t, affine, opt)
	if got, want := two.LossScale(), (optim.ScalingState{Scale: 8, Good: 3}); got != want {
		t.Errorf("it starts with %v, want %v", got, want)
	}
	fit(t, one, ds)
	fit(t, two, ds)
	if got, want := two.LossScale(), (optim.ScalingState{Scale: 16, Good: 1}); got != want || one.LossScale() != want {
		t.Errorf("%v, and %v in one trainer, want %v", got, one.LossScale(), want)
	}
}

// The zero value scales in float16 alone.
func TestTheLossIsScaledInFloat16OrWhereAsked(t *testing.T) {
	dev := openCPU(t)
	for _, c := range []struct {
		precision arena.DType
		mode      optim.ScalingMode
		want      float64
	}{
		{0, optim.ScaleFloat16, 0}, {arena.BFloat16, optim.ScaleFloat16, 0}, {arena.Float16, optim.ScaleFloat16, 65536},
		{0, optim.ScaleAlways, 65536}, {arena.BFloat16, optim.ScaleAlways, 65536}, {arena.Float16, optim.ScaleNever, 0},
	} {
		opt := trainer.Options{Device: dev, Batch: 2, Fields: pairs(t, 1, 2).Fields(), Precision: c.precision}
		opt.LossScale.Mode = c.mode
		if got := made(t, affine, opt).LossScale(); got != (optim.ScalingState{Scale: c.want}) {
			t.Errorf("%v, mode %d: %v, want a scale of %v", c.precision, c.mode, got, c.want)
		}
	}
}

// Gradients are kept until all are checked, whatever the guard: no more is planned for scaling than a few numbers.
func TestScalingKeepsGradients(t *testing.T) {
	for _, guard := range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
		opt := trainer.Options{Batch: 8}
		want, err := trainer.Plan(t.Context(), small, opt)
		if err != nil {
			t.Fatal(err)
		}
		opt.Guard, opt.LossScale.Mode = guard, optim.ScaleAlways
		got, err := trainer.Plan(t.Context(), small, opt)
		if err != nil {
			t.Fatal(err)
		}
		if got.Category("gradients") != want.Category("gradients") || got.Total-want.Total > 3*arena.Align {
			t.Errorf("guard %d: %d bytes, of gradients %d; without scaling %d and %d", guard, got.Total, got.Category("gradients"), want.Total, want.Category("gradients"))
		}
	}
}

// Where all gradients are kept anyway, what would fit does not offer to free them.
func TestExploreFreesNoGradientsOfAScaledLoss(t *testing.T) {
	for name, opt := range map[string]trainer.Options{"scaled": {LossScale: optim.Scaling{Mode: optim.ScaleAlways}}, "float16": {Precision: arena.Float16, Guard: trainer.GuardEach},
		"clipped by norm": {Clip: optim.Clip{Norm: 1}}} {
		opt.Batch, opt.Memory = 8, 64<<10
		x, err := trainer.Explore(context.Background(), small, opt, trainer.ExploreOptions{MaxBatch: 8})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range x.Choices.Choices {
			if !slices.Contains(c.Settings, "kept") || c.Regions["gradients"] == 0 {
				t.Errorf("%s: %v has gradients of %d bytes", name, c.Settings, c.Regions["gradients"])
			}
		}
	}
}

func TestABadScalingIsRefused(t *testing.T) {
	_, err := trainer.New(t.Context(), affine, trainer.Options{Device: openCPU(t), Batch: 1, LossScale: optim.Scaling{Initial: 0.5, Backoff: 2}})
	if !errors.Is(err, trainer.ErrOption) || !strings.Contains(fmt.Sprint(err), "Initial is 0.5") || !strings.Contains(fmt.Sprint(err), "Backoff is 2") {
		t.Errorf("got %v, want what is wrong with both fields", err)
	}
}

// faint is affine with a loss of 10⁻⁹ times its own: in float16 its gradient is 0.
func faint(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	m, err := affine(g, batch)
	if err != nil {
		return m, err
	}
	m.Loss, err = gorgonia.Mul(m.Loss, gorgonia.NewConstant(float32(1e-9)))
	return m, err
}

// What vanishes in float16 is learned with a scaled loss.
func TestScalingSavesGradientsThatVanishInFloat16(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := pairs(t, 3, -4)
		opt := trainer.Options{Device: dev, Batch: 1, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 1e9}, Precision: arena.Float16}
		for mode, want := range map[optim.ScalingMode][]float64{optim.ScaleNever: {0, 0}, optim.ScaleFloat16: {-3, 4}} {
			opt.LossScale.Mode = mode
			got := decoded([]byte(learnedOf(t, faint, opt, ds)["layer/w"]))
			if !about(got[0], want[0], 0x1p-10) || !about(got[1], want[1], 0x1p-10) { // the gradient is rounded to 11 bits, and to float32 a few times
				t.Errorf("mode %d: w = %v, want %v", mode, got, want)
			}
		}
	})
}

// A skipped update leaves running statistics as they were before its step.
func TestASkippedUpdateMovesNoStatistics(t *testing.T) {
	// The mean over a batch of normalized x, times w, times c: a huge c overflows the gradient of w alone.
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x, c := net.Input("x", batch, 1), net.Input("c", batch, 1)
		y := net.Dense(net.BatchNorm(x, "norm", nil), "layer", 1, nil)
		if err := net.Err(); err != nil {
			return trainer.Model{}, err
		}
		loss, err := gorgonia.Mean(gorgonia.Must(gorgonia.HadamardProd(y, c)))
		return trainer.Model{Inputs: net.Inputs(), Output: y, Loss: loss, Params: net.Params(), Statistics: net.Statistics()}, err
	}
	each(t, func(t *testing.T, dev kernels.Device) {
		data := func(x, c []float32) *dataloader.Slices {
			return columns(t, len(x), dataloader.Column("x", x, 1), dataloader.Column("c", c, 1))
		}
		without, with := data([]float32{1, 2}, []float32{1, 1}), data([]float32{1, 2, 5, 9}, []float32{1, 1, beyond, beyond})
		opt := trainer.Options{Device: dev, Batch: 2, Fields: with.Fields(), Sequential: true}
		want := learnedOf(t, model, opt, without)
		opt.LossScale.Mode = optim.ScaleAlways
		tr := made(t, model, opt)
		fit(t, tr, with)
		if d := differing(want, learned(t, tr)); d != nil || tr.LossScale().Skipped != 1 {
			t.Errorf("%d updates skipped, and %q differ from training without the step, want 1 and none", tr.LossScale().Skipped, d)
		}
	})
}
