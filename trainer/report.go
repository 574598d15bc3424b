package trainer

import (
	"cmp"
	"context"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// Plan returns the memory plan: every region of the arena, the parts of each, and their sizes. It
// allocates no device memory. Set Options.Device to the device that you will train on: its kernels
// may need workspaces, which are part of the plan. Options.Memory does not limit the plan; only
// Options.Recompute.Auto reads it, as its target. Cancelling ctx stops the planning. Several
// goroutines may plan at once, but not from inside a model function.
func Plan(ctx context.Context, model ModelFunc, opt Options) (*report.Plan, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	p, err := newPlanned(ctx, model, opt, new(programCache))
	if err != nil {
		return nil, err
	}
	return p.report(), nil
}

// report returns the plan as data.
func (p *planned) report() *report.Plan {
	r := &report.Plan{Device: "any device", Mode: "streaming", Regions: p.layout.Regions(), Total: p.layout.Total()}
	r.Specs = layout.Specs(r.Regions, &p.homes)
	if p.opt.Device != nil {
		layout.AddDeviceMemory(r, p.opt.Device, p.extraPinnedBytes()+p.staging)
	} else if p.opt.Offload.any() || p.opt.Checkpoint { // so the device will have memory of its own
		r.Pinned = p.extraPinnedBytes() + arena.StageBytes(r.Total)
	}
	r.Offloaded = p.offloadedBytes()
	r.Groups = p.groups()
	if len(p.opt.Resident) > 0 {
		r.Mode = "resident"
		if p.opt.Fields != nil {
			r.Mode = "resident and streaming"
		}
	}
	for _, k := range p.order {
		prog := layout.Describe(p.programs[k], p.opt.Device)
		if r.Pinned > 0 {
			prog.Bus = p.bus(k)
		}
		r.Programs = append(r.Programs, prog)
	}
	return r
}

// bus returns the bytes that cross the bus in a step of program k.
func (p *planned) bus(k programKey) (b report.Bus) {
	prog := p.programs[k]
	prefetch, atLaunch := p.uploads(k, slotValues(prog))
	for _, r := range slices.Concat(prefetch, atLaunch) {
		b.Uploads += r.Size
	}
	if k.mode != compile.Average { // the program of its update has brought its results
		b.Downloads = p.homes.Bytes(ir.Results) + p.homes.Bytes(ir.Guard)
	}
	for _, in := range prog.Instrs {
		switch in.Op {
		case kernels.Prefetch:
			b.Prefetches += prog.Values[in.Out[0]].Spec.Bytes()
		case kernels.Writeback:
			b.Writebacks += prog.Values[in.Out[0]].Spec.Bytes()
		}
	}
	return b
}

// uploads returns the places of values in the slot as a step of program k uploads them: prefetch
// while the step before it may still run, atLaunch after that one is done. Only training with a
// scaled loss separates them: its controls depend on the outcome of the step before. Other programs
// upload everything at launch.
func (p *planned) uploads(k programKey, values []ir.Value) (prefetch, atLaunch []arena.Ref) {
	if k.mode == compile.Average { // it reads the controls that the program of its update has uploaded
		return nil, nil
	}
	if k.mode != compile.Train || !p.opt.scaled() {
		return nil, coalesce(values)
	}
	fields, controls := splitControls(values)
	return coalesce(fields), coalesce(controls)
}

// splitControls separates controls vectors from the fields of a batch.
func splitControls(values []ir.Value) (fields, controls []ir.Value) {
	for _, v := range values {
		if ir.IsControls(v.Name) {
			controls = append(controls, v)
		} else {
			fields = append(fields, v)
		}
	}
	return fields, controls
}

// batchValues returns what the slot of a batch holds for the steps of all objectives: all fields
// that they read, and the controls of program k. The averages read controls only.
func (p *planned) batchValues(k programKey) []ir.Value {
	all := slotValues(p.programs[k])
	if k.mode == compile.Average {
		return all
	}
	for i := range p.objectives(k.mode) {
		o := k
		o.objective = i
		all = addFields(all, p.programs[o])
	}
	return all
}

// addFields appends the fields of a batch that prog reads to values, unless they are there.
func addFields(values []ir.Value, prog *ir.Program) []ir.Value {
	fields, _ := splitControls(slotValues(prog))
	for _, f := range fields {
		if !slices.ContainsFunc(values, func(v ir.Value) bool { return v.Ref == f.Ref }) {
			values = append(values, f)
		}
	}
	return values
}

// slotValues returns the values that a program reads from the slot, one for each place.
func slotValues(prog *ir.Program) []ir.Value {
	var values []ir.Value
	for _, v := range prog.Values {
		if !v.Home || v.Ref.Region != ir.Slot {
			continue
		}
		if !slices.ContainsFunc(values, func(o ir.Value) bool { return o.Ref == v.Ref }) {
			values = append(values, v)
		}
	}
	return values
}

// coalesce returns the places of values in a slot. It merges places that only alignment padding
// separates into one, so that a full batch is one copy. Fields of a short batch leave rows unused
// in between and stay apart:
//
//	full batch    | x x x x | y y y y |   1 copy
//	short batch   | x x     | y y     |   2 copies
func coalesce(values []ir.Value) []arena.Ref {
	slices.SortFunc(values, func(a, b ir.Value) int { return cmp.Compare(a.Ref.Offset, b.Ref.Offset) })
	var refs []arena.Ref
	for _, v := range values {
		if n := len(refs) - 1; n >= 0 && v.Ref.Offset-(refs[n].Offset+refs[n].Size) < arena.Align {
			refs[n].Size = v.Ref.Offset + v.Ref.Size - refs[n].Offset
		} else {
			refs = append(refs, v.Ref)
		}
	}
	return refs
}
