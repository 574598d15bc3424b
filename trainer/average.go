package trainer

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Averages of parameters are kept by a program of their own, which runs after the program of an
// update, on the same slot: it reads the controls and the status word there. So training computes
// the same bits with and without averages, and an update that is skipped or fails changes none.
//
//	slot ─► program of an update ─► parameters, status word ─► program of the averages ─► averages

// Averaged is a trainer seen through the averages of Options.Average: what it evaluates and predicts
// with, and lists, are the averages of the trained parameters, and frozen parameters, constants and
// running statistics as they are: see docs/loops.md#averages for batch normalization.
// Its methods follow the rules of the trainer's; without Options.Average they return an ErrOption.
type Averaged struct{ trainer *Trainer }

// Averaged returns t seen through its averages. It copies nothing.
func (t *Trainer) Averaged() Averaged { return Averaged{t} }

// Evaluate is Trainer.Evaluate with the averages.
func (a Averaged) Evaluate(ctx context.Context, ds dataloader.Dataset) (Result, error) {
	if err := a.check(); err != nil {
		return Result{}, err
	}
	return a.trainer.pass(ctx, "Evaluate", &epochPass{t: a.trainer, mode: compile.Evaluate, averaged: true}, ds)
}

// Predict is Trainer.Predict with the averages.
func (a Averaged) Predict(ctx context.Context, ds dataloader.Dataset) iter.Seq2[Prediction, error] {
	return func(yield func(Prediction, error) bool) {
		err := a.check()
		if err == nil {
			err = a.trainer.predict(ctx, ds, true, yield)
		}
		if err != nil {
			yield(Prediction{}, fmt.Errorf("predict: %w", err))
		}
	}
}

// Params is Trainer.Params with the average of each trained parameter in its place, under the same
// name: what a checkpoint of the averaged model needs.
func (a Averaged) Params() ([]Param, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	return a.trainer.params(true)
}

// check returns an error if there are no averages.
func (a Averaged) check() error {
	t := a.trainer
	if t.use().isClosed() {
		return errClosed
	}
	if !t.plan.opt.Average.On() {
		return fmt.Errorf("the trainer keeps no averages: set Options.Average: %w", ErrOption)
	}
	return nil
}

// averagesKey identifies the program that moves the averages after updates of an objective.
func averagesKey(objective int) programKey {
	return programKey{mode: compile.Average, dataset: streamed, objective: objective}
}

// compileAverages compiles the programs that move the averages of all parameters that programs so
// far train. The average of a parameter of several objectives follows the first of them.
func (p *planned) compileAverages(ctx context.Context) error {
	moved := make(map[string]bool)
	for i := range p.objectives(compile.Train) {
		trained := make(map[string]bool)
		for _, k := range p.order {
			if k.mode != compile.Train || k.objective != i {
				continue
			}
			for _, name := range p.programs[k].Trained {
				trained[name] = !moved[name]
			}
		}
		if err := p.compileAveragesOf(ctx, i, trained); err != nil {
			return err
		}
		for name := range trained {
			moved[name] = true
		}
	}
	return nil
}

// compileAveragesOf compiles the program that moves the averages of parameters after updates of
// an objective.
func (p *planned) compileAveragesOf(ctx context.Context, objective int, trained map[string]bool) error {
	o := &p.opt
	params := slices.DeleteFunc(slices.Clone(p.parameters()), func(home ir.Part) bool { return !trained[home.Name] })
	if len(params) == 0 {
		return nil
	}
	prog, err := compile.CompileAverages(ctx, compile.Config{Offload: compile.Offload(o.Offload),
		Objective: p.objectiveName(objective), Homes: &p.homes, Device: o.Device, Debug: o.Debug}, params)
	if err != nil {
		return fmt.Errorf("averages: %w", err)
	}
	p.add(averagesKey(objective), prog)
	p.scratch = max(p.scratch, prog.Plan.Bytes)
	return nil
}

// average returns the home of a parameter's average. ok is false where it has none.
func (p *planned) average(name string) (home ir.Part, ok bool) {
	if home, ok = p.homes.Find(ir.Averages, name); ok {
		return home, true
	}
	return p.homes.Find(ir.HostAverages, name)
}

// averages returns the homes of all averages, on the device and offloaded.
func (p *planned) averages() []ir.Part {
	return slices.Concat(p.homes.Parts(ir.Averages), p.homes.Parts(ir.HostAverages))
}

// writeAverages writes the initial values of parameters to their averages.
func (m *memory) writeAverages() error {
	for _, home := range m.plan.averages() {
		param := m.plan.parameter(home.Name)
		i := slices.IndexFunc(m.plan.homes.Parts(param.Ref.Region), func(p ir.Part) bool { return p.Name == home.Name })
		value := &m.plan.initial[param.Ref.Region][i]
		if err := m.write(home, func(dst []byte) error { return value.fill(dst, home.Spec) }); err != nil {
			return fmt.Errorf("average of %q: %w", home.Name, err)
		}
	}
	return nil
}

// weighAverages writes the weight of update t in the averages to the controls of slot s.
func (p *planned) weighAverages(s *slot, t int64) {
	s.controls[kernels.ControlAverage] = 0
	if p.opt.Average.On() && s.program.updates {
		s.controls[kernels.ControlAverage] = p.opt.Average.Weight(t)
	}
	s.averages = s.controls[kernels.ControlAverage] != 0
}

// enqueueAverages enqueues the move of the averages by the update of the step in slot s, which is
// enqueued.
func (t *Trainer) enqueueAverages(s *slot) error {
	if p := t.programs[averagesKey(s.objective)]; s.averages && p != nil {
		return p.launch(&t.streams, s)
	}
	return nil
}
