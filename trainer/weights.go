package trainer

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
)

// Weights gives access to the parameters and running statistics of a trainer or predictor, in
// pieces of any size, during one call of ReadWeights or WriteWeights. It is for one goroutine.
type Weights struct {
	memory *memory
	parts  map[string]ir.Part
	set    map[string]bool // names that WriteAt has set; nil: it may not
	ended  *atomic.Bool
}

// ReadAt copies len(dst) bytes of a weight to dst, from an offset in bytes: elements row-major.
func (w Weights) ReadAt(name string, dst []byte, offset int64) error {
	part, err := w.find(name, len(dst), offset)
	if err != nil {
		return err
	}
	return w.memory.read(piece(part.Ref, offset, len(dst)), name, dst)
}

// WriteAt sets len(src) bytes of a weight from src, from an offset in bytes. In a call of
// ReadWeights it returns an ErrOption.
func (w Weights) WriteAt(name string, src []byte, offset int64) error {
	part, err := w.find(name, len(src), offset)
	if err != nil {
		return err
	}
	if w.set == nil {
		return fmt.Errorf("write %q: call it in WriteWeights: %w", name, ErrOption)
	}
	h, err := w.memory.tensor(piece(part.Ref, offset, len(src)), 0, name)
	if err != nil {
		return err
	}
	w.set[name] = true
	return h.Write(src)
}

// find returns the place of a weight that has n bytes from offset.
func (w Weights) find(name string, n int, offset int64) (ir.Part, error) {
	if w.ended == nil || w.ended.Load() {
		return ir.Part{}, fmt.Errorf("weight %q: the call of ReadWeights or WriteWeights has ended: %w", name, ErrOption)
	}
	part, ok := w.parts[name]
	if !ok {
		return part, fmt.Errorf("no weight %q: Weights lists the names: %w", name, ErrOption)
	}
	if size := part.Spec.Bytes(); offset < 0 || offset > size || int64(n) > size-offset {
		return part, fmt.Errorf("%d bytes from %d of weight %q, which has %d: %w", n, offset, name, size, ErrOption)
	}
	return part, nil
}

// piece returns n bytes of a reference.
func piece(ref arena.Ref, offset int64, n int) arena.Ref {
	ref.Offset, ref.Size = ref.Offset+offset, int64(n)
	return ref
}

// weightParts returns the homes of the parameters, in the order in which the model first uses them,
// and then of the running statistics. Constants of the graph are no weights: the model has them.
func (p *planned) weightParts() (all []ir.Part) {
	constant := map[string]bool{}
	for _, r := range []arena.Region{ir.Parameters, ir.HostParameters} {
		for i, home := range p.homes.Parts(r) {
			constant[home.Name] = p.initial[r][i].constant != nil
		}
	}
	for _, home := range p.parameters() {
		if !constant[home.Name] {
			all = append(all, home)
		}
	}
	return append(all, p.homes.Parts(ir.Statistics)...)
}

// Weights returns the names, types and shapes of the parameters, in the order in which the model
// first uses them, and then of the running statistics, but no constants of the graph. It may be
// called at any time; after Close it returns nil.
func (t *Trainer) Weights() []NamedSpec {
	if t.use().isClosed() {
		return nil
	}
	return specsOf(t.plan.weightParts())
}

// Weights is Trainer.Weights.
func (a Averaged) Weights() []NamedSpec { return a.trainer.Weights() }

// specsOf returns the names, types and shapes of parts.
func specsOf(parts []ir.Part) (all []NamedSpec) {
	for _, p := range parts {
		all = append(all, NamedSpec{Name: p.Name, Spec: p.Spec})
	}
	return all
}

// ReadWeights calls read, in which all weights are those after the same step. It may be called at
// any time and from any goroutine. While Fit or Evaluate runs it waits until the step that runs has
// ended, and the next one waits for read; in Options.Progress and in the body of Steps it reads at
// once. Nothing else uses the trainer meanwhile: read must not. Cancelling ctx ends the wait.
// ReadWeights allocates no device memory, and returns the error of read.
func (t *Trainer) ReadWeights(ctx context.Context, read func(w Weights) error) error {
	return t.readWeights(ctx, false, read)
}

