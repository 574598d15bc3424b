package trainer

import (
	"errors"
	"fmt"
	"math"
	"path"
	"reflect"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Group sets options of the parameters that it matches, whichever objective trains them. A
// parameter belongs to the first group of Options.Groups that matches it, and to no other. A field
// that is not set has the value of the objective. Options.Clip.Norm is the norm over all groups of
// an objective. See docs/objectives.md#parameter-groups.
type Group struct {
	// Match lists patterns, as those of layers.Objective. Each must match a parameter. BiasesAndNorms
	// matches all parameters of one dimension.
	Match []string
	// RateFactor multiplies the learning rate, after the schedule. Decay of AdamW, Lion and Adafactor
	// is multiplied, too, since it is a part of their step. Default: 1.
	RateFactor float64
	// Optimizer computes the updates, and has its own state. It counts the updates of the objective.
	Optimizer optim.Optimizer
	// NoDecay leaves out the optimizer's weight decay.
	NoDecay bool
	// Frozen excludes the parameters from training, as Options.Frozen does. A frozen group has none of
	// the other options.
	Frozen bool
}

// oneDimension is the pattern of parameters of one dimension.
const oneDimension = "(one dimension)"

// BiasesAndNorms is a Group.Match for all parameters of one dimension, such as biases, and the
// scales and shifts of normalizations.
//
//	Groups: []trainer.Group{{Match: trainer.BiasesAndNorms, NoDecay: true}}
var BiasesAndNorms = []string{oneDimension}

// groupRule is how an objective updates the parameters of a group.
type groupRule struct {
	optimizer optim.Optimizer
	schedule  optim.Schedule
	noDecay   bool
	controls  string // name of the controls vector; "": the one of the objective's step
}

// groupRate is the schedule of a group: it multiplies the rate of another schedule.
type groupRate struct {
	then   optim.Schedule // nil: the rate stays as it is
	factor float64
}

// Rate implements optim.Schedule.
func (g groupRate) Rate(base float64, t int64) float64 {
	if g.then != nil {
		base = g.then.Rate(base, t)
	}
	return base * g.factor
}

// groupRules returns the rules of all groups in objective i, whose options are o.
func (p *planned) groupRules(o *Options, i int) []groupRule {
	rules := make([]groupRule, len(o.Groups))
	for g, group := range o.Groups {
		r := groupRule{optimizer: o.optimizer(), schedule: o.Schedule, noDecay: group.NoDecay}
		if group.Optimizer != nil {
			r.optimizer = group.Optimizer
		}
		factor := group.RateFactor != 0 && group.RateFactor != 1
		if factor {
			r.schedule = groupRate{o.Schedule, group.RateFactor}
		}
		if group.Optimizer != nil || factor {
			r.controls = p.groupControls(i, g)
		}
		rules[g] = r
	}
	return rules
}

// groupControls returns the name of the controls vector of a group in objective i.
func (p *planned) groupControls(i, group int) string {
	return fmt.Sprintf("controls/%s#%d", p.objectiveName(i), group+1)
}

// attrs returns the attributes of the optimizer's operation.
func (r *groupRule) attrs(clip optim.Clip, scaled bool) any {
	a := r.optimizer.Attrs(clip, scaled)
	if r.noDecay {
		a, _ = withoutDecay(a)
	}
	return a
}

// withoutDecay returns the attributes of an optimizer's operation with a decay of 0. ok is false if
// it has no kernels.UpdateAttrs.
func withoutDecay(attrs any) (_ any, ok bool) {
	v := reflect.New(reflect.TypeOf(attrs)).Elem()
	v.Set(reflect.ValueOf(attrs))
	common := v
	if common.Type() != reflect.TypeFor[kernels.UpdateAttrs]() {
		if common.Kind() != reflect.Struct {
			return attrs, false
		}
		common = common.FieldByName("UpdateAttrs")
	}
	if !common.IsValid() || common.Type() != reflect.TypeFor[kernels.UpdateAttrs]() {
		return attrs, false
	}
	common.FieldByName("Decay").SetFloat(0)
	return v.Interface(), true
}

// groupOf returns the index of the group that a parameter belongs to, -1 if there is none.
func (p *planned) groupOf(name string) int {
	return slices.IndexFunc(p.opt.Groups, func(g Group) bool {
		return slices.ContainsFunc(g.Match, func(pattern string) bool { return p.matches(pattern, name) })
	})
}

// matches is matches with the pattern of BiasesAndNorms.
func (p *planned) matches(pattern, name string) bool {
	if pattern != oneDimension {
		return matches(pattern, name)
	}
	return p.info != nil && slices.ContainsFunc(p.info.params, func(m modelParam) bool { return m.name == name && m.dims == 1 })
}

// ruleOf returns the rule of update for a parameter whose group has one, else nil.
func (p *planned) ruleOf(rules []groupRule, clip optim.Clip, scaled bool) func(string, kernels.Spec) *compile.Rule {
	return func(name string, _ kernels.Spec) *compile.Rule {
		g := p.groupOf(name)
		if g < 0 {
			return nil
		}
		r := &rules[g]
		return &compile.Rule{Op: r.optimizer.Op(), States: r.optimizer.States, Attrs: r.attrs(clip, scaled), Controls: r.controls}
	}
}

// checkGroups returns every mistake in Options.Groups that shows without a model.
func (o *Options) checkGroups() error {
	bad := &mistakes{class: ErrOption}
	for i, g := range o.Groups {
		if len(g.Match) == 0 {
			bad.addf("group %d matches nothing: set Match", i)
		}
		for _, pattern := range g.Match {
			if _, err := path.Match(pattern, ""); err != nil {
				bad.addf("group %d: pattern %q: %v", i, pattern, err)
			}
		}
		if f := g.RateFactor; !(f >= 0) || math.IsInf(f, 0) {
			bad.addf("group %d: rate factor %v: must be positive and finite, or 0 for 1", i, f)
		}
		if g.Frozen && (g.RateFactor != 0 || g.Optimizer != nil || g.NoDecay) {
			bad.addf("group %d is frozen: leave out its other options", i)
		}
		optimizer := g.Optimizer
		if optimizer == nil {
			optimizer = o.optimizer()
		}
		if err := optim.Check(optimizer, nil, o.Clip); err != nil {
			if g.Optimizer != nil { // else it is an error of Options
				bad.errs = append(bad.errs, fmt.Errorf("group %d: %w", i, err))
			}
		} else if _, ok := withoutDecay(optimizer.Attrs(o.Clip, false)); g.NoDecay && !ok {
			bad.addf("group %d: the attributes of %T have no kernels.UpdateAttrs, whose decay could be left out", i, optimizer)
		}
	}
	return errors.Join(bad.errs...)
}

// checkGroups returns an error for each pattern of a group that no parameter of the model matches, and
// for each whose rate is out of range.
func (p *planned) checkGroups() error {
	bad := &mistakes{class: ErrOption}
	for i, g := range p.opt.Groups {
		for _, pattern := range g.Match {
			if !slices.ContainsFunc(p.info.params, func(m modelParam) bool { return p.matches(pattern, m.name) }) {
				bad.addf("group %d: no parameter matches %q", i, pattern)
			}
		}
		p.checkGroupRate(i, bad)
	}
	return errors.Join(bad.errs...)
}

// checkGroupRate adds an error for each objective in which the rate of a group, before any schedule, is
// one that an optimizer's Validate refuses: parameters would stay as they are, or overflow.
func (p *planned) checkGroupRate(group int, bad *mistakes) {
	factor := p.opt.Groups[group].RateFactor
	if factor == 0 || factor == 1 {
		return
	}
	for k, rules := range p.rules {
		var base, dst [optim.Controls]float64
		o := rules[group].optimizer
		if optim.WriteControls(o, nil, 1, base[:]) != nil || base[0] == 0 {
			continue // it is an error of the optimizer, or there is no rate
		}
		if err := optim.WriteControls(o, groupRate{nil, factor}, 1, dst[:]); err == nil && dst[0] > 0 {
			continue
		}
		of := ""
		if p.several() {
			of = fmt.Sprintf(" in objective %q", p.info.objectives[k].name)
		}
		bad.addf("group %d: rate factor %v times the rate %v%s is %v: must be 2^-63 to 2^63, because float32 takes "+
			"products with others for 0 or infinite: to train nothing, set Frozen", group, factor, base[0], of, factor*base[0])
	}
}

// groupStep is the controls vector of a group in a slot.
type groupStep struct {
	group    int
	controls []float64
	span     arena.Span
}

// writeGroupControls writes the controls of groups for an update. The trainer's own numbers are
// those of the step, which are written already.
func (p *epochPass) writeGroupControls(s *slot, update int64) error {
	for _, g := range s.groups {
		r := &p.t.plan.rules[s.objective][g.group]
		p.t.memory.willWrite(g.span)
		if err := optim.WriteControls(r.optimizer, r.schedule, update, g.controls); err != nil {
			return fmt.Errorf("group %d: %w", g.group, err)
		}
		p.t.lowerRate(g.controls)
		for _, k := range [...]int{kernels.ControlUnscale, kernels.ControlShare, kernels.ControlStep} {
			g.controls[k] = s.controls[k]
		}
	}
	return nil
}
