package trainer

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// axis is an option that can be traded for memory, with its settings. The first setting is the
// given one.
type axis struct {
	name     string
	settings []setting
}

// setting is a value of an axis.
type setting struct {
	name  string
	same  bool // the results are those of the given options
	apply func(*Options)
}

// Indices of the axes. hostAxis exists only if the device has memory of its own.
const (
	optimizerAxis = iota
	gradientAxis
	batchAxis
	recomputeAxis
	precisionAxis
	hostAxis
)

// axes returns what can be changed in the plan's options.
func (p *planned) axes() []axis {
	o := &p.opt
	axes := []axis{
		optimizerAxis: {"optimizer", p.optimizers()},
		gradientAxis:  {"gradients", o.guards()},
		batchAxis:     {"batch", p.batches()},
		recomputeAxis: {"recompute", o.recomputations()},
		precisionAxis: {"precision", o.precisions()},
	}
	if offloads := o.offloads(); offloads != nil {
		axes = append(axes, axis{"on the host", offloads})
	}
	return axes
}

// asGiven returns the setting that leaves the options as they are.
func asGiven(name string) setting { return setting{name, true, func(*Options) {}} }

// optimizers returns the given optimizer and those that keep fewer bytes of state, most first. Of
// several that keep the same number it returns the first of optim.All.
func (p *planned) optimizers() []setting {
	opt := p.opt.optimizer()
	name := fmt.Sprintf("%T", opt)
	matrix := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{2, 2}}
	most := p.stateBytes(opt)
	type smaller struct {
		setting
		bytes int64
	}
	var others []smaller
	for _, n := range optim.All() {
		if reflect.TypeOf(n.Optimizer) == reflect.TypeOf(opt) && reflect.DeepEqual(n.Optimizer.States(matrix), opt.States(matrix)) {
			name = n.Name
			continue
		}
		bytes := p.stateBytes(n.Optimizer)
		if bytes < most && !slices.ContainsFunc(others, func(o smaller) bool { return o.bytes == bytes }) {
			others = append(others, smaller{setting{n.Name, false, func(o *Options) { o.Optimizer = n.Optimizer }}, bytes})
		}
	}
	slices.SortStableFunc(others, func(a, b smaller) int { return cmp.Compare(b.bytes, a.bytes) })
	settings := []setting{asGiven(name)}
	for _, o := range others {
		settings = append(settings, o.setting)
	}
	return settings
}

// stateBytes returns the bytes that optimizer o would keep for the trained parameters.
func (p *planned) stateBytes(o optim.Optimizer) (bytes int64) {
	for _, name := range p.training().Trained {
		for _, s := range o.States(p.parameter(name).Spec) {
			bytes += arena.Round(s.Bytes())
		}
	}
	return bytes
}

// guards returns the given guard, and GuardEach if that frees gradients.
func (o *Options) guards() []setting {
	switch {
	case o.scaled() || o.Clip.Norm > 0: // they keep all gradients under any guard
		return []setting{asGiven("kept")}
	case o.Guard == GuardEach:
		return []setting{asGiven("freed")}
	}
	return []setting{asGiven("kept"), {"freed", true, func(o *Options) { o.Guard = GuardEach }}}
}

// batches returns the given batch, and others that make updates of as many samples in more or fewer
// steps.
func (p *planned) batches() []setting {
	name := func(rows, steps int) string {
		if steps == 1 {
			return fmt.Sprint(rows)
		}
		return fmt.Sprintf("%d × %d", steps, rows)
	}
	window := max(1, p.opt.Accumulate)
	samples := p.opt.Batch * window
	same := len(p.homes.Parts(ir.Statistics)) == 0 // batch normalization sees the samples of one step
	settings := []setting{asGiven(name(p.opt.Batch, window))}
	for k := 1; k <= 64 && k <= samples; k *= 2 {
		if samples%k == 0 && k != window {
			settings = append(settings, setting{name(samples/k, k), same, func(o *Options) { o.Batch, o.Accumulate = samples/k, k }})
		}
	}
	return settings
}

// recomputations returns the given recomputation, and Auto.
func (o *Options) recomputations() []setting {
	auto := setting{"auto", true, func(o *Options) { o.Recompute = Recompute{Auto: true} }}
	switch {
	case o.Recompute.Auto:
		return []setting{auto}
	case len(o.Recompute.Layers) > 0:
		return []setting{asGiven(strings.Join(o.Recompute.Layers, ", ")), auto}
	}
	return []setting{asGiven("none"), auto}
}

// precisions returns the given precision, and bfloat16 if that is float32.
func (o *Options) precisions() []setting {
	if o.Precision.Half() {
		return []setting{asGiven(o.Precision.String())}
	}
	return []setting{asGiven(arena.Float32.String()), {arena.Bfloat16.String(), false, func(o *Options) { o.Precision = arena.Bfloat16 }}}
}

// offloads returns the given offloading, and what can be offloaded in addition. It returns nil if
// the device is not known or has unified memory.
func (o *Options) offloads() []setting {
	if o.Device == nil || o.Device.Unified() {
		return nil
	}
	settings := []setting{asGiven(o.Offload.String())}
	for _, more := range []Offload{{State: true, Layers: o.Offload.Layers}, {State: true, Parameters: true}} {
		if o.Offload.Parameters && !more.Parameters || more.String() == o.Offload.String() {
			continue
		}
		settings = append(settings, setting{more.String(), true, func(o *Options) { o.Offload = more }})
	}
	return settings
}
