package trainer

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Objective sets the options of one of Model.Objectives. A field that is not set has the value of
// Options. See docs/objectives.md.
type Objective struct {
	// Name is that of the objective in Model.Objectives.
	Name string
	// Optimizer, Schedule and Clip are as in Options. A schedule counts the updates of this objective,
	// and so does the optimizer.
	Optimizer optim.Optimizer
	Schedule  optim.Schedule
	Clip      optim.Clip
	// Every k lets the objective have a step in batches 0, k, 2k, … of an epoch only; with
	// Options.Accumulate, in windows 0, k, 2k, … Default 0 or 1: in every batch. One objective at
	// least must have a step in every batch.
	Every int
}

// ObjectiveResult holds the measurements of one objective in a pass.
type ObjectiveResult struct {
	Name    string  // "" if the model has Model.Loss instead of objectives
	Loss    float64 // mean over the samples of its steps, weighted by its Weight if it has one; NaN if it had no step
	Steps   int
	Skipped int // updates skipped; see Result.Skipped
	// NonFinite counts the steps that Options.SkipNonFinite skipped. Loss is the mean without those
	// whose loss is not finite.
	NonFinite int
}

// modelInfo is what a plan has to know of a model before it is compiled. It is the same for every
// batch.
type modelInfo struct {
	objectives []modelObjective // one at least
	params     []modelParam     // that can be trained
	frozen     []string         // names of parameters and statistics with layers.Param.Frozen
}

// modelObjective is a layers.Objective without its nodes.
type modelObjective struct {
	name   string
	params []string // patterns; nil: all
}

// modelParam is a parameter of floating-point numbers.
type modelParam struct {
	name string
	dims int
}

// objectivesOf returns the objectives of a model: Model.Loss is the only one of a model without
// Objectives.
func objectivesOf(m Model) []layers.Objective {
	if m.Objectives == nil {
		return []layers.Objective{{Loss: m.Loss, Weight: m.Weight}}
	}
	return m.Objectives
}

// describeModel returns what a plan has to know of m, whose graph is g.
func describeModel(g *gorgonia.ExprGraph, m Model) *modelInfo {
	info := &modelInfo{}
	for _, o := range objectivesOf(m) {
		info.objectives = append(info.objectives, modelObjective{name: o.Name, params: slices.Clone(o.Params)})
	}
	listed := make(map[*gorgonia.Node]bool)
	for _, p := range m.Params {
		listed[p.Node] = true
	}
	for _, p := range slices.Concat(m.Params, m.Statistics) {
		if p.Frozen {
			info.frozen = append(info.frozen, p.Node.Name())
		}
	}
	for _, n := range g.AllNodes() {
		isParam := listed[n] || n.IsVar() && n.Value() != nil && !slices.Contains(m.Inputs, n) &&
			!slices.ContainsFunc(m.Statistics, func(s layers.Param) bool { return s.Node == n })
		if isParam && (n.Dtype() == gorgonia.Float32 || n.Dtype() == gorgonia.Float64) {
			info.params = append(info.params, modelParam{name: n.Name(), dims: n.Dims()})
		}
	}
	return info
}

