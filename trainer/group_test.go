package trainer_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// byGroups are options of small whose groups have a rate, an optimizer and a decay of their own.
var byGroups = []trainer.Group{
	{Match: []string{"out/w"}, Optimizer: optim.Lion{Rate: 0.002, Decay: 0.1}, RateFactor: 0.5},
	{Match: trainer.BiasesAndNorms, NoDecay: true, RateFactor: 4},
	{Match: []string{"*/*"}, NoDecay: true}, // hidden/w: the others belong to groups above
}

// A parameter of a group learns what it learns in a trainer whose options are those of the group, while everything
// else is the same in each step: the trainers exchange their parameters after each batch.
func TestAGroupLearnsAsATrainerWithItsOptions(t *testing.T) {
	schedule := optim.Step{Every: 3, Factor: 0.25}
	alone := map[string]optim.Optimizer{"out/w": optim.Lion{Rate: 0.001, Decay: 0.1}, "out/b": optim.Adam{Rate: 0.04},
		"hidden/b": optim.Adam{Rate: 0.04}, "hidden/w": optim.Adam{Rate: 0.01}}
	for name, opt := range map[string]trainer.Options{
		"plain": {}, "clipped": {Clip: optim.Clip{Norm: 0.3, Value: 0.1}}, "each": {Guard: trainer.GuardEach},
		"scaled": {LossScale: optim.Scaling{Mode: optim.ScaleAlways}},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, dev kernels.Device) {
				const n, batch = 29, 8
				ds := samples(t, n, 4, 3)
				opt.Device, opt.Batch, opt.Fields, opt.Sequential, opt.Seed = dev, batch, ds.Fields(), true, 5
				grouped := opt
				grouped.Groups, grouped.Optimizer, grouped.Schedule = byGroups, optim.AdamW{Rate: 0.01, Decay: 0.2}, schedule
				tr := made(t, small, grouped)
				others := make(map[string]*trainer.Trainer)
				for name, o := range alone {
					opt := opt
					opt.Optimizer, opt.Schedule = o, schedule
					others[name] = made(t, small, opt)
				}
				for range 3 {
					for first := 0; first < n; first += batch {
						part := part(t, ds, first, min(n, first+batch))
						fit(t, tr, part)
						want := make(map[string]string)
						for name, o := range others {
							fit(t, o, part)
							want[name] = learned(t, o)[name]
						}
						for _, o := range others {
							setValues(t, o, want)
						}
						if d := differing(learned(t, tr), want); len(d) > 0 {
							t.Fatalf("samples from %d: %q differ", first, d)
						}
					}
				}
			})
		})
	}
}

// A group's state is counted exactly, and a frozen group is not trained.
func TestGroupsArePlannedExactly(t *testing.T) {
	state := func(opt trainer.Options) (bytes int64) {
		opt.Batch = 8
		plan, err := trainer.Plan(t.Context(), small, opt)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range plan.Regions {
			if r.Name == "optimizer state" {
				bytes = r.Bytes
			}
		}
		return bytes
	}
	// hidden/w 4×8, hidden/b 8, out/w 8×3, out/b 3: AdamW has two numbers for each element, Lion one.
	if got, want := state(trainer.Options{Optimizer: optim.AdamW{}, Groups: byGroups}), int64(4*(2*(32+8+3)+24)); got != want {
		t.Errorf("state of %d bytes, want %d", got, want)
	}
	frozen := []trainer.Group{{Match: []string{"out"}, Frozen: true}, {Match: trainer.BiasesAndNorms, Optimizer: optim.SGD{}}}
	if got, want := state(trainer.Options{Optimizer: optim.AdamW{}, Groups: frozen}), int64(4*2*32); got != want {
		t.Errorf("with a frozen group: state of %d bytes, want %d", got, want)
	}
	tr := made(t, small, trainer.Options{Device: openCPU(t), Batch: 8, Groups: frozen})
	ps, err := tr.Params()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range ps {
		if want := strings.HasPrefix(p.Name, "out/"); p.Frozen != want {
			t.Errorf("%s: frozen %v, want %v", p.Name, p.Frozen, want)
		}
	}
}

