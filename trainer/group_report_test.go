package trainer_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// hidden/w 4×8, hidden/b 8, out/w 8×3, out/b 3.
func TestPlansAndSummariesListGroups(t *testing.T) {
	vector := int64(8 * optim.Controls)
	others := report.Group{Optimizer: "AdamW", Rate: 0.02, Decay: 0.25}
	for name, c := range map[string]struct {
		opt  trainer.Options
		want report.Groups
	}{
		"none": {},
		"own optimizer, rate and decay": {trainer.Options{Groups: byGroups}, report.Groups{
			{Match: []string{"out/w"}, Parameters: 1, Elements: 24, Optimizer: "Lion", Rate: 0.001, Decay: 0.1, Controls: vector},
			{Match: trainer.BiasesAndNorms, Parameters: 2, Elements: 11, Optimizer: "AdamW", Rate: 0.08, Controls: vector},
			{Match: []string{"*/*"}, Parameters: 1, Elements: 32, Optimizer: "AdamW", Rate: 0.02},
		}},
		"frozen": {trainer.Options{Frozen: []string{"hidden/b"}, Groups: []trainer.Group{{Match: []string{"out"}, Frozen: true}}}, report.Groups{
			row(others, 1, 32),
			{Match: []string{"out"}, Parameters: 2, Elements: 27, Frozen: true},
			{Parameters: 1, Elements: 8, Frozen: true},
		}},
		"offloaded": {trainer.Options{Offload: trainer.Offload{Parameters: true}, Groups: []trainer.Group{{Match: []string{"out"}, RateFactor: 0.5}}}, report.Groups{
			{Match: []string{"out"}, Parameters: 2, Elements: 27, Optimizer: "AdamW", Rate: 0.01, Decay: 0.25, Controls: vector},
			row(others, 2, 40),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c.opt.Batch, c.opt.Optimizer = 8, optim.AdamW{Rate: 0.02, Decay: 0.25}
			plan, err := trainer.Plan(t.Context(), small, c.opt)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(plan.Groups, c.want) {
				t.Errorf("got\n%+v, want\n%+v", plan.Groups, c.want)
			}
			if text := plan.String(); strings.Contains(text, "\ngroup ") != (c.want != nil) || !strings.Contains(text, c.want.String()) {
				t.Errorf("groups in\n%s", text)
			}
			c.opt.Device = emutest.Open(t, emu.Options{})
			s := made(t, small, c.opt).Summary()
			if !reflect.DeepEqual(s.Groups, c.want) || !strings.HasSuffix(s.String(), c.want.String()) {
				t.Errorf("summary %+v\n%s", s.Groups, s)
			}
		})
	}
}

// row returns g with numbers of parameters and elements.
func row(g report.Group, parameters int, elements int64) report.Group {
	g.Parameters, g.Elements = parameters, elements
	return g
}

func TestGroupsOfSeveralObjectivesNameThem(t *testing.T) {
	plan, err := trainer.Plan(t.Context(), actorCritic, trainer.Options{Batch: 4, Groups: []trainer.Group{{Match: trainer.BiasesAndNorms, RateFactor: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	vector := int64(8 * optim.Controls)
	sgd := report.Group{Parameters: 2, Optimizer: "SGD", Rate: 0.01}
	of := func(objective string, match []string, elements int64, factor float64, controls int64) report.Group {
		g := sgd
		g.Objective, g.Match, g.Elements, g.Rate, g.Controls = objective, match, elements, factor*g.Rate, controls
		return g
	}
	want := report.Groups{ // biases, and weights of corridor·16 + 16·outputs
		of("critic", trainer.BiasesAndNorms, 16+1, 2, vector), of("critic", nil, 5*16+16, 1, 0),
		of("actor", trainer.BiasesAndNorms, 16+2, 2, vector), of("actor", nil, 5*16+32, 1, 0),
	}
	if !reflect.DeepEqual(plan.Groups, want) {
		t.Errorf("got\n%+v, want\n%+v", plan.Groups, want)
	}
}
