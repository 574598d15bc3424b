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

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// normed is 4-8-3 with batch normalization and dropout.
func normed(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 4)
	h := net.BatchNorm(net.Dense(x, "hidden", 8, nil), "bn", layers.ReLU)
	h = net.Dropout(h, "drop", 0.25)
	return net.Classifier(x, net.Dense(h, "out", 3, nil))
}

// learned returns everything that a trainer has learned, by name.
func learned(t *testing.T, tr *trainer.Trainer) map[string]string {
	t.Helper()
	return learnedFrom(t, tr.Params)
}

// learnedFrom returns the bytes of what list returns, by name.
func learnedFrom(t *testing.T, list func() ([]trainer.Param, error)) map[string]string {
	t.Helper()
	ps, err := list()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, p := range ps {
		b := make([]byte, p.Spec.Bytes())
		if err := p.Read(b); err != nil {
			t.Fatal(err)
		}
		all[p.Name] = string(b)
	}
	return all
}

// differing returns the names whose bytes are not the same.
func differing(a, b map[string]string) (names []string) {
	for name := range a {
		if a[name] != b[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestRunningStatisticsAreLearnedAndOnlyReadAfterwards(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 37, 4, 3)
		tr := made(t, normed, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.Adam{Rate: 0.01}, Sequential: true})
		start := learned(t, tr)
		if got := decoded([]byte(start["bn/mean"] + start["bn/variance"])); !slices.Equal(got[:8], make([]float64, 8)) || !slices.Equal(got[8:], slices.Repeat([]float64{1}, 8)) {
			t.Errorf("means and variances start as %v", got)
		}
		fit(t, tr, ds)
		trained := learned(t, tr)
		if got := differing(start, trained); len(got) != len(start) {
			t.Errorf("an epoch changed only %q", got)
		}
		evaluate(t, tr, ds)
		outputs(t, tr, ds)
		broken := errors.New("broken file")
		bad := &faulty{ds, func(_ context.Context, at dataloader.At) error {
			if at.Index == 20 {
				return broken
			}
			return nil
		}}
		if _, err := tr.Evaluate(context.Background(), bad); !errors.Is(err, broken) {
			t.Errorf("got %v, want the reader's error", err)
		}
		if err := firstError(tr, bad); !errors.Is(err, broken) {
			t.Errorf("got %v, want the reader's error", err)
		}
		if got := differing(trained, learned(t, tr)); got != nil {
			t.Errorf("evaluation and prediction changed %q", got)
		}
		fit(t, tr, ds) // as before, in training mode
		if got := differing(trained, learned(t, tr)); len(got) != len(trained) {
			t.Errorf("the next epoch changed only %q", got)
		}
		for _, r := range tr.Plan().Regions {
			if r.Name == "running statistics" && r.Bytes != 2*8*4 {
				t.Errorf("the plan has %d bytes of running statistics, want 64", r.Bytes)
			}
		}
	})
}

func TestAStepThatIsNotFiniteMovesNoStatistic(t *testing.T) {
	for _, guard := range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
		each(t, func(t *testing.T, dev kernels.Device) {
			ds := samples(t, 16, 4, 3)
			tr := made(t, normed, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Guard: guard, Sequential: true})
			fit(t, tr, ds)
			before := learned(t, tr)
			x := make([]float32, 16*4)
			x[7] = float32(math.NaN())
			bad := columns(t, 16, dataloader.Column("x", x, 4), dataloader.Column("y", make([]uint8, 16)))
			if _, err := tr.Fit(context.Background(), bad); !errors.Is(err, trainer.ErrNonFinite) {
				t.Fatalf("got %v, want ErrNonFinite", err)
			}
			if got := differing(before, learned(t, tr)); got != nil {
				t.Errorf("guard %d: the step changed %q", guard, got)
			}
		})
	}
}

func TestATailOfOneUnderBatchNormalizationIsRefusedBeforeTheFirstStep(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 17, 4, 3)
		tr := made(t, normed, trainer.Options{Device: dev, Batch: 16, Fields: ds.Fields()})
		before := learned(t, tr)
		_, err := tr.Fit(context.Background(), ds)
		if !errors.Is(err, kernels.ErrShape) {
			t.Fatalf("got %v, want ErrShape", err)
		}
		for _, want := range []string{"last batch of 1", "17 samples", "batches of 16", "DropTail", "another batch", "bn"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q in it", err, want)
			}
		}
		if got := differing(before, learned(t, tr)); got != nil || tr.Stats().Updates != 0 {
			t.Errorf("%d updates changed %q", tr.Stats().Updates, got)
		}
		if got := evaluate(t, tr, ds); got.Samples != 17 {
			t.Errorf("evaluated %d samples, want all 17", got.Samples)
		}
		dropping := made(t, normed, trainer.Options{Device: dev, Batch: 16, Fields: ds.Fields(), Tail: dataloader.DropTail})
		if got := fit(t, dropping, ds); got.Samples != 16 || got.Dropped != 1 {
			t.Errorf("%+v", got)
		}
	})
}

