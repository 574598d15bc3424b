package trainer_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// read64 returns a value of n elements.
func read64(t testing.TB, tr *trainer.Trainer, name string, n int) []float64 {
	t.Helper()
	dst := make([]float64, n)
	if err := tr.Read64(name, dst); err != nil {
		t.Fatal(err)
	}
	return dst
}

// readConfigurations are options under which gradients are kept in different ways.
var readConfigurations = map[string]trainer.Options{
	"plain":               {},
	"each":                {Guard: trainer.GuardEach},
	"scaled":              {LossScale: optim.Scaling{Mode: optim.ScaleAlways, Initial: 256}},
	"window":              {Accumulate: 3},
	"scaled window":       {Accumulate: 2, LossScale: optim.Scaling{Mode: optim.ScaleAlways}, Guard: trainer.GuardEach},
	"clipped by value":    {Clip: optim.Clip{Value: 0.01}},
	"clipped by norm":     {Clip: optim.Clip{Norm: 0.01}},
	"norm, scaled window": {Clip: optim.Clip{Norm: 0.01}, Accumulate: 2, LossScale: optim.Scaling{Mode: optim.ScaleAlways}},
	"frozen":              {Frozen: []string{"hidden/w"}},
}

// A kept gradient is what SGD's change shows: (before - after) / rate, of the mean over a window, without the loss scale, before it is clipped. The norm of
// a layer is that of its gradients. Keeping them changes no bit of training.
func TestKeptGradientsAreThoseOfTheUpdate(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, net := range []string{"perceptron", "weighted"} {
			_, models, _ := mixNets()
			model := models[net]
			for name, opt := range readConfigurations {
				ds := samplesFor(t, net, 8*max(1, opt.Accumulate)) // one update an epoch
				const rate = 0.125
				opt.Device, opt.Batch, opt.Fields, opt.Optimizer, opt.Seed = dev, 8, ds.Fields(), optim.SGD{Rate: rate}, 4
				free := opt
				free.Clip = optim.Clip{}
				plain, unclipped := made(t, model, opt), made(t, model, free)
				opt.Keep = []string{"*/grad", "*/gradnorm"}
				opt = exactly(t, mix{model: model}, opt)
				tr := made(t, model, opt)
				before := numbersOf(t, unclipped.Params)
				fit(t, tr, ds)
				fit(t, plain, ds)
				fit(t, unclipped, ds)
				after := numbersOf(t, unclipped.Params)
				if d := differing(learned(t, tr), learned(t, plain)); len(d) > 0 {
					t.Errorf("%s, %s: with kept gradients %q are learned otherwise", net, name, d)
				}
				squares := make(map[string]float64)
				for _, kept := range tr.KeptNames() {
					param, ok := strings.CutSuffix(kept, "/grad")
					if !ok {
						continue
					}
					for i, g := range read64(t, tr, kept, len(before[param])) {
						if want := (before[param][i] - after[param][i]) / rate; !about(g, want, 1e-5) {
							t.Fatalf("%s, %s: %s[%d] is %v, want %v", net, name, kept, i, g, want)
						}
						squares[layerOf(param)] += g * g
					}
				}
				if _, ok := squares["hidden"]; !ok || slices.Contains(tr.KeptNames(), "hidden/w/grad") == (name == "frozen") {
					t.Errorf("%s, %s: kept %q", net, name, tr.KeptNames())
				}
				for layer, sum := range squares {
					if got, want := read64(t, tr, layer+"/gradnorm", 1)[0], math.Sqrt(sum); !about(got, want, 1e-6) || got == 0 {
						t.Errorf("%s, %s: the norm of %s is %v, want %v", net, name, layer, got, want)
					}
				}
				for _, tr := range []*trainer.Trainer{tr, plain, unclipped} {
					if err := tr.Close(); err != nil {
						t.Error(err)
					}
				}
			}
		}
	})
}

// Steps without an update have no gradients to read; those with one have, also the last, short window.
func TestOnlyUpdatesHaveGradients(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 8*4+3, 4, 3)
		var got []bool
		var tr *trainer.Trainer
		dst := make([]float32, 3)
		tr = made(t, small, trainer.Options{Device: dev, Batch: 8, Accumulate: 3, Fields: ds.Fields(), Keep: []string{"out/b/grad"},
			Progress: func(trainer.Progress) {
				err := tr.Read("out/b/grad", dst)
				got = append(got, err == nil)
				if err != nil && !errors.Is(err, arena.ErrStale) {
					t.Errorf("got %v, want ErrStale", err)
				}
			}})
		if err := tr.Read("out/b/grad", dst); !errors.Is(err, arena.ErrStale) {
			t.Errorf("before the first step: %v, want ErrStale", err)
		}
		fit(t, tr, ds)
		if want := []bool{false, false, true, false, true}; !slices.Equal(got, want) {
			t.Errorf("gradients after each step: %v, want %v", got, want)
		}
		evaluate(t, tr, ds)
		if slices.Contains(got[5:], true) {
			t.Error("an evaluation has gradients")
		}
	})
}

