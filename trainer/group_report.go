package trainer

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// noGroup is the index of the parameters that no group matches.
const noGroup = -1

// groups lists the parameters by group, objective after objective, and then those that are not
// trained. It is nil without Options.Groups, and of a plan that is not complete or trains nothing.
func (p *planned) groups() (all report.Groups) {
	if len(p.opt.Groups) == 0 || len(p.order) == 0 || p.order[0].mode != compile.Train {
		return nil
	}
	programs := p.trainings()
	if slices.Contains(programs, nil) {
		return nil
	}
	order := append(indices(len(p.opt.Groups)), noGroup)
	frozen := func(name string) bool {
		return !slices.ContainsFunc(programs, func(prog *ir.Program) bool { return slices.Contains(prog.Trained, name) })
	}
	for i, prog := range programs {
		for _, g := range order {
			row := p.updatedGroup(i, g)
			if p.countGroup(&row, g, func(name string) bool { return slices.Contains(prog.Trained, name) }) {
				all = append(all, row)
			}
		}
	}
	for _, g := range order {
		row := report.Group{Match: p.groupMatch(g), Frozen: true}
		if p.countGroup(&row, g, frozen) {
			all = append(all, row)
		}
	}
	return all
}

// indices returns 0 to n-1.
func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// countGroup adds the parameters of group g to a row, those for which with returns true, and reports
// whether there are any.
func (p *planned) countGroup(row *report.Group, g int, with func(name string) bool) bool {
	for _, home := range p.parameters() {
		isParam := slices.ContainsFunc(p.info.params, func(m modelParam) bool { return m.name == home.Name })
		if isParam && p.groupOf(home.Name) == g && with(home.Name) {
			row.Parameters++
			row.Elements += int64(home.Spec.Shape.Elems())
		}
	}
	return row.Parameters > 0
}

// updatedGroup returns a row with the options by which objective i updates the parameters of group g.
func (p *planned) updatedGroup(i, g int) report.Group {
	row := report.Group{Match: p.groupMatch(g)}
	if p.several() {
		row.Objective = p.info.objectives[i].name
	}
	o, factor := p.own[i], 1.0
	rule := groupRule{optimizer: o.optimizer()}
	if g != noGroup {
		rule = p.rules[i][g]
		if f := p.opt.Groups[g].RateFactor; f != 0 {
			factor = f
		}
	}
	row.Optimizer = strings.TrimPrefix(strings.TrimPrefix(fmt.Sprintf("%T", rule.optimizer), "*"), "optim.")
	var controls [optim.Controls]float64
	if optim.WriteControls(rule.optimizer, groupRate{nil, factor}, 1, controls[:]) == nil {
		row.Rate = controls[0]
	}
	row.Decay = decayOf(rule.attrs(o.Clip, false))
	if home, ok := p.homes.Find(ir.Slot, rule.controls); ok && rule.controls != "" {
		row.Controls = home.Spec.Bytes()
	}
	return row
}

// groupMatch returns the patterns of a group; nil for noGroup.
func (p *planned) groupMatch(g int) []string {
	if g == noGroup {
		return nil
	}
	return slices.Clone(p.opt.Groups[g].Match)
}

// decayOf returns the decay in the attributes of an optimizer's operation, 0 if they have none.
func decayOf(attrs any) float64 {
	if a, ok := attrs.(kernels.UpdateAttrs); ok {
		return a.Decay
	}
	if v := reflect.ValueOf(attrs); v.Kind() == reflect.Struct {
		if f := v.FieldByName("UpdateAttrs"); f.IsValid() && f.Type() == reflect.TypeFor[kernels.UpdateAttrs]() {
			return f.FieldByName("Decay").Float()
		}
	}
	return 0
}