func TestGroupsAreChecked(t *testing.T) {
	for want, g := range map[string]trainer.Group{
		"group 0 matches nothing":                           {},
		`group 0: pattern "[": syntax error`:                {Match: []string{"["}},
		`group 0: no parameter matches "other/"`:            {Match: []string{"out", "other/"}},
		"group 0: rate factor -1: must be":                  {Match: []string{"out"}, RateFactor: -1},
		"group 0 is frozen: leave out":                      {Match: []string{"out"}, Frozen: true, NoDecay: true},
		"group 0: adam: Rate is -1":                         {Match: []string{"out"}, Optimizer: optim.Adam{Rate: -1}},
		"have no kernels.UpdateAttrs, whose decay could be": {Match: []string{"out"}, Optimizer: ownAttrs{}, NoDecay: true},
	} {
		_, err := trainer.Plan(t.Context(), small, trainer.Options{Batch: 4, Groups: []trainer.Group{g}})
		if !errors.Is(err, trainer.ErrOption) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	// The rate is checked in every update: a schedule raises it later.
	ds := samples(t, 8, 4, 3)
	tr := made(t, small, trainer.Options{Device: openCPU(t), Batch: 8, Fields: ds.Fields(), Optimizer: optim.SGD{Rate: 0x1p58},
		Schedule: raises{}, Groups: []trainer.Group{{Match: []string{"out"}, RateFactor: 16}}})
	if _, err := tr.Fit(t.Context(), ds); !errors.Is(err, trainer.ErrOption) || !strings.Contains(fmt.Sprint(err), "group 0: ") {
		t.Errorf("got %v, want ErrOption and the group", err)
	}
}

// raises is a schedule of 4 times the rate.
type raises struct{}

func (raises) Rate(base float64, _ int64) float64 { return 4 * base }

// A rate that float32 takes for 0 or for infinite is refused before training, for groups as for optimizers.
func TestTheRateOfAGroupIsInRange(t *testing.T) {
	for _, c := range []struct {
		rate, factor float64
		ok           bool
	}{
		{0x1p-60, 0x1p-3, true}, {0x1p-60, 0x1p-4, false}, {0x1p60, 8, true}, {0x1p60, 16, false},
		{0.01, 1e-300, false}, {0.01, 1e300, false}, {0.01, 1e-10, true},
	} {
		_, err := trainer.Plan(t.Context(), small, trainer.Options{Batch: 4, Optimizer: optim.SGD{Rate: c.rate},
			Groups: []trainer.Group{{Match: []string{"out"}, RateFactor: c.factor}}})
		if c.ok && err != nil {
			t.Errorf("rate %v, factor %v: %v", c.rate, c.factor, err)
		} else if !c.ok && (!errors.Is(err, trainer.ErrOption) || !strings.Contains(fmt.Sprint(err), "group 0: rate factor")) {
			t.Errorf("rate %v, factor %v: got %v, want ErrOption and the group", c.rate, c.factor, err)
		}
	}
}

// ownAttrs is an optimizer whose attributes are its own.
type ownAttrs struct{ optim.SGD }

func (ownAttrs) Attrs(optim.Clip, bool) any { return struct{ Rate float64 }{} }

// part returns the samples first to end-1 of samples.
func part(t testing.TB, ds *dataloader.Slices, first, end int) *dataloader.Slices {
	t.Helper()
	x, y := make([]float32, 4*(end-first)), make([]uint8, end-first)
	for i := range y {
		row := [][]byte{make([]byte, 16), make([]byte, 1)}
		if err := ds.Fetch(t.Context(), dataloader.At{Index: first + i}, row); err != nil {
			t.Fatal(err)
		}
		for k, v := range decoded(row[0]) {
			x[4*i+k] = float32(v)
		}
		y[i] = row[1][0]
	}
	return columns(t, end-first, dataloader.Column("x", x, 4), dataloader.Column("y", y))
}