// The losses of the rows of a batch are read in each step, also of a short one, and their mean is the loss; memory of another length is refused with the
// right one. A prediction in between leaves what was kept.
func TestTheLossOfEachRowIsRead(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 19, 4, 3)
		var tr *trainer.Trainer
		rows := make([]float32, 8)
		var total, sum float64
		tr = made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Keep: []string{"loss/rows"},
			Progress: func(p trainer.Progress) {
				n := min(8, 19-8*(p.Step-1))
				if n < 8 {
					err := tr.Read("loss/rows", rows)
					var e *trainer.LengthError
					if !errors.As(err, &e) || !errors.Is(err, trainer.ErrOption) || e.Need != n || e.Got != 8 {
						t.Errorf("8 elements for %d rows: got %v, want a LengthError", n, err)
					}
				}
				if err := tr.Read("loss/rows", rows[:n]); err != nil {
					t.Fatal(err)
				}
				for _, x := range rows[:n] {
					sum += float64(x)
				}
				total = p.Loss * float64(p.Samples)
				if !about(sum, total, 1e-5) {
					t.Errorf("step %d: the losses of all rows add up to %v, want %v", p.Step, sum, total)
				}
			}})
		fit(t, tr, ds)
		want := read64(t, tr, "loss/rows", 3)
		outputs(t, tr, ds)
		if got := read64(t, tr, "loss/rows", 3); !slices.Equal(got, want) || want[0] == 0 {
			t.Errorf("after a prediction %v, before %v", got, want)
		}
	})
}

// Parameters and running statistics are read by name, as float32 and as float64, whatever their type and place.
func TestParametersAreReadByName(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, offload := range []bool{false, true} {
			if offload && dev.Unified() {
				continue
			}
			ds := samplesFor(t, "normed", 16)
			_, models, _ := mixNets()
			tr := made(t, models["normed"], trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Offload: trainer.Offload{Parameters: offload}})
			fit(t, tr, ds)
			for name, want := range numbersOf(t, tr.Params) {
				if got := read64(t, tr, name, len(want)); !slices.Equal(got, want) {
					t.Errorf("%q is read as %v, want %v", name, got, want)
				}
				single := make([]float32, len(want))
				if err := tr.Read(name, single); err != nil || float64(single[0]) != want[0] {
					t.Errorf("%q is read as %v and %v, want %v", name, single, err, want)
				}
				var e *trainer.LengthError
				if err := tr.Read64(name, make([]float64, len(want)+1)); !errors.As(err, &e) || e.Need != len(want) || e.Spec.Shape.Elems() != len(want) {
					t.Errorf("%q into %d elements: got %v, want a LengthError", name, len(want)+1, err)
				}
			}
		}
		double := made(t, scalar(1.0/3), trainer.Options{Device: dev, Batch: 1, Keep: []string{"*/grad"}})
		if got := read64(t, double, "layer/w", 1)[0]; got != 1.0/3 {
			t.Errorf("a float64 is read as %v, want 1/3", got)
		}
		single := make([]float32, 1)
		if err := double.Read("layer/w", single); err != nil || single[0] != float32(1.0/3) {
			t.Errorf("a float64 is read as %v and %v, want 1/3 rounded", single, err)
		}
		fit(t, double, numbers(t, 3))
		if got := read64(t, double, "layer/w/grad", 1)[0]; got != 3 {
			t.Errorf("the gradient is %v, want 3", got)
		}
	})
}

