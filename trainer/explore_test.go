package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Every row of the table is true: its options have a plan of its size, train in exactly that many bytes, and are refused with one byte less,
// but where the planner chooses what to compute again and finds a smaller plan.
func TestEveryChoiceTrainsInTheBytesThatItSays(t *testing.T) {
	parallel(t)
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 19, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.Adam{Rate: 0.01}, Memory: 8 << 10}
		reports := make(map[trainer.ExplorePhase][]int) // Done and Total of each call
		x, err := trainer.Explore(context.Background(), small, opt, trainer.ExploreOptions{MaxBatch: 64, Progress: func(p trainer.ExploreProgress) {
			reports[p.Phase] = append(reports[p.Phase], p.Done, p.Total)
		}})
		if err != nil {
			t.Fatal(err)
		}
		shown := 0
		for i := range x.Choices.Choices {
			if !x.Beaten(i) {
				shown++
			}
		}
		for phase, want := range map[trainer.ExplorePhase]int{trainer.ExploreCombinations: len(x.Options), trainer.ExploreBatches: shown} {
			got := reports[phase]
			if len(got) != 2*want {
				t.Errorf("%v: %d reports, want %d", phase, len(got)/2, want)
			}
			for i := 0; i < len(got); i += 2 {
				if got[i] != i/2+1 || got[i+1] != want {
					t.Errorf("%v: report %d is %d of %d, want of %d", phase, i/2+1, got[i], got[i+1], want)
				}
			}
		}
		if x.Best < 0 || len(x.Options) != len(x.Choices.Choices) {
			t.Errorf("choice %d of %d is recommended, with %d options", x.Best, len(x.Choices.Choices), len(x.Options))
		}
		of := 5 // one of 5 choices is tried
		if !dev.Unified() {
			of = 15 // there are three times as many
		}
		if testing.Short() {
			of = 17
		}
		r := random(t)
		for i, c := range x.Choices.Choices {
			if i != x.Best && r.IntN(of) > 0 {
				continue
			}
			opt := x.Options[i]
			opt.Memory = c.Total
			tr := made(t, small, opt)
			before := inUse(tr)
			fit(t, tr, ds)
			if got := inUse(tr); got != before {
				t.Errorf("%v: %d bytes in use, %d before", c.Settings, got, before)
			}
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
			opt.Memory--
			if tr, err := trainer.New(t.Context(), small, opt); err == nil {
				if total := tr.Plan().Total; total > opt.Memory || !opt.Recompute.Auto {
					t.Errorf("%v: a plan of %d bytes was not refused at %d bytes", c.Settings, total, opt.Memory)
				}
				_ = tr.Close()
			}
			opt.Memory = 8 << 10
			if x.Beaten(i) {
				continue
			}
			for batch := max(1, c.MaxBatch); batch <= min(c.MaxBatch+1, 64); batch++ {
				opt.Batch = batch
				p, err := trainer.Plan(t.Context(), small, opt)
				if err != nil {
					t.Fatal(err)
				}
				if fits := p.Total <= opt.Memory; fits != (batch <= c.MaxBatch) {
					t.Errorf("%v: largest batch %d, but %d needs %d bytes", c.Settings, c.MaxBatch, batch, p.Total)
				}
			}
		}
	})
}

// The recommended choice changes what costs least: results stay those that were asked for where any such choice fits.
func TestTheRecommendedChoiceKeepsTheResultsWhereItCan(t *testing.T) {
	t.Parallel()
	r := random(t)
	opt := trainer.Options{Device: openCPU(t), Batch: 64, Optimizer: optim.Adam{}}
	model := classifier(64, 128, 10)
	plan, err := trainer.Plan(t.Context(), model, opt)
	if err != nil {
		t.Fatal(err)
	}
	fixed := 4 * plan.Category("parameters") // with gradients and the state of Adam
	sgd := opt
	sgd.Optimizer, sgd.Batch, sgd.Accumulate = optim.SGD{}, 1, 64
	least, err := trainer.Plan(t.Context(), model, sgd)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		limit int64
		want  string // settings of the axes
	}{
		{plan.Total, "[adam kept 64 none float32]"},
		{plan.Total - 1, "[adam freed 64 none float32]"},
		{fixed + 40_000, "[adam kept 4 × 16 none float32]"},
		{least.Total + 8_000, "[adafactor"},
		{least.Total, "[sgd"},
		{1 << 10, ""},
	} {
		if testing.Short() && r.IntN(3) > 0 {
			continue
		}
		opt.Memory = c.limit
		x, err := trainer.Explore(context.Background(), model, opt, trainer.ExploreOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if c.want == "" {
			if x.Best >= 0 {
				t.Errorf("%d bytes: %v is recommended", c.limit, x.Choices.Choices[x.Best])
			}
			continue
		}
		if x.Best < 0 {
			t.Errorf("%d bytes: nothing fits\n%v", c.limit, x)
			continue
		}
		if got := fmt.Sprint(x.Choices.Choices[x.Best].Settings); !strings.Contains(got, c.want) {
			t.Errorf("%d bytes: %s is recommended, want %s\n%v", c.limit, got, c.want, x)
		}
		if !strings.Contains(x.String(), "take this") {
			t.Errorf("the table does not say so:\n%v", x)
		}
	}
}

