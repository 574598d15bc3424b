package trainer

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// mistakes collects errors of one class.
type mistakes struct {
	class error
	errs  []error
}

// addf adds an error that wraps the class.
func (m *mistakes) addf(format string, args ...any) {
	m.errs = append(m.errs, fmt.Errorf(format+": %w", append(args, m.class)...))
}

// checkSlots adds a mistake unless n, which what names, is a number of slots, or 0 for a default.
func (m *mistakes) checkSlots(what string, n, byDefault int) {
	if n < 0 || n > maxSlots || n%inFlight != 0 {
		m.addf("%s: must be an even number from %d to %d, or 0 for %d", what, inFlight, maxSlots, byDefault)
	}
}

// checkReading adds the mistakes in the options of reading samples.
func (o *Options) checkReading(bad *mistakes) {
	bad.checkSlots(fmt.Sprintf("slots %d", o.Slots), o.Slots, inFlight)
	if o.Workers < 0 || o.Workers > dataloader.MaxWorkers {
		bad.addf("workers %d: must be 1 to %d, or 0 for the default", o.Workers, dataloader.MaxWorkers)
	}
	if o.Sampler != nil && o.Sequential {
		bad.addf("sampler and sequential: a sampler chooses the order, set one of them")
	}
}

// check returns every mistake that shows without a model. needDevice makes a missing device one.
func (o *Options) check(needDevice bool) error {
	bad := &mistakes{class: ErrOption}
	// The trainer cannot work with these numbers.
	if needDevice && o.Device == nil {
		bad.addf("no device: set Options.Device, for example to the device of cpu.Open")
	}
	if o.Batch < 1 || o.Batch > math.MaxInt32 {
		bad.addf("batch %d: must be 1 to %d", o.Batch, math.MaxInt32)
	}
	if o.EvalBatch < 0 || o.EvalBatch > math.MaxInt32 {
		bad.addf("evaluation batch %d: must be 1 to %d, or 0 for Batch", o.EvalBatch, math.MaxInt32)
	}
	if o.Accumulate < 0 {
		bad.addf("accumulate %d: must be 1 or more steps, or 0 for an update at each", o.Accumulate)
	}
	if o.Memory < 0 {
		bad.addf("memory %d bytes: must be positive, or 0 for what the plan needs", o.Memory)
	}
	o.checkReading(bad)
	o.checkShard(bad)
	// These are values of an enumeration, which other packages may extend.
	if p := o.Precision; p != 0 && p != arena.Float32 && !p.Half() {
		bad.addf("precision %v: must be float32, bfloat16 or float16", p)
	}
	switch {
	case o.SkipNonFinite < 0:
		bad.addf("skip non-finite %d: must be the most steps in a row, or 0 to stop at the first", o.SkipNonFinite)
	case o.SkipNonFinite > 0 && o.Guard == GuardEach:
		bad.addf("skip non-finite %d: GuardEach may have changed parameters before it finds what is not finite: use GuardStep", o.SkipNonFinite)
	}
	if o.Guard > GuardEach {
		bad.addf("guard %d: must be GuardStep or GuardEach", o.Guard)
	}
	if o.Tail > dataloader.DropTail {
		bad.addf("tail %d: must be KeepTail or DropTail", o.Tail)
	}
	// These contradict another option or the device.
	if o.Recompute.Auto && len(o.Recompute.Layers) > 0 {
		bad.addf("recompute both %q and automatically: set either Auto or Layers", o.Recompute.Layers)
	}
	if len(o.KeepFloat32) > 0 && !o.Precision.Half() {
		bad.addf("keep float32 %q: set Precision to bfloat16 or float16: these layers are its exceptions",
			o.KeepFloat32)
	}
	if o.Offload.any() && o.Device != nil && o.Device.Unified() {
		bad.addf("offload: %s has no memory of its own, so that nothing would be saved: leave it out", o.Device.Name())
	}
	if o.Offload.Parameters && len(o.Offload.Layers) > 0 {
		bad.addf("offload the parameters of both %q and all layers: set either Parameters or Layers", o.Offload.Layers)
	}
	if o.Debug && o.ranks() > 1 {
		bad.addf("debug: checks the operations of one rank, one at a time, and sums over ranks overlap them: leave out Group")
	}
	errs := append(bad.errs, o.checkData(), optim.Check(o.optimizer(), o.Schedule, o.Clip), o.LossScale.Validate(),
		o.Average.Validate(), o.checkObjectives(), o.checkGroups())
	return errors.Join(errs...)
}

