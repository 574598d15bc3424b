package trainer_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// critics are two regressors over one input: a tower of its own each, over a trunk that the second trains.
// objectives selects those that the model has, 0 and 1.
func critics(objectives ...int) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (m trainer.Model, err error) {
		net := layers.New(g)
		x := net.Input("x", batch, 4)
		y := net.Input("y", batch, 1)
		trunk := net.Dense(x, "trunk", 6, layers.Tanh)
		var losses []layers.Objective
		for i, name := range []string{"first", "second"} {
			h := net.Dense(trunk, name+"/hidden", 8, layers.ReLU)
			out := net.Dense(h, name+"/out", 1, nil)
			if m.Output == nil {
				m.Output = out
			}
			loss := net.Mean(net.Square(net.Sub(out, y, ""), ""), name+"/loss", layers.Reduce{})
			losses = append(losses, layers.Objective{Name: name, Loss: loss, Params: [][]string{{"first/"}, {"second/", "trunk"}}[i]})
		}
		for _, i := range objectives {
			m.Objectives = append(m.Objectives, losses[i])
		}
		m.Inputs, m.Params = net.Inputs(), net.Params()
		return m, net.Err()
	}
}

// regression returns the samples first to end-1 of data for critics.
func regression(t testing.TB, first, end int) *dataloader.Slices {
	r := rand.New(rand.NewPCG(1, 2))
	var x, y []float32
	for range end {
		v := []float32{float32(r.NormFloat64()), float32(r.NormFloat64()), float32(r.NormFloat64()), float32(r.NormFloat64())}
		x, y = append(x, v...), append(y, v[0]*v[1]+0.5*v[2])
	}
	return columns(t, end-first, dataloader.Column("x", x[4*first:], 4), dataloader.Column("y", y[first:], 1))
}