// The error about a plan that does not fit names a change that would, and it does.
func TestACapacityErrorNamesTheCheapestChange(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 64, 64, 10)
		model := classifier(64, 128, 10)
		opt := trainer.Options{Device: dev, Batch: 64, Fields: ds.Fields(), Optimizer: optim.Adam{}}
		plan, err := trainer.Plan(t.Context(), model, opt)
		if err != nil {
			t.Fatal(err)
		}
		for _, less := range []int64{1, plan.Category("gradients"), plan.Total - 3*plan.Category("parameters") + 1} {
			opt.Memory = plan.Total - less
			_, err := trainer.New(t.Context(), model, opt)
			var e *trainer.CapacityError
			if !errors.As(err, &e) || e.Change == "" || !strings.Contains(err.Error(), e.Change) {
				t.Fatalf("%d bytes less: got %v, want an error that names a change", less, err)
			}
			tr := made(t, model, e.Options)
			fit(t, tr, ds)
			if total := tr.Plan().Total; total > opt.Memory {
				t.Errorf("%s: %d bytes, more than %d", e.Change, total, opt.Memory)
			}
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestExploringWithoutALimitIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		opt  trainer.Options
		most int
	}{
		{trainer.Options{Batch: 8}, 0}, {trainer.Options{Batch: 8, Memory: -1}, 0}, {trainer.Options{Batch: 8, Memory: 1 << 20}, -1},
		{trainer.Options{Memory: 1 << 20}, 0},
	} {
		if _, err := trainer.Explore(context.Background(), small, c.opt, trainer.ExploreOptions{MaxBatch: c.most}); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("%+v: got %v, want ErrOption", c, err)
		}
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := trainer.Explore(done, small, trainer.Options{Batch: 8, Memory: 1 << 20}, trainer.ExploreOptions{MaxBatch: 64}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

// A model function that refuses some batches hides neither what is missing nor what would fit.
func TestAModelThatRefusesBatchesIsExplored(t *testing.T) {
	t.Parallel()
	odd := errors.New("takes only whole pairs of dozens")
	for name, refuse := range map[string]func(){"error": nil, "panic": func() { panic(odd) }} {
		t.Run(name, func(t *testing.T) {
			model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
				if batch%24 == 0 {
					return classifier(16, 64, 3)(g, batch)
				}
				if refuse != nil {
					refuse()
				}
				return trainer.Model{}, odd
			}
			opt := trainer.Options{Device: openCPU(t), Batch: 96, Optimizer: optim.Adam{}}
			plan, err := trainer.Plan(t.Context(), model, opt)
			if err != nil {
				t.Fatal(err)
			}
			opt.Memory = plan.Total - 1
			x, err := trainer.Explore(context.Background(), model, opt, trainer.ExploreOptions{MaxBatch: 1000})
			if err != nil || x.Best < 0 {
				t.Fatalf("got %v, want a choice", err)
			}
			for _, o := range x.Options {
				if o.Batch%24 != 0 {
					t.Errorf("a batch of %d is a choice", o.Batch)
				}
			}
			_, err = trainer.New(t.Context(), model, opt)
			var e *trainer.CapacityError
			if !errors.As(err, &e) || e.Need != plan.Total || e.Fits != 0 || e.Change == "" || !strings.Contains(err.Error(), odd.Error()) {
				t.Fatalf("got %v, want an error that names a change and why there is no batch", err)
			}
			made(t, model, e.Options)
		})
	}
}

// State in host memory is staged in scratch, so an optimizer that keeps less helps there too.
func TestOptimizersAreTriedWhereStateIsInHostMemory(t *testing.T) {
	t.Parallel()
	opt := trainer.Options{Device: emutest.OpenChecked(t, emu.Options{}), Batch: 16, Optimizer: optim.Adam{}, Offload: trainer.Offload{State: true}}
	model := classifier(64, 128, 10)
	plan, err := trainer.Plan(t.Context(), model, opt)
	if err != nil {
		t.Fatal(err)
	}
	opt.Memory = plan.Total
	x, err := trainer.Explore(t.Context(), model, opt, trainer.ExploreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tried := make(map[string]bool)
	for _, c := range x.Choices.Choices {
		tried[c.Settings[0]] = true
	}
	for _, name := range []string{"adam", "adam8", "sgd"} {
		if !tried[name] {
			t.Errorf("%s is not among what was tried: %v", name, tried)
		}
	}
}

// What can be kept in host memory besides what is asked for is tried, on devices with memory of their own.
func TestWhatCanBeOffloadedIsTried(t *testing.T) {
	t.Parallel()
	dev := emutest.OpenChecked(t, emu.Options{})
	for _, c := range []struct {
		asked trainer.Offload
		want  []string
	}{
		{trainer.Offload{}, []string{"nothing", "state", "state, parameters"}},
		{trainer.Offload{State: true}, []string{"state", "state, parameters"}},
		{trainer.Offload{Parameters: true}, []string{"parameters", "state, parameters"}},
		{trainer.Offload{Layers: []string{"hidden"}}, []string{"hidden", "state, hidden", "state, parameters"}},
		{trainer.Offload{State: true, Parameters: true}, []string{"state, parameters"}},
	} {
		x, err := trainer.Explore(t.Context(), classifier(64, 128, 10), trainer.Options{Device: dev, Batch: 4, Optimizer: optim.Adam{}, Offload: c.asked, Memory: 1 << 20}, trainer.ExploreOptions{})
		if err != nil {
			t.Fatal(err)
		}
		at := slices.Index(x.Axes, "on the host")
		var got []string
		for i, choice := range x.Choices.Choices {
			if name := choice.Settings[at]; !slices.Contains(got, name) {
				got = append(got, name)
			}
			if name := x.Options[i].Offload.String(); name != choice.Settings[at] {
				t.Errorf("%v: the options of %q keep %q", c.asked, choice.Settings[at], name)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: tried %q, want %q", c.asked, got, c.want)
		}
	}
}
