package trainer

import (
	"context"
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/ir"
)

// Forward is what a model computes to predict, at one batch size: instructions that follow the
// graph node by node. Package onnx writes it to a file.
type Forward struct {
	// Program lists the instructions; its type is internal to this module. The first result is
	// Model.Output, the others are Model.Outputs.
	Program *ir.Program

	plan  *planned
	order []string // names of the model's inputs
}

// NewForward lowers the prediction of a model for a batch of rows. Of opt it reads Fields, Seed and
// AllowMerged. It needs no device and allocates no arena. The errors are those of PlanPredictor.
func NewForward(ctx context.Context, model ModelFunc, rows int, opt PredictorOptions) (*Forward, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if model == nil {
		return nil, fmt.Errorf("no model function: %w", ErrModel)
	}
	opt.Device, opt.Batch, opt.Sizes = nil, rows, nil
	if err := opt.check(false); err != nil {
		return nil, err
	}
	p := &planned{
		opt:   Options{Batch: rows, Fields: opt.Fields, Seed: opt.Seed, AllowMerged: opt.AllowMerged},
		model: model,
	}
	g := gorgonia.NewGraph()
	m, err := callModel(ctx, model, g, rows)
	if err == nil && !opt.AllowMerged {
		err = p.checkIdentity(ctx, g, rows)
	}
	if err != nil {
		return nil, err
	}
	if err := p.learn(describeModel(g, m)); err != nil {
		return nil, err
	}
	k := programKey{mode: compile.Predict, rows: rows, dataset: streamed}
	cfg, err := p.config(ctx, g, m, k)
	if err != nil {
		return nil, err
	}
	prog, err := compile.Forward(cfg)
	if err != nil {
		return nil, fmt.Errorf("prediction, batch %d: %w", rows, blameModel(explainShape(g, &p.homes, rows, err), rows))
	}
	always := func(string) bool { return true }
	if err := p.initial.record(m, prog, &p.homes, opt.Seed, always); err != nil {
		return nil, fmt.Errorf("prediction, batch %d: %w", rows, err)
	}
	f := &Forward{Program: prog, plan: p}
	for _, n := range m.Inputs {
		f.order = append(f.order, n.Name())
	}
	return f, nil
}

// Inputs returns the names of the fields that Program reads, in the order of Model.Inputs.
func (f *Forward) Inputs() []string {
	var names []string
	for _, part := range f.plan.homes.Parts(ir.Slot) {
		if !ir.IsControls(part.Name) {
			names = append(names, part.Name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return slices.Index(f.order, a) - slices.Index(f.order, b) })
	return names
}

// Initial writes the initial value of a parameter, a constant or a running statistic to dst, whose
// length is the value's bytes. v is a value of Program with a home.
func (f *Forward) Initial(v ir.Value, dst []byte) error {
	for i, part := range f.plan.homes.Parts(v.Ref.Region) {
		if part.Name == v.Name {
			return f.plan.initial[v.Ref.Region][i].fill(dst, part.Spec)
		}
	}
	return fmt.Errorf("the model has no parameter %q: %w", v.Name, frontend.ErrInput)
}
