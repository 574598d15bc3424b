package trainer

import (
	"context"
	"fmt"

	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Prepacked weights are weights in the form that kernels of the device read (kernels.WeightPrepacker).
// They have a region of the arena, which views share, and a program computes them after each change of
// the weights, before the next batch:
//
//	initial values ─┐
//	Load, …        ─┴► parameters ─prepack─► prepacked weights ─► programs of batches
//
// Invariant: a batch is computed only while they are those of the parameters. predictorWeights.stale is
// the error that ended the program since the parameters changed; a batch returns it.

// prepackKey is the key of the program that computes prepacked weights.
var prepackKey = programKey{mode: compile.Prepack, dataset: streamed}

// compilePrepacking compiles that program, if one of the others reads such weights.
func (p *predictorPlan) compilePrepacking(ctx context.Context) error {
	var all []ir.Packing
	made := map[string]bool{}
	for _, k := range p.planned.order {
		for _, x := range p.programs[k].Prepacked {
			if !made[x.To.Name] {
				made[x.To.Name] = true
				all = append(all, x)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	prog, err := compile.CompilePrepacking(ctx, compile.Config{Homes: &p.homes, Device: p.opt.Device}, all)
	if err != nil {
		return fmt.Errorf("prepack weights: %w", err)
	}
	p.add(prepackKey, prog)
	p.scratch = max(p.scratch, prog.Plan.Bytes)
	return nil
}

// bindPrepack makes the program ready to launch, in the scratch of lane 0.
func (w *predictorWeights) bindPrepack() (err error) {
	prog := w.plan.programs[prepackKey]
	if prog == nil {
		return nil
	}
	b := kernels.Binding{Memory: w.memory.arena.Memory(), Base: w.plan.regions[0].Bases(&w.plan.layout)}
	if w.prepack, err = w.memory.device.Bind(prog.Calls(), b); err != nil {
		return fmt.Errorf("bind %s: %w", prog.Name, err)
	}
	return nil
}

// repack computes the prepacked weights from the parameters. The caller holds the run locks of all lanes.
func (w *predictorWeights) repack() error {
	if w.prepack == nil {
		return nil
	}
	w.stale = nil
	err := w.prepack.Launch(w.compute)
	if synced := w.compute.Sync(); err == nil && synced != nil {
		_ = w.compute.Sync() // if the call failed and not the work, the work is still in flight
		err = synced
	}
	if err != nil {
		w.stale = fmt.Errorf("weights were not prepacked, load them again: %w", err)
	}
	return w.stale
}