// setValues writes the parameters that from has.
func setValues(t testing.TB, tr *trainer.Trainer, from map[string]string) {
	t.Helper()
	ps, err := tr.Params()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range ps {
		if b, ok := from[p.Name]; ok {
			if err := p.Write([]byte(b)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Two objectives train as two trainers of one objective each do that pass their parameters on, one batch after the
// other: each has its own optimizer, schedule and clipping, and counts its own updates.
func TestObjectivesTrainAsTrainersOfTheirOwn(t *testing.T) {
	own := []trainer.Objective{
		{Name: "first", Optimizer: optim.Adam{Rate: 0.01}, Schedule: optim.Step{Every: 3, Factor: 0.5}, Clip: optim.Clip{Norm: 0.5}},
		{Name: "second", Optimizer: optim.AdamW{Rate: 0.02}},
	}
	for _, guard := range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
		for _, every := range []int{1, 3} {
			t.Run(fmt.Sprint("guard ", guard, " every ", every), func(t *testing.T) {
				each(t, func(t *testing.T, dev kernels.Device) {
					const batch, n = 8, 53
					all := regression(t, 0, n)
					opt := trainer.Options{Device: dev, Batch: batch, Fields: all.Fields(), Sequential: true, Seed: 3, Guard: guard}
					both := opt
					both.Objectives = []trainer.Objective{own[0], own[1]}
					both.Objectives[1].Every = every
					tr := made(t, critics(0, 1), both)
					var alone []*trainer.Trainer
					for i, o := range own {
						opt := opt
						opt.Optimizer, opt.Schedule, opt.Clip = o.Optimizer, o.Schedule, o.Clip
						opt.Frozen = [][]string{{"second/", "trunk"}, {"first/"}}[i]
						alone = append(alone, made(t, critics(i), opt))
					}
					for range 3 {
						res := fit(t, tr, all)
						var sums [2]float64
						samples := [2]int{}
						for first := 0; first < n; first += batch {
							part := regression(t, first, min(n, first+batch))
							for i, a := range alone {
								if i == 1 && first/batch%every != 0 {
									continue
								}
								setValues(t, a, learned(t, alone[1-i]))
								got := fit(t, a, part)
								sums[i] += got.Loss * float64(got.Samples)
								samples[i] += got.Samples
							}
							if i := first / batch % every; i != 0 {
								setValues(t, alone[1], learned(t, alone[0]))
							}
						}
						for i, l := range res.Losses {
							if l.Name != own[i].Name || !about(l.Loss, sums[i]/float64(samples[i]), 1e-12) || l.Steps == 0 {
								t.Errorf("objective %d: %+v, want a loss of %v", i, l, sums[i]/float64(samples[i]))
							}
						}
						if res.Loss != res.Losses[0].Loss || res.Samples != n || res.Steps != 7 {
							t.Errorf("result %+v", res)
						}
					}
					if got, want := learned(t, tr), learned(t, alone[1]); !reflect.DeepEqual(got, want) {
						t.Errorf("parameters that differ: %q", differing(got, want))
					}
				})
			})
		}
	}
}

func TestObjectivesAreChecked(t *testing.T) {
	change := func(f func(m *trainer.Model)) trainer.ModelFunc {
		return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			m, err := critics(0, 1)(g, batch)
			f(&m)
			return m, err
		}
	}
	none := func(*trainer.Model) {}
	for want, c := range map[string]struct {
		class error
		model func(m *trainer.Model)
		opt   trainer.Options
	}{
		`objective "first": no parameter matches "nothing/"`: {trainer.ErrModel, func(m *trainer.Model) {
			m.Objectives[0].Params = []string{"first/", "nothing/"}
		}, trainer.Options{}},
		`parameter "trunk/w" is trained by no objective`: {trainer.ErrModel, func(m *trainer.Model) {
			m.Objectives[1].Params = []string{"second/*/*"}
		}, trainer.Options{}},
		`parameter "second/out/w" is trained by no objective`: {trainer.ErrModel, func(m *trainer.Model) {
			m.Objectives = m.Objectives[:1]
		}, trainer.Options{}},
		`both Objectives and a Loss`:                {trainer.ErrModel, func(m *trainer.Model) { m.Loss = m.Objectives[0].Loss }, trainer.Options{}},
		`Objectives are empty`:                      {trainer.ErrModel, func(m *trainer.Model) { m.Objectives = m.Objectives[:0] }, trainer.Options{}},
		`objective 1 has no name`:                   {trainer.ErrModel, func(m *trainer.Model) { m.Objectives[1].Name = "" }, trainer.Options{}},
		`objective "a/b": its name must contain`:    {trainer.ErrModel, func(m *trainer.Model) { m.Objectives[1].Name = "a/b" }, trainer.Options{}},
		`two objectives are called "first"`:         {trainer.ErrModel, func(m *trainer.Model) { m.Objectives[1].Name = "first" }, trainer.Options{}},
		`objective "second" has no loss`:            {trainer.ErrModel, func(m *trainer.Model) { m.Objectives[1].Loss = nil }, trainer.Options{}},
		`pattern "[": syntax error in pattern`:      {trainer.ErrModel, func(m *trainer.Model) { m.Objectives[1].Params = []string{"["} }, trainer.Options{}},
		`"first/loss" does not depend on ["second/`: {trainer.ErrModel, func(m *trainer.Model) { m.Objectives[0].Params = nil }, trainer.Options{}},
		`the model has no objective of that name`:   {trainer.ErrOption, none, trainer.Options{Objectives: []trainer.Objective{{Name: "third"}}}},
		`two objectives are called "third"`:         {trainer.ErrOption, none, trainer.Options{Objectives: []trainer.Objective{{Name: "third"}, {Name: "third"}}}},
		`one at least must have Every 1`: {trainer.ErrOption, none, trainer.Options{Objectives: []trainer.Objective{
			{Name: "first", Every: 2}, {Name: "second", Every: 3}}}},
		`objective "first": every -1`:               {trainer.ErrOption, none, trainer.Options{Objectives: []trainer.Objective{{Name: "first", Every: -1}}}},
		`objective "first": adam: Rate is -1`:       {trainer.ErrOption, none, trainer.Options{Objectives: []trainer.Objective{{Name: "first", Optimizer: optim.Adam{Rate: -1}}}}},
		`objective "first": clip: Norm is -1, must`: {trainer.ErrOption, none, trainer.Options{Objectives: []trainer.Objective{{Name: "first", Clip: optim.Clip{Norm: -1}}}}},
	} {
		c.opt.Batch = 4
		_, err := trainer.Plan(t.Context(), change(c.model), c.opt)
		if !errors.Is(err, c.class) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Where the step of an objective fails, neither that step nor the one of the next objective, which may be in flight, changes
// a parameter. The error names what was not finite, and training goes on afterwards.
func TestAFailedObjectiveStopsTheNext(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		good := regression(t, 0, 16)
		x, y := make([]float32, 4*32), make([]float32, 32)
		for i := range 32 {
			dst := [][]byte{bytesOf(x[4*i : 4*i+4]), bytesOf(y[i : i+1])}
			if err := regression(t, 0, 32).Fetch(t.Context(), dataloader.At{Index: i}, dst); err != nil {
				t.Fatal(err)
			}
		}
		x[4*20] = float32(math.NaN())
		bad := columns(t, 32, dataloader.Column("x", x, 4), dataloader.Column("y", y, 1))
		opt := trainer.Options{Device: dev, Batch: 8, Fields: good.Fields(), Sequential: true, Optimizer: optim.Adam{}}
		tr, other := made(t, critics(0, 1), opt), made(t, critics(0, 1), opt)
		_, err := tr.Fit(t.Context(), bad)
		var e *trainer.NonFiniteError
		if !errors.As(err, &e) || !strings.Contains(err.Error(), "step 2: ") || e.Sample != 20 {
			t.Errorf("got %v, want a NonFiniteError of sample 20 in step 2", err)
		}
		for range 2 {
			fit(t, other, good)
			if d := differing(learned(t, tr), learned(t, other)); len(d) > 0 {
				t.Errorf("%q differ from those after the good steps", d)
			}
			fit(t, tr, good)
		}
	})
}
