package trainer

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// effect is what a restore does where an option is not the one that the state was saved with.
type effect uint8

const (
	continues    effect = iota // training goes on with the new option
	nextEpoch                  // it goes on with the next epoch
	refuses                    // the restore is refused
	noDifference               // results do not depend on the option
)

// comparedSetting is an option as text, and the effect of a difference.
type comparedSetting struct {
	Setting
	effect effect
}

// settings returns the options that a restore compares.
func (p *planned) settings() (all []Setting) {
	for _, s := range p.comparedSettings() {
		all = append(all, s.Setting)
	}
	return all
}

// comparedSettings returns the options that a restore compares, with their effects.
func (p *planned) comparedSettings() (all []comparedSetting) {
	add := func(e effect, name string, value any) {
		all = append(all, comparedSetting{Setting{name, fmt.Sprint(value)}, e})
	}
	o := &p.opt
	add(nextEpoch, "batch", o.Batch*o.ranks()) // of all ranks, however many share it
	add(nextEpoch, "accumulate", max(1, o.Accumulate))
	order := map[bool]string{true: "that of the dataset", false: "random"}[o.Sequential]
	if o.Sampler != nil {
		order = fmt.Sprintf("%T %s", o.Sampler, valuesOf(o.Sampler))
	}
	add(nextEpoch, "order of samples", order)
	add(nextEpoch, "tail", map[dataloader.Tail]string{dataloader.KeepTail: "kept", dataloader.DropTail: "dropped"}[o.Tail])
	add(nextEpoch, "seed", o.Seed)
	for i := range p.own {
		p.addObjectiveSettings(i, add)
	}
	for g, group := range o.Groups {
		name := fmt.Sprintf("group %d: ", g)
		add(continues, name+"parameters", fmt.Sprintf("%q", group.Match))
		add(continues, name+"rate factor", max(group.RateFactor, map[bool]float64{true: 1}[group.RateFactor == 0]))
		add(continues, name+"decay", !group.NoDecay)
		add(continues, name+"frozen", group.Frozen)
		if group.Optimizer != nil {
			add(refuses, name+"optimizer", kindOf(group.Optimizer))
			add(continues, name+"options of the optimizer", valuesOf(group.Optimizer))
		}
	}
	add(continues, "average", fmt.Sprintf("%+v", o.Average))
	add(continues, "frozen", fmt.Sprintf("%q", o.Frozen))
	add(continues, "unfreeze", fmt.Sprintf("%q", o.Unfreeze))
	add(continues, "precision", o.computeType())
	add(continues, "keep float32", fmt.Sprintf("%q", o.KeepFloat32))
	scaling := o.LossScale
	scaling.State = optim.ScalingState{}
	add(continues, "loss scaling", map[bool]string{true: fmt.Sprintf("%+v", scaling), false: "off"}[o.scaled()])
	add(continues, "guard", map[Guard]string{GuardStep: "step", GuardEach: "each"}[o.Guard])
	add(continues, "skip steps that are not finite", o.SkipNonFinite)
	add(continues, "metrics in training", o.TrainMetrics)
	add(noDifference, "offload", o.Offload)
	add(noDifference, "shard", o.Shard)
	return all
}

// addObjectiveSettings adds the options of objective i.
func (p *planned) addObjectiveSettings(i int, add func(e effect, name string, value any)) {
	own, name := p.own[i], ""
	if o := p.info.objectives[i].name; o != "" {
		name = fmt.Sprintf("objective %q: ", o)
	}
	add(refuses, name+"optimizer", kindOf(own.optimizer()))
	add(continues, name+"options of the optimizer", valuesOf(own.optimizer()))
	schedule := "constant"
	if own.Schedule != nil {
		schedule = fmt.Sprintf("%T %s", own.Schedule, valuesOf(own.Schedule))
	}
	add(continues, name+"schedule", schedule)
	add(continues, name+"clip", fmt.Sprintf("%+v", own.Clip))
	add(nextEpoch, name+"every", p.every(i))
}

// computeType returns the type of products as text.
func (o *Options) computeType() string {
	if o.Precision.Half() {
		return o.Precision.String()
	}
	return "float32"
}

// kindOf names an optimizer and its operation: states of other kinds mean something else.
func kindOf(o optim.Optimizer) string { return fmt.Sprintf("%T, which updates by %s", o, o.Op().Name) }

// valuesOf returns the exported fields of an option as text; nothing of a type that JSON cannot
// hold.
func valuesOf(v any) (s string) {
	defer func() {
		if recover() != nil { // of a method of the type
			s = ""
		}
	}()
	if b, err := json.Marshal(v); err == nil && reflect.Indirect(reflect.ValueOf(v)).Kind() == reflect.Struct {
		return string(b)
	}
	return ""
}

// fingerprint identifies the memory plan: the names and sizes of all regions and of their parts.
func (p *planned) fingerprint() string {
	h := sha256.New()
	for _, r := range p.layout.Regions() {
		fmt.Fprintln(h, r.Name, r.Size)
		for _, part := range r.Parts {
			fmt.Fprintln(h, part.Owner, part.Name, part.Size)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:16])
}

// scheduleStates returns the states of all schedules that have one.
func (p *planned) scheduleStates() (all []ScheduleInfo, err error) {
	for i := range p.own {
		for k, s := range optim.StatefulOf(p.own[i].Schedule) {
			state, err := s.State()
			if err != nil {
				return nil, fmt.Errorf("state of schedule %T: %w", s, err)
			}
			all = append(all, ScheduleInfo{Objective: p.info.objectives[i].name, Index: k, State: state})
		}
	}
	return all, nil
}