// matches reports whether pattern selects the parameter called name: it is the name, that of its
// layer or scope, with or without a final "/", or a pattern of path.Match.
func matches(pattern, name string) bool {
	if ir.Within(pattern, name) {
		return true
	}
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// matchesAny reports whether one of patterns selects the parameter called name.
func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

// learn records what the plan has to know of a model. It must be the same each time.
func (p *planned) learn(info *modelInfo) error {
	if p.info == nil {
		p.setInfo(info)
		return p.checkObjectives()
	}
	if !slices.EqualFunc(p.info.objectives, info.objectives, func(a, b modelObjective) bool {
		return a.name == b.name && slices.Equal(a.params, b.params)
	}) {
		return fmt.Errorf("the model function returned other objectives than before: they must not depend on the batch: %w", ErrModel)
	}
	return nil
}

// setInfo records what the plan has to know of its model, for the first time.
func (p *planned) setInfo(info *modelInfo) {
	p.info = info
	for i := range info.objectives {
		own := p.objectiveOptions(&p.opt, i)
		p.own, p.rules = append(p.own, own), append(p.rules, p.groupRules(own, i))
	}
}

// several reports whether the model has more than one objective.
func (p *planned) several() bool { return p.info != nil && len(p.info.objectives) > 1 }

// objectives returns the number of objectives that have programs of a mode: evaluation and
// prediction have one for all.
func (p *planned) objectives(mode compile.Mode) int {
	if mode != compile.Train || p.info == nil {
		return 1
	}
	return len(p.info.objectives)
}

// objectiveName returns the name of an objective in homes and programs: "" for the first.
func (p *planned) objectiveName(i int) string {
	if i == 0 || p.info == nil {
		return ""
	}
	return p.info.objectives[i].name
}

// controlsName returns the name of the controls vector of objective i.
func (p *planned) controlsName(i int) string {
	if i == 0 {
		return ir.ControlsName
	}
	return ir.ControlsName + "/" + p.objectiveName(i)
}

// objectiveOptions returns the options of objective i: o with those of Options.Objectives.
func (p *planned) objectiveOptions(o *Options, i int) *Options {
	own := o.objective(p.info.objectives[i].name)
	if own == nil {
		return o
	}
	with := *o
	if own.Optimizer != nil {
		with.Optimizer = own.Optimizer
	}
	if own.Schedule != nil {
		with.Schedule = own.Schedule
	}
	if own.Clip != (optim.Clip{}) {
		with.Clip = own.Clip
	}
	return &with
}

// objective returns the options of an objective; nil if it has none.
func (o *Options) objective(name string) *Objective {
	for i := range o.Objectives {
		if o.Objectives[i].Name == name {
			return &o.Objectives[i]
		}
	}
	return nil
}

// objectiveNamed returns the index of an objective, the first one for "", and -1 if there is none.
func (p *planned) objectiveNamed(name string) int {
	if name == "" {
		return 0
	}
	return slices.IndexFunc(p.info.objectives, func(o modelObjective) bool { return o.name == name })
}

// every returns k of an objective that has a step in each k-th window.
func (p *planned) every(i int) int {
	if p.info == nil {
		return 1
	}
	if o := p.opt.objective(p.info.objectives[i].name); o != nil {
		return max(1, o.Every)
	}
	return 1
}

// runs reports whether objective i has a step in the batch of that number of an epoch.
func (p *planned) runs(i, batch int) bool { return batch/max(1, p.opt.Accumulate)%p.every(i) == 0 }

// runsBefore returns the number of steps of objective i in the batches of an epoch before batch.
//
//	Accumulate 2, Every 3:   batch │ 0 1 │ 2 3 │ 4 5 │ 6 7 │ 8 …
//	                         step  │ 0 1 │     │     │ 2 3 │
func (p *planned) runsBefore(i, batch int) int {
	n, k := max(1, p.opt.Accumulate), p.every(i)
	windows, rest := batch/n, batch%n
	steps := (windows + k - 1) / k * n
	if windows%k == 0 {
		steps += rest
	}
	return steps
}

// frozen reports whether no objective trains a parameter in a stage of Options.Unfreeze, or whether
// a statistic does not change in it.
func (p *planned) frozen(name string, stage int) bool {
	if p.info != nil && slices.Contains(p.info.frozen, name) {
		return true
	}
	if slices.ContainsFunc(p.opt.Unfreeze[:stage], func(patterns []string) bool { return matchesAny(patterns, name) }) {
		return false
	}
	if g := p.groupOf(name); g >= 0 && p.opt.Groups[g].Frozen {
		return true
	}
	return p.opt.frozen(name)
}

// trains reports whether objective i trains a parameter in a stage.
func (p *planned) trains(i int, name string, stage int) bool {
	patterns := p.info.objectives[i].params
	return !p.frozen(name, stage) && (patterns == nil || matchesAny(patterns, name))
}

// trainedBefore reports whether an objective before i trains a parameter, too.
func (p *planned) trainedBefore(i int, name string, stage int) bool {
	for k := range i {
		if p.trains(k, name, stage) {
			return true
		}
	}
	return false
}

// trained reports whether an objective trains a parameter in a stage.
func (p *planned) trained(name string, stage int) bool {
	return p.info != nil && p.trainedBefore(len(p.info.objectives), name, stage)
}

// hasParam reports whether pattern selects a parameter of the model.
func (p *planned) hasParam(pattern string) bool {
	return slices.ContainsFunc(p.info.params, func(m modelParam) bool { return matches(pattern, m.name) })
}

// checkObjectives returns every mistake in the objectives of the model and in their options.
func (p *planned) checkObjectives() error {
	model, option := &mistakes{class: ErrModel}, &mistakes{class: ErrOption}
	for _, o := range p.info.objectives {
		for _, pattern := range o.params {
			if _, err := path.Match(pattern, ""); err != nil {
				model.addf("objective %q: pattern %q: %v", o.name, pattern, err)
			} else if !p.hasParam(pattern) {
				model.addf("objective %q: no parameter matches %q", o.name, pattern)
			}
		}
	}
	last := len(p.opt.Unfreeze)
	for _, m := range p.info.params {
		if !p.frozen(m.name, last) && !p.trained(m.name, last) {
			model.addf("parameter %q is trained by no objective: list it in Params of one, or freeze it", m.name)
		}
	}
	steady := false // an objective has a step in every batch
	for i := range p.info.objectives {
		steady = steady || p.every(i) == 1
	}
	if !steady {
		option.addf("objectives: one at least must have Every 1, so that every batch has a step")
	}
	for _, o := range p.opt.Objectives {
		if !slices.ContainsFunc(p.info.objectives, func(m modelObjective) bool { return m.name == o.Name }) {
			option.addf("options of objective %q: the model has no objective of that name", o.Name)
		}
	}
	return errors.Join(append(append(model.errs, option.errs...), p.checkGroups(), p.checkUnfreeze())...)
}

// checkObjectives returns every mistake in Options.Objectives that shows without a model.
func (o *Options) checkObjectives() error {
	bad := &mistakes{class: ErrOption}
	for i, own := range o.Objectives {
		if slices.ContainsFunc(o.Objectives[:i], func(b Objective) bool { return b.Name == own.Name }) {
			bad.addf("two objectives are called %q", own.Name)
		}
		if own.Every < 0 {
			bad.addf("objective %q: every %d: must be 1 or more, or 0 for every batch", own.Name, own.Every)
		}
		optimizer := own.Optimizer
		if optimizer == nil {
			optimizer = o.optimizer()
		}
		if err := optim.Check(optimizer, own.Schedule, own.Clip); err != nil {
			bad.errs = append(bad.errs, fmt.Errorf("objective %q: %w", own.Name, err))
		}
	}
	return errors.Join(bad.errs...)
}

// checkModelObjectives checks Model.Objectives.
func (c *modelCheck) checkModelObjectives(m Model, rows int) {
	if m.Objectives != nil && (m.Loss != nil || m.Weight != nil) {
		c.addf("the model has both Objectives and a Loss or Weight: set the fields of an objective instead")
	}
	if m.Objectives != nil && len(m.Objectives) == 0 {
		c.addf("the model's Objectives are empty: leave them nil and set Loss")
	}
	for i, o := range m.Objectives {
		switch {
		case o.Name == "":
			c.addf("objective %d has no name", i)
		case strings.ContainsAny(o.Name, "/#"):
			c.addf("objective %q: its name must contain neither \"/\" nor \"#\"", o.Name)
		case slices.ContainsFunc(m.Objectives[:i], func(b layers.Objective) bool { return b.Name == o.Name }):
			c.addf("two objectives are called %q", o.Name)
		}
		if o.Loss == nil {
			c.addf("objective %q has no loss", o.Name)
		}
	}
	for _, o := range objectivesOf(m) {
		c.inGraph("Loss", o.Loss)
		c.inGraph("Weight", o.Weight)
		// A sample has as many weights as every other one: short batches have the same kind of program.
		if n := o.Weight; n != nil && (n.Shape().TotalSize() == 0 || n.Shape().TotalSize()%rows != 0) {
			c.addf("weight %q is %v: it must have one or more elements a sample", n.Name(), n.Shape())
		}
	}
}