// ReadWeights is Trainer.ReadWeights with the average of each trained parameter in its place.
func (a Averaged) ReadWeights(ctx context.Context, read func(w Weights) error) error {
	if err := a.check(); err != nil {
		return err
	}
	return a.trainer.readWeights(ctx, true, read)
}

// readWeights is ReadWeights; averaged: with averages in place of parameters.
func (t *Trainer) readWeights(ctx context.Context, averaged bool, read func(w Weights) error) error {
	if ctx == nil || read == nil {
		return fmt.Errorf("read weights: it needs a context and a function: %w", ErrOption)
	}
	if t.use().isClosed() {
		return fmt.Errorf("read weights: %w", errClosed)
	}
	parts := map[string]ir.Part{}
	for _, home := range t.plan.weightParts() {
		if average, ok := t.plan.average(home.Name); ok && averaged {
			home.Ref = average.Ref
		}
		parts[home.Name] = home
	}
	return t.snapshot(ctx, false, func(*epochPass) error {
		if err := t.streams.compute.Sync(); err != nil { // of the step that is in flight
			return err
		}
		return withWeights(Weights{memory: t.memory, parts: parts}, read)
	})
}

// withWeights calls f with access to weights, which ends with f.
func withWeights(w Weights, f func(w Weights) error) error {
	w.ended = new(atomic.Bool)
	defer w.ended.Store(true)
	return f(w)
}

// WriteWeights calls write, which may read and set weights. While Fit or Evaluate runs it returns
// ErrBusy; in the body of Steps the new weights take effect in the next step. It waits for other
// calls, and these wait for it: no step and no prediction sees a part of the new weights only.
// write must not use the trainer. The state of the optimizer stays as it is; averages of
// Options.Average go on from the new weights. WriteWeights allocates no device memory, and returns
// the error of write, after which the weights are as write left them. It may be called from any
// goroutine.
func (t *Trainer) WriteWeights(ctx context.Context, write func(w Weights) error) error {
	if ctx == nil || write == nil {
		return fmt.Errorf("write weights: it needs a context and a function: %w", ErrOption)
	}
	if err := t.use().acquire(ctx); err != nil {
		return fmt.Errorf("write weights: %w", err)
	}
	defer t.usage.release()
	parts := map[string]ir.Part{}
	for _, home := range t.plan.weightParts() {
		parts[home.Name] = home
	}
	w := Weights{memory: t.memory, parts: parts, set: map[string]bool{}}
	t.own.changed = true
	if err := withWeights(w, write); err != nil {
		return err
	}
	return t.restartAverages(w.set)
}

// restartAverages sets the averages of parameters to the parameters, on the device.
func (t *Trainer) restartAverages(names map[string]bool) error {
	for _, average := range t.plan.averages() {
		if !names[average.Name] {
			continue
		}
		err := t.streams.compute.Copy(t.memory.place(average.Ref), t.memory.place(t.plan.parameter(average.Name).Ref))
		if err != nil {
			return fmt.Errorf("average of %q: %w", average.Name, err)
		}
	}
	return t.streams.compute.Sync()
}

// ReadWeights calls read, in which no weight changes. Predictions wait for it, so that read must
// not predict. It may be called at any time and from any goroutine, and returns the error of read.
func (p *Predictor) ReadWeights(ctx context.Context, read func(w Weights) error) error {
	return p.useWeights(ctx, false, read)
}

// WriteWeights is ReadWeights for a function that also sets weights. Views share them. After an
// error of write the weights are as write left them.
func (p *Predictor) WriteWeights(ctx context.Context, write func(w Weights) error) error {
	return p.useWeights(ctx, true, write)
}

// useWeights calls f with access to the weights while no batch is being computed.
func (p *Predictor) useWeights(ctx context.Context, writes bool, f func(w Weights) error) error {
	if f == nil {
		return fmt.Errorf("weights: no function: %w", ErrOption)
	}
	if err := p.usable(ctx); err != nil {
		return err
	}
	parts := map[string]ir.Part{}
	for _, w := range p.weights.plan.weightParts() {
		parts[w.Name] = w.Part
	}
	access := Weights{memory: p.weights.memory, parts: parts}
	if writes {
		access.set = map[string]bool{}
	}
	if !writes {
		return p.weights.hold(func() error { return withWeights(access, f) })
	}
	return p.weights.change(func() error { return withWeights(access, f) })
}