// checkData returns every mistake in Fields and Resident.
func (o *Options) checkData() error {
	bad := &mistakes{class: ErrOption}
	// Fields are found by their names.
	for i, f := range o.Fields {
		if slices.ContainsFunc(o.Fields[:i], func(g dataloader.Field) bool { return g.Name == f.Name }) {
			bad.addf("two fields are called %q", f.Name)
		}
		if math.IsNaN(f.Scale+f.Shift) || math.IsInf(f.Scale+f.Shift, 0) {
			bad.addf("field %q: scale %v and shift %v must be finite", f.Name, f.Scale, f.Shift)
		}
	}
	// A resident dataset is found by comparison with the dataset of a pass.
	for i, ds := range o.Resident {
		if err := dataloader.Check(ds); err != nil {
			bad.errs = append(bad.errs, fmt.Errorf("resident dataset %d: %w", i, err))
		} else if !comparable(ds) {
			bad.addf("resident dataset %d: a %T cannot be compared, pass a pointer", i, ds)
		}
	}
	return errors.Join(bad.errs...)
}

// comparable reports whether datasets of ds's type can be compared by ==.
func comparable(ds dataloader.Dataset) bool { return reflect.ValueOf(ds).Comparable() }

// checkNames returns an error for each name in the options that no layer or parameter of the model
// has, and one for a Precision that rounds nothing.
func (p *planned) checkNames() error {
	bad := &mistakes{class: ErrOption}
	// A name may be that of a parameter, or of a layer or scope, which has several.
	for _, name := range p.opt.Frozen {
		if !p.initial.has(func(param string) bool { return matches(name, param) }) && !p.hasParam(name) {
			bad.addf("frozen %q: the model has no such parameter, layer or scope", name)
		}
	}
	// Vectors stay on the device, so that a layer of nothing else has nothing to offload.
	for _, name := range p.opt.Offload.Layers {
		if !slices.ContainsFunc(p.homes.Parts(ir.HostParameters), func(h ir.Part) bool { return ir.Within(name, h.Owner) }) {
			bad.addf("offload %q: no layer of this name has a parameter of two or more dimensions, "+
				"the plan lists them", name)
		}
	}
	// Every layer has a value, but not every one has a parameter. A predictor has no values of a layer
	// that its outputs do not need.
	progs := []*ir.Program{p.programs[p.order[0]]}
	if p.order[0].mode == compile.Train {
		progs = p.trainings()
	}
	layers := func(option string, names []string) {
		for _, name := range names {
			if !p.hasParam(name) && !slices.ContainsFunc(progs, func(prog *ir.Program) bool {
				return slices.ContainsFunc(prog.Values, func(v ir.Value) bool { return ir.Within(name, v.Owner) })
			}) {
				bad.addf("%s %q: no layer has this name, the plan lists them", option, name)
			}
		}
	}
	layers("recompute", p.opt.Recompute.Layers)
	layers("keep float32", p.opt.KeepFloat32)
	// Only float32 is rounded: a model of float64 would be trained as if Precision were 0.
	has := func(t arena.DType) bool {
		return slices.ContainsFunc(p.parameters(), func(h ir.Part) bool { return h.Spec.Type == t })
	}
	if t := p.opt.Precision; t.Half() && has(arena.Float64) && !has(arena.Float32) {
		bad.addf("precision %v: all parameters are float64, and only float32 is rounded: leave it at 0", t)
	}
	return errors.Join(bad.errs...)
}