// Kept gradients and norms take twice their bytes; in exactly the plan a net trains and is refused with a byte less.
func TestKeptGradientsAreInThePlan(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 16, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()}
		plain, err := trainer.Plan(t.Context(), small, opt)
		if err != nil {
			t.Fatal(err)
		}
		opt.Keep = []string{"*/grad", "out/gradnorm", "hidden/w/grad"}
		opt = exactly(t, mix{model: small}, opt)
		plan, err := trainer.Plan(t.Context(), small, opt)
		if err != nil {
			t.Fatal(err)
		}
		want := 2 * (arena.Round(4*4*8) + arena.Round(4*8) + arena.Round(4*8*3) + arena.Round(4*3) + arena.Round(8))
		if got := plan.Category("results") - plain.Category("results"); got != want {
			t.Errorf("results grow by %d bytes, want %d", got, want)
		}
		tr := made(t, small, opt)
		fit(t, tr, ds)
		if got, want := tr.KeptNames(), []string{"hidden/w/grad", "hidden/b/grad", "out/w/grad", "out/b/grad", "out/gradnorm"}; !slices.Equal(got, want) {
			t.Errorf("kept %q, want %q", got, want)
		}
		if s := tr.Stats().Arena; s.Reserved != plan.Total {
			t.Errorf("%d bytes reserved, want %d", s.Reserved, plan.Total)
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
		opt.Memory--
		var e *trainer.CapacityError
		if _, err := trainer.New(t.Context(), small, opt); !errors.As(err, &e) || e.Need != plan.Total {
			t.Errorf("a byte less: got %v, want a CapacityError", err)
		}
	})
}

func TestReadingAllocatesNothing(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 16, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Keep: []string{"*/grad", "loss/rows"}})
		fit(t, tr, ds)
		w, w64, rows := make([]float32, 32), make([]float64, 32), make([]float64, 8)
		n := testing.AllocsPerRun(20, func() {
			if err := errors.Join(tr.Read("hidden/w/grad", w), tr.Read64("hidden/w", w64), tr.Read("hidden/w", w), tr.Read64("loss/rows", rows)); err != nil {
				t.Error(err)
			}
		})
		if n > 0 && dev.Name() != "emu" && !cputest.Race {
			t.Errorf("%v heap objects, want 0", n)
		}
	})
}

func TestWrongReadsAreRefused(t *testing.T) {
	for name, keep := range map[string][]string{
		`keep "none/w/grad": the graph has no such node, and no parameter or layer of that name is trained`: {"none/w/grad", "none/gradnorm"},
		`keep "none/gradnorm"`: {"none/w/grad", "none/gradnorm"},
		`keep "hidden/b/grad"`: {"hidden/b/grad"},
		`keep "*": the graph`:  {"*"},
	} {
		_, err := trainer.Plan(t.Context(), small, trainer.Options{Batch: 8, Keep: keep, Frozen: []string{"hidden/b"}})
		if m := wantError(err, trainer.ErrOption, name); m != "" {
			t.Error(m)
		}
	}
	ds := samples(t, 16, 4, 3)
	var tr *trainer.Trainer
	tr = made(t, small, trainer.Options{Device: openCPU(t), Batch: 8, Fields: ds.Fields(), Progress: func(trainer.Progress) {
		if err := tr.Read("out/b", make([]float32, 3)); !errors.Is(err, trainer.ErrBusy) {
			t.Errorf("a parameter during a pass: got %v, want ErrBusy", err)
		}
	}})
	fit(t, tr, ds)
	if m := wantError(tr.Read("out/b/grad", make([]float32, 3)), trainer.ErrOption, "add it to Options.Keep"); m != "" {
		t.Error(m)
	}
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
	for _, closed := range []*trainer.Trainer{tr, nil} {
		if err := closed.Read64("out/b", nil); !errors.Is(err, trainer.ErrClosed) {
			t.Errorf("closed: got %v", err)
		}
		if names := closed.KeptNames(); names != nil {
			t.Errorf("closed: kept %q", names)
		}
	}
}

// Values of any type are read as floats.
func TestIntegersAreReadAsFloats(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := columns(t, 8, dataloader.Column("x", make([]float32, 32), 4), dataloader.Column("y", []uint8{0, 1, 2, 2, 1, 0, 0, 1}))
		tr := made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Sequential: true, Keep: []string{"y"}})
		fit(t, tr, ds)
		if got, want := fmt.Sprint(read64(t, tr, "y", 8)), "[0 1 2 2 1 0 0 1]"; got != want {
			t.Errorf("labels are read as %v, want %v", got, want)
		}
	})
}

// Kept values are read from other goroutines while passes run and until the trainer is closed: a value of one step, or an error of the documented kinds.
func TestValuesAreReadWhilePassesRun(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 8*6, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Keep: []string{"loss/rows"}})
		done := make(chan error)
		for range 2 {
			go func() {
				rows := make([]float32, 8)
				for {
					err := tr.Read("loss/rows", rows)
					if errors.Is(err, trainer.ErrClosed) {
						done <- nil
						return
					}
					if err != nil && !errors.Is(err, arena.ErrStale) {
						done <- err
						return
					}
				}
			}()
		}
		for range 5 {
			fit(t, tr, ds)
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}
