package trainer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// RestoreError lists why a state does not fit a trainer. Nothing was changed. It wraps ErrOption if
// options are the only reason, else ErrModel.
type RestoreError struct {
	Missing []NamedSpec  // tensors of the trainer that the state lacks
	Extra   []NamedSpec  // tensors of the state that the trainer lacks
	Other   []Mismatch   // tensors of another type or shape; Want is the trainer's
	Model   []string     // other differences of the models
	Options []Difference // options that differ and prevent the restore
}

func (e *RestoreError) Error() string {
	parts := slices.Clone(e.Model)
	parts = appendSome(parts, e.Other, func(m Mismatch) string {
		return fmt.Sprintf("%q is %s in the state and %s in the trainer", m.Name, m.Got, m.Want)
	})
	parts = appendSome(parts, e.Missing, func(x NamedSpec) string { return fmt.Sprintf("the state has no %q %v", x.Name, x.Spec) })
	parts = appendSome(parts, e.Extra, func(x NamedSpec) string { return fmt.Sprintf("the trainer has no %q %v", x.Name, x.Spec) })
	parts = appendSome(parts, e.Options, Difference.String)
	return fmt.Sprintf("the state does not fit the trainer: %s: %v", strings.Join(parts, "; "), e.Unwrap())
}

// mostListed bounds how many mistakes of a kind a message lists.
const mostListed = 30

// appendSome appends the texts of the first ones of all, and how many there are more.
func appendSome[T any](parts []string, all []T, text func(T) string) []string {
	for i, x := range all {
		if i == mostListed {
			return append(parts, fmt.Sprintf("and %d more", len(all)-i))
		}
		parts = append(parts, text(x))
	}
	return parts
}

// Unwrap returns ErrOption or ErrModel.
func (e *RestoreError) Unwrap() error {
	if len(e.Missing) == 0 && len(e.Extra) == 0 && len(e.Other) == 0 && len(e.Model) == 0 {
		return ErrOption
	}
	return ErrModel
}

// err returns e if it lists anything.
func (e *RestoreError) err() error {
	if len(e.Missing) == 0 && len(e.Extra) == 0 && len(e.Other) == 0 && len(e.Model) == 0 && len(e.Options) == 0 {
		return nil
	}
	return e
}

// newRestoration compares a state with the trainer.
func (t *Trainer) newRestoration(info Info, tensors []NamedSpec, opt RestoreOptions) (*restoration, error) {
	r := &restoration{trainer: t, opt: opt, info: info, exact: !opt.NextEpoch && !opt.ParametersOnly}
	bad := &RestoreError{}
	if info.Version != InfoVersion {
		return nil, fmt.Errorf("the state has version %d, and this package reads %d: %w", info.Version, InfoVersion, ErrData)
	}
	if !opt.ParametersOnly { // which takes no other number
		if t.compareObjectives(&info, bad); len(bad.Model) == 0 {
			if err := info.check(t.plan); err != nil {
				return nil, err
			}
		}
		r.compareSettings(bad)
		if err := r.compareData(); err != nil {
			return nil, err
		}
	}
	r.compareTensors(tensors, bad)
	r.compareRest()
	r.Position = Position{Epoch: info.Epochs}
	switch {
	case opt.ParametersOnly:
		r.Position = Position{}
	case r.exact && info.Epoch != nil:
		r.Position = info.Position
	}
	return r, bad.err()
}

// compareObjectives compares the objectives of the models.
func (t *Trainer) compareObjectives(info *Info, bad *RestoreError) {
	var saved, now []string
	for _, o := range info.Objectives {
		saved = append(saved, o.Name)
	}
	for _, o := range t.plan.info.objectives {
		now = append(now, o.name)
	}
	if !slices.Equal(saved, now) {
		bad.Model = append(bad.Model, fmt.Sprintf("the objectives are %q in the state and %q in the trainer", saved, now))
	}
}