func TestABatchOfOneUnderBatchNormalizationIsRefusedUpFront(t *testing.T) {
	_, err := trainer.Plan(t.Context(), normed, trainer.Options{Batch: 1})
	if !errors.Is(err, kernels.ErrShape) || !strings.Contains(fmt.Sprint(err), "bn") || !strings.Contains(fmt.Sprint(err), "(1, 8)") {
		t.Errorf("got %v, want ErrShape that names bn and (1, 8)", err)
	}
	if n, err := trainer.MaxBatch(t.Context(), normed, trainer.Options{Memory: 1 << 20}, 500); err != nil || n < 100 {
		t.Errorf("the largest batch is %d, %v", n, err)
	}
}

func TestStatisticsAreReadAndWrittenLikeParameters(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 32, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()}
		a, b := made(t, normed, opt), made(t, normed, opt)
		fit(t, a, ds)
		from := learned(t, a)
		to, err := b.Params()
		if err != nil {
			t.Fatal(err)
		}
		var statistics []string
		for _, p := range to {
			if p.Statistic {
				statistics = append(statistics, p.Name)
			}
			if p.Frozen {
				t.Errorf("%q is frozen", p.Name)
			}
			if err := p.Write([]byte(from[p.Name])); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(statistics, []string{"bn/mean", "bn/variance"}) {
			t.Errorf("statistics %q", statistics)
		}
		if got, want := outputs(t, b, ds), outputs(t, a, ds); !slices.Equal(got, want) {
			t.Error("what has learned the same predicts otherwise")
		}
	})
}

func TestAFrozenBatchNormalizationStaysAsItIs(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 32, 4, 3)
		tr := made(t, normed, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Frozen: []string{"bn"}})
		before := learned(t, tr)
		fit(t, tr, ds)
		if got, want := differing(before, learned(t, tr)), []string{"hidden/b", "hidden/w", "out/b", "out/w"}; !slices.Equal(got, want) {
			t.Errorf("an epoch changed %q, want %q", got, want)
		}
		ps, err := tr.Params()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ps {
			if p.Frozen != strings.HasPrefix(p.Name, "bn/") {
				t.Errorf("%q: frozen %v", p.Name, p.Frozen)
			}
		}
	})
}

// dropped returns the masks of three steps, with a window of the given number of steps, and what is learned with them.
func dropped(t *testing.T, dev kernels.Device, seed uint64, window int) (masks []string, all map[string]string) {
	t.Helper()
	ds := samples(t, 24, 4, 3)
	opt := trainer.Options{Device: dev, Batch: 8, Accumulate: window, Fields: ds.Fields(), Seed: seed, Sequential: true, Keep: []string{"drop"}}
	var tr *trainer.Trainer
	opt.Progress = func(trainer.Progress) {
		h, spec, err := tr.Kept("drop")
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, spec.Bytes())
		if err := h.Read(b); err != nil {
			t.Fatal(err)
		}
		mask := make([]byte, spec.Shape.Elems())
		for i, v := range decoded(b) {
			if v == 0 {
				mask[i] = 1
			}
		}
		masks = append(masks, string(mask))
	}
	tr = made(t, onlyDropped, opt)
	fit(t, tr, ds)
	return masks, learned(t, tr)
}

// The masks of three steps, and what is learned with them, are the same on every run, device, and number of threads.
func TestDropoutIsAFunctionOfSeedStepAndLayer(t *testing.T) {
	masks, all := dropped(t, openCPU(t), 7, 1)
	if len(masks) != 3 || masks[0] == masks[1] || masks[1] == masks[2] || masks[0] == masks[2] {
		t.Fatalf("three steps have these masks: %q", masks)
	}
	if other, _ := dropped(t, openCPU(t), 8, 1); other[0] == masks[0] {
		t.Error("another seed has the same mask")
	}
	for threads := 1; threads <= 4; threads++ {
		t.Run(fmt.Sprint(threads, " threads"), func(t *testing.T) {
			again, same := dropped(t, cputest.OpenChecked(t, cpu.Options{Threads: threads}), 7, 1)
			if !slices.Equal(again, masks) || differing(all, same) != nil {
				t.Errorf("other masks, or other parameters: %q", differing(all, same))
			}
		})
	}
	each(t, func(t *testing.T, dev kernels.Device) {
		again, learned := dropped(t, dev, 7, 1)
		if !slices.Equal(again, masks) {
			t.Error("other masks")
		}
		again, same := dropped(t, dev, 7, 1)
		if !slices.Equal(again, masks) || differing(learned, same) != nil {
			t.Errorf("a second run has other masks, or other parameters: %q", differing(learned, same))
		}
	})
}

// onlyDropped is 4-16-3 with dropout of what is never 0 itself, so that the mask can be seen.
func onlyDropped(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 4)
	h := net.Dropout(net.Dense(x, "hidden", 16, layers.Sigmoid), "drop", 0.2)
	return net.Classifier(x, net.Dense(h, "out", 3, nil))
}
