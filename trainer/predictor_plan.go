package trainer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// predictorPlan is the plan of a predictor: programs of one mode at several numbers of rows, and an
// arena for them. A lane is the memory of one batch; there is one for the predictor and one for each
// view.
//
//	parameters │ running statistics │ prepacked weights │ slot 0 │ results 0 │ scratch 0 │ slot 1 │ results 1 │ …
type predictorPlan struct {
	*planned
	opt   PredictorOptions
	sizes []int    // rows of the programs, smallest first
	order []string // names of the model's inputs
}

// planPredictor compiles all programs of a predictor and lays out its arena.
func planPredictor(ctx context.Context, model ModelFunc, opt PredictorOptions) (*predictorPlan, error) {
	if model == nil {
		return nil, fmt.Errorf("no model function: %w", ErrModel)
	}
	p := &predictorPlan{opt: opt, sizes: opt.sizes()}
	p.planned = &planned{
		opt: Options{Device: opt.Device, Batch: opt.Batch, Memory: opt.Memory, Fields: opt.Fields, Seed: opt.Seed,
			Precision: opt.Precision, KeepFloat32: opt.KeepFloat32, AllowMerged: opt.AllowMerged},
		programs: make(map[programKey]*ir.Program),
		prepack:  !opt.NoPrepack,
	}
	p.planned.model = func(g *gorgonia.ExprGraph, batch int) (Model, error) {
		m, err := model(g, batch)
		p.order = p.order[:0]
		for _, n := range m.Inputs {
			if n != nil { // checkModel refuses nil
				p.order = append(p.order, n.Name())
			}
		}
		return m, err
	}
	// The largest program comes first: the others use the first rows of its homes.
	var full *ir.Program
	for _, rows := range slices.Backward(p.sizes) {
		k := programKey{mode: compile.Predict, rows: rows, dataset: streamed}
		prog, err := p.compile(ctx, k, full)
		if err != nil {
			if full != nil {
				err = fmt.Errorf("%w; if the model is for batches of %d only, set PredictorOptions.Sizes to that", err, opt.Batch)
			}
			return nil, err
		}
		if full == nil {
			full = prog
		}
		p.add(k, prog)
		p.scratch = max(p.scratch, prog.Plan.Bytes)
	}
	p.homes.Sealed = true
	if err := p.compilePrepacking(ctx); err != nil {
		return nil, err
	}
	return p, errors.Join(p.checkNames(), p.layOut())
}

// layOut lays out the arena.
func (p *predictorPlan) layOut() error {
	l := &p.layout
	p.regions = make([]layout.Regions, p.opt.Views+1)
	shared := func(id arena.Region, name string) {
		r := layout.AddRegion(l, name, p.homes.Parts(id))
		for i := range p.regions {
			p.regions[i][id].Region = r
		}
	}
	shared(ir.Parameters, "parameters")
	shared(ir.Statistics, "running statistics")
	if len(p.homes.Parts(ir.Prepacked)) > 0 {
		shared(ir.Prepacked, "prepacked weights")
	}
	for i := range p.regions {
		lane := &p.regions[i]
		lane[ir.Slot].Region = layout.AddRegion(l, fmt.Sprintf("slot %d", i), p.homes.Parts(ir.Slot))
		// Results and status word are one run of bytes, which the host reads after a batch.
		r := layout.AddRegion(l, fmt.Sprintf("results %d", i), p.homes.Parts(ir.Results))
		layout.AddParts(l, r, p.homes.Parts(ir.Guard), "")
		lane[ir.Results].Region = r
		lane[ir.Guard] = layout.Place{Region: r, Offset: p.homes.Bytes(ir.Results)}
		lane[ir.Scratch].Region = l.Region(fmt.Sprintf("scratch %d", i))
		l.Reserve(lane[ir.Scratch].Region, p.scratch)
		// Regions without parts: no program refers to them.
		for _, id := range []arena.Region{ir.Gradients, ir.State, ir.Resident} {
			lane[id] = lane[ir.Parameters]
		}
	}
	return l.Err()
}

// outcomeBytes returns the bytes that the host reads after a batch.
func (p *predictorPlan) outcomeBytes() int64 {
	return p.homes.Bytes(ir.Results) + p.homes.Bytes(ir.Guard)
}

// pinnedBytes returns the pinned host memory of all lanes: copies of slots and results.
//
//	| slot 0 | outcome 0 | slot 1 | outcome 1 | …
func (p *predictorPlan) pinnedBytes() int64 {
	return int64(len(p.regions)) * (p.homes.Bytes(ir.Slot) + p.outcomeBytes())
}

// report returns the plan as data.
func (p *predictorPlan) report() *report.Plan {
	r := &report.Plan{Device: "any device", Mode: "prediction", Regions: p.layout.Regions(), Total: p.layout.Total()}
	r.Specs = layout.Specs(r.Regions, &p.homes)
	if p.opt.Device != nil {
		layout.AddDeviceMemory(r, p.opt.Device, p.pinnedBytes()+p.staging)
	}
	for _, k := range p.planned.order {
		prog := layout.Describe(p.programs[k], p.opt.Device)
		if r.Pinned > 0 {
			prog.Bus = p.bus(k)
		}
		r.Programs = append(r.Programs, prog)
	}
	return r
}

// hostBytes returns the bytes of Go memory of the programs.
func (p *predictorPlan) hostBytes() (n int64) {
	for _, prog := range p.programs {
		n += prog.HostBytes()
	}
	return n
}

// checkCapacity returns a *CapacityError if the plan needs more than PredictorOptions.Memory or than
// the device has free.
func (p *predictorPlan) checkCapacity(ctx context.Context) error {
	have, total, err := layout.Available(p.opt.Device, p.opt.Memory)
	if err != nil || p.layout.Total() <= have {
		return err
	}
	e := &CapacityError{Need: p.layout.Total(), Have: have, Total: total, Batch: p.opt.Batch, Plan: p.report()}
	fits := func(rows int) (bool, error) {
		opt := p.opt
		opt.Batch = rows
		opt.Sizes = slices.DeleteFunc(slices.Clone(opt.Sizes), func(n int) bool { return n > rows })
		q, err := planPredictor(ctx, p.model, opt)
		return err == nil && q.layout.Total() <= have, err
	}
	// The weights alone may need too much: then no batch fits.
	if p.opt.Batch == 1 || p.homes.Bytes(ir.Parameters)+p.homes.Bytes(ir.Statistics) > have {
		return e
	}
	ok, err := fits(1)
	if ok {
		e.Fits, err = largest(1, p.opt.Batch-1, fits)
	}
	if e.unknown = err; err != nil && ctx.Err() != nil {
		return err
	}
	return e
}

// PlanPredictor returns the memory plan that NewPredictor would allocate. It allocates no device
// memory. Without a device it assumes that no kernel needs a workspace. Cancelling ctx stops the
// planning.
func PlanPredictor(ctx context.Context, model ModelFunc, opt PredictorOptions) (*report.Plan, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if err := opt.check(false); err != nil {
		return nil, err
	}
	p, err := planPredictor(ctx, model, opt)
	if err != nil {
		return nil, err
	}
	return p.report(), nil
}
