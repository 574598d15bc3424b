package trainer

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile"
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

// Indices of the axes. The optimizer comes first, since combination.better prefers an earlier
// setting of it. From otherAxes on come those that exist only where they can save memory: what ranks
// share, and what is in the host's memory.
const (
	optimizerAxis = iota
	gradientAxis
	batchAxis
	recomputeAxis
	precisionAxis
	otherAxes
)

// axes returns what can be changed in the plan's options.
func (p *planned) axes() []axis {
	o := &p.opt
	axes := []axis{
		optimizerAxis: {"optimizer", optimizers(p)},
		gradientAxis:  {"gradients", o.guards()},
		batchAxis:     {"batch", batches(p)},
		recomputeAxis: {"recompute", o.recomputations()},
		precisionAxis: {"precision", o.precisions()},
	}
	if o.ranks() > 1 {
		axes = append(axes, axis{fmt.Sprintf("shared by %d ranks", o.ranks()), o.sharings()})
	}
	if offloads := o.offloads(); offloads != nil {
		axes = append(axes, axis{"on the host", offloads})
	}
	return axes
}

// asGiven returns the setting that leaves the options as they are.
func asGiven(name string) setting { return setting{name, true, func(*Options) {}} }

// optimizers returns the optimizer of plan p and those that keep fewer bytes of state, most first.
// Of several that keep the same number it returns the first of optim.All.
func optimizers(p *planned) []setting {
	opt := p.opt.optimizer()
	name := fmt.Sprintf("%T", opt)
	// A named optimizer is the given one if both have a type and states: adam and adam8 share a
	// type. Their rates and other numbers need no memory.
	matrix := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{2, 2}}
	isGiven := func(o optim.Optimizer) bool {
		return reflect.TypeOf(o) == reflect.TypeOf(opt) && reflect.DeepEqual(o.States(matrix), opt.States(matrix))
	}
	most := p.stateBytes(opt)
	type smaller struct {
		setting
		bytes int64
	}
	var others []smaller
	for _, n := range optim.All() {
		if isGiven(n.Optimizer) {
			name = n.Name
			continue
		}
		if p.opt.shards() && n.Optimizer.Op().Block == 0 { // its state cannot be shared
			continue
		}
		bytes := p.stateBytes(n.Optimizer)
		if bytes < most && !slices.ContainsFunc(others, func(o smaller) bool { return o.bytes == bytes }) {
			use := func(o *Options) { o.Optimizer = n.Optimizer }
			others = append(others, smaller{setting{n.Name, false, use}, bytes})
		}
	}
	slices.SortStableFunc(others, func(a, b smaller) int { return cmp.Compare(b.bytes, a.bytes) })
	settings := []setting{asGiven(name)}
	for _, o := range others {
		settings = append(settings, o.setting)
	}
	return settings
}

// stateBytes returns the bytes that optimizers would keep for the trained parameters if o were
// Options.Optimizer.
func (p *planned) stateBytes(o optim.Optimizer) (bytes int64) {
	opt := p.opt
	opt.Optimizer = o
	for i, prog := range p.trainings() {
		update := p.update(&opt, programKey{mode: compile.Train, objective: i, stage: len(p.opt.Unfreeze)}, false)
		for _, name := range prog.Trained {
			spec := p.parameter(name).Spec
			for _, s := range update.RuleFor(name, spec).States(spec) {
				bytes += arena.Round(s.Bytes())
			}
		}
	}
	return bytes
}

// guards returns the given guard, and GuardEach if that frees gradients.
func (o *Options) guards() []setting {
	switch {
	case o.scaled() || o.Clip.Norm > 0:
		// They keep all gradients under any guard, so that another guard saves nothing.
		return []setting{asGiven("kept")}
	case o.Guard == GuardEach:
		return []setting{asGiven("freed")}
	}
	return []setting{asGiven("kept"), {"freed", true, func(o *Options) { o.Guard = GuardEach }}}
}

// batches returns the batch of plan p, and others that make updates of as many samples in more or
// fewer steps. Example: for a batch of 64 without accumulation it returns 64, 2 × 32, 4 × 16, and
// so on to 64 × 1.
func batches(p *planned) []setting {
	name := func(rows, steps int) string {
		if steps == 1 {
			return fmt.Sprint(rows)
		}
		return fmt.Sprintf("%d × %d", steps, rows)
	}
	window := max(1, p.opt.Accumulate)
	samples := p.opt.Batch * window
	// Batch normalization sees the samples of one step: with it, another batch has other results.
	same := len(p.homes.Parts(ir.Statistics)) == 0
	settings := []setting{asGiven(name(p.opt.Batch, window))}
	for k := 1; k <= 64 && k <= samples; k *= 2 {
		if samples%k == 0 && k != window {
			use := func(o *Options) { o.Batch, o.Accumulate = samples/k, k }
			settings = append(settings, setting{name(samples/k, k), same, use})
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
	// float16 is not tried: its range is so small that it needs loss scaling, too.
	half := func(o *Options) { o.Precision = arena.BFloat16 }
	return []setting{asGiven(arena.Float32.String()), {arena.BFloat16.String(), false, half}}
}

// sharings returns what ranks share, and what they can share in addition: the same results but for the
// rounding of sums.
func (o *Options) sharings() []setting {
	settings := []setting{asGiven(o.Shard.String())}
	for more := o.Shard + 1; more <= ShardGradients; more++ {
		settings = append(settings, setting{more.String(), true, func(o *Options) { o.Shard = more }})
	}
	return settings
}

// offloads returns the given offloading, and what can be offloaded in addition. It returns nil if
// the device is not known or has unified memory.
func (o *Options) offloads() []setting {
	if o.Device == nil || o.Device.Unified() {
		return nil
	}
	settings := []setting{asGiven(o.Offload.String())}
	// The state is offloaded before the parameters: it crosses the bus once for each update, while
	// parameters cross it for each pass.
	for _, more := range []Offload{{State: true, Layers: o.Offload.Layers}, {State: true, Parameters: true}} {
		if o.Offload.Parameters && !more.Parameters || more.String() == o.Offload.String() {
			continue
		}
		settings = append(settings, setting{more.String(), true, func(o *Options) { o.Offload = more }})
	}
	return settings
}