// check returns an error that wraps ErrData if the numbers cannot be those of a trainer with plan
// p.
func (i *Info) check(p *planned) error {
	n, window := len(p.info.objectives), max(1, windowOf(i))
	bad := &mistakes{class: ErrData}
	must := func(ok bool, format string, args ...any) {
		if !ok {
			bad.addf("damaged state: "+format, args...)
		}
	}
	must(i.Epochs >= 0 && i.Steps >= 0 && i.UpdatesBefore >= 0, "%d epochs, %d steps, %d updates", i.Epochs, i.Steps, i.UpdatesBefore)
	must(i.RateFactor > 0 && i.RateFactor <= 1, "rate factor %v", i.RateFactor)
	must(i.Stage >= 0, "stage %d", i.Stage)
	for _, o := range i.Objectives {
		must(o.Updates >= 0 && o.NonFinite >= 0, "%d updates of objective %q, %d steps in a row that are not finite", o.Updates, o.Name, o.NonFinite)
	}
	if s := i.LossScale; s != (optim.ScalingState{}) {
		if err := (optim.Scaling{State: s}).Validate(); err != nil {
			bad.errs = append(bad.errs, fmt.Errorf("damaged state: %w: %w", err, ErrData))
		}
	}
	if e := i.Epoch; e == nil {
		must(i.Position == Position{Epoch: i.Epochs}, "position %+v after %d epochs", i.Position, i.Epochs)
	} else {
		must(i.Position.Epoch >= 0 && i.Position.Epoch < i.Epochs && i.Position.Step >= 0 && i.Position.Step < e.Steps,
			"position %+v in %d steps of epoch %d", i.Position, e.Steps, i.Epochs-1)
		must(p.objectiveNamed(i.Position.Objective) >= 0, "next objective %q", i.Position.Objective)
		must(len(e.Sums) == n && len(e.UpdatesSince) == n, "sums of %d objectives and updates of %d, not %d", len(e.Sums), len(e.UpdatesSince), n)
		must(e.Samples >= 0 && e.Uploaded >= 0 && e.Data.Samples > 0, "%d of %d samples, %d bytes", e.Samples, e.Data.Samples, e.Uploaded)
	}
	for _, w := range i.Windows {
		must(p.objectiveNamed(w.Objective) >= 0 && w.Steps > 0 && w.Steps < window, "window %+v of %d steps", w, window)
	}
	return errors.Join(bad.errs...)
}

// windowOf returns the steps of a window of Options.Accumulate in the trainer that the state is of.
func windowOf(i *Info) (n int) {
	for _, s := range i.Settings {
		if s.Name == "accumulate" {
			_, _ = fmt.Sscan(s.Value, &n) // 0 if it is no number
		}
	}
	return n
}

// compareSettings compares the options.
func (r *restoration) compareSettings(bad *RestoreError) {
	t := r.trainer
	saved := make(map[string]string)
	for _, s := range r.info.Settings {
		saved[s.Name] = s.Value
	}
	if n := len(t.plan.opt.Unfreeze); r.info.Stage > n {
		bad.Options = append(bad.Options, Difference{"unfreeze", fmt.Sprintf("stage %d", r.info.Stage), fmt.Sprintf("%d stages", n),
			"set the Options.Unfreeze of the trainer that the state is of"})
	}
	if r.info.Device != t.plan.opt.Device.Name() {
		r.differ("device", r.info.Device, t.plan.opt.Device.Name(), "training goes on; bits are the same where both compute the same bits")
	}
	for _, now := range t.plan.comparedSettings() {
		was, ok := saved[now.Name]
		if !ok {
			was = "nothing"
		}
		if was == now.Value {
			continue
		}
		switch now.effect {
		case refuses:
			bad.Options = append(bad.Options, Difference{now.Name, was, now.Value,
				"its state means something else: set the same, or RestoreOptions.ParametersOnly"})
		case nextEpoch:
			r.differ(now.Name, was, now.Value, r.leaveEpoch())
		case continues:
			r.differ(now.Name, was, now.Value, "training goes on with it")
		case noDifference:
			r.differ(now.Name, was, now.Value, "it makes no difference")
		}
	}
	if r.info.Plan != t.captures.fingerprint {
		r.differ("memory plan", r.info.Plan, t.captures.fingerprint, "it makes no difference by itself")
	}
}

// leaveEpoch leaves out the rest of an unfinished epoch, and returns the effect in words.
func (r *restoration) leaveEpoch() string {
	if unfinished := r.info.Epoch != nil || len(r.info.Windows) > 0; !unfinished || !r.exact {
		return "training goes on with it"
	}
	r.exact = false
	return fmt.Sprintf("training goes on with it in epoch %d; the rest of epoch %d is left out", r.info.Epochs, r.info.Epochs-1)
}

// compareData compares the data of the state with those that training goes on with.
func (r *restoration) compareData() error {
	saved := r.info.Data
	if r.info.Epoch != nil {
		saved = &r.info.Epoch.Data
	}
	if saved == nil || r.opt.Data == nil {
		return nil
	}
	e, err := readExtent(r.opt.Data)
	if err != nil {
		return err
	}
	if now := e.info(); !saved.same(now) {
		r.differ("data", saved.String(), now.String(), r.leaveEpoch())
	}
	return nil
}

// differ records a difference that is safe.
func (r *restoration) differ(name, was, now, effect string) {
	r.Differences = append(r.Differences, Difference{name, was, now, effect})
}

// compareTensors compares the tensors, and records which are read.
func (r *restoration) compareTensors(tensors []NamedSpec, bad *RestoreError) {
	t := r.trainer
	found := make(map[string]NamedSpec)
	for _, x := range tensors {
		found[x.Name] = x
	}
	known := make(map[string]bool)
	anotherRule := slices.ContainsFunc(bad.Options, func(d Difference) bool { return strings.HasSuffix(d.Name, "optimizer") })
	inWindow := r.exact && r.info.withinWindow(t.plan.opt.Accumulate)
	kept, begun := 0, 0 // constants that stay as they are, averages that begin anew
	for i := range t.captures.tensors {
		x := &t.captures.tensors[i]
		region := x.home.Ref.Region
		known[x.Name] = true
		if region == ir.Gradients && !inWindow || isState(region) && (r.opt.ParametersOnly || anotherRule) {
			continue
		}
		src, ok := found[x.Name]
		if !ok && isAverage(region) { // as New has it
			begun++
			src, ok = found[t.captures.tensors[averageOf(t.captures.tensors, x)].Name]
		}
		switch {
		case ok && src.Spec.Equal(x.Spec):
			r.tensors = append(r.tensors, restoredTensor{stateTensor: *x, from: src.Name})
		case x.constant:
			kept++
		case !ok:
			bad.Missing = append(bad.Missing, x.NamedSpec)
		default:
			bad.Other = append(bad.Other, Mismatch{x.Name, x.Spec.String(), src.Spec.String()})
		}
	}
	if begun > 0 {
		r.differ("averages", "none", fmt.Sprint(begun), "they begin with the restored parameters")
	}
	r.compareExtra(tensors, known, found, anotherRule, bad, kept)
}

// compareExtra records tensors of the state that the trainer lacks. Constants are of the graph,
// which may depend on the batch; kept of those of the trainer stay. Averages may be left out, and
// so may gradients of a window and, for other optimizers, their states.
func (r *restoration) compareExtra(tensors []NamedSpec, known map[string]bool, found map[string]NamedSpec, anotherRule bool, bad *RestoreError, kept int) {
	averages, constants := 0, 0
	for _, x := range tensors {
		if known[x.Name] {
			continue
		}
		owner := ""
		if i := strings.LastIndexByte(x.Name, '/'); i >= 0 {
			owner = x.Name[:i]
		}
		_, ofTensor := found[owner] // a tensor of a tensor is its state, its average or its gradient
		switch {
		case frontend.IsConstant(x.Name):
			constants++
		case ofTensor && strings.HasSuffix(x.Name, averageSuffix):
			averages++
		case r.info.withinWindow(windowOf(&r.info)) && strings.HasSuffix(x.Name, compile.GradSuffix):
		case ofTensor && (r.opt.ParametersOnly || anotherRule):
		default:
			bad.Extra = append(bad.Extra, x)
		}
	}
	if constants+kept > 0 {
		r.differ("constants of the graph", fmt.Sprint(constants, " others"), fmt.Sprint(kept, " others"), "they stay as the trainer has them")
	}
	if averages > 0 {
		r.differ("averages", fmt.Sprint(averages), "none", "they are left out")
	}
}

// compareRest compares what the Result of the unfinished epoch depends on, and the state of loss
// scaling.
func (r *restoration) compareRest() {
	t, e := r.trainer, r.info.Epoch
	if r.opt.ParametersOnly {
		return
	}
	if scaled := r.info.LossScale != (optim.ScalingState{}); scaled != t.plan.opt.scaled() {
		r.differ("scale of the loss", fmt.Sprint(scaled), fmt.Sprint(t.plan.opt.scaled()), "it begins anew, or is left out")
	}
	if !r.exact || e == nil {
		return
	}
	elems := 0
	if t.plan.metrics != nil {
		elems = t.plan.metrics.elems
	}
	if len(e.Metrics) != elems {
		r.differ("metrics", fmt.Sprint(len(e.Metrics), " sums"), fmt.Sprint(elems, " sums"), "those of the unfinished epoch begin at 0")
	}
	for _, s := range r.info.Schedules {
		if t.plan.statefulOf(s) == nil {
			r.differ("state of a schedule", string(s.State), "none", "it is left out")
		}
	}
}
