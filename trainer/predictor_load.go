package trainer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// WeightsError lists the weights of a predictor or trainer that a source lacks or has otherwise.
// Nothing was changed. It wraps ErrData.
type WeightsError struct {
	Source  string     // a file, or "" for a trainer, a predictor or a function
	Missing []string   // names of weights that the source lacks
	Other   []Mismatch // weights of another type or shape
	Extra   []string   // what the source has and there is no weight for, if that is an error
}

// Mismatch is a weight of another type or shape in a source.
type Mismatch struct {
	Name      string
	Want, Got string // types and shapes, or numbers of elements
}

func (e *WeightsError) Error() string {
	var parts []string
	if len(e.Missing) > 0 {
		parts = append(parts, fmt.Sprintf("the source has no %q", e.Missing))
	}
	for _, m := range e.Other {
		parts = append(parts, fmt.Sprintf("%q is %s in the source, and must be %s", m.Name, m.Got, m.Want))
	}
	if len(e.Extra) > 0 {
		parts = append(parts, fmt.Sprintf("there are no weights %q, which the source has", e.Extra))
	}
	source := ""
	if e.Source != "" {
		source = e.Source + ": "
	}
	return fmt.Sprintf("load weights: %s%s: use the model that the weights are of: %v", source, strings.Join(parts, "; "), ErrData)
}

// Unwrap returns ErrData.
func (e *WeightsError) Unwrap() error { return ErrData }

// err returns e if it lists anything.
func (e *WeightsError) err() error {
	if len(e.Missing) == 0 && len(e.Other) == 0 && len(e.Extra) == 0 {
		return nil
	}
	return e
}

// weight is the home of a weight in the plan of a predictor.
type weight struct {
	ir.Part
	from ir.Part // its home in the source
}

// weightParts returns the homes of all weights: parameters and running statistics, but no constants
// of the graph.
func (p *predictorPlan) weightParts() (all []weight) {
	for _, home := range p.planned.weightParts() {
		all = append(all, weight{Part: home})
	}
	return all
}

// Weights returns the names, types and shapes of the weights: the parameters and running statistics
// that Model.Output depends on.
func (p *Predictor) Weights() []NamedSpec {
	if p == nil || p.weights == nil {
		return nil
	}
	return specsOf(p.weights.plan.planned.weightParts())
}

// matchWeights sets the home of each weight in the source, which find looks up. Those that the source
// lacks, or has in another form, are a *WeightsError.
func matchWeights(all []weight, find func(w ir.Part) (ir.Part, bool)) error {
	bad := &WeightsError{}
	for i := range all {
		w := &all[i]
		var ok bool
		switch w.from, ok = find(w.Part); {
		case !ok:
			bad.Missing = append(bad.Missing, w.Name)
		case !w.from.Spec.Equal(w.Spec):
			bad.Other = append(bad.Other, Mismatch{w.Name, w.Spec.String(), w.from.Spec.String()})
		}
	}
	return bad.err()
}

// Load copies the weights of a trainer, which may be on another device: all as they are after the
// same step. It may be called at any time. While Fit or Evaluate runs it waits until the step that
// runs has ended, and the next one waits for the copy; in Options.Progress and in the body of a loop
// over steps it copies at once. Predictions wait for the copy and not for the step. If the trainer
// lacks weights of the predictor or has them in another shape, the error is a *WeightsError; what
// else the trainer has is left out. Cancelling ctx ends the wait.
func (p *Predictor) Load(ctx context.Context, t *Trainer) error { return p.load(ctx, t, false) }

// LoadAveraged is Load with the average of each weight that the trainer averages, and the weight
// itself where it does not. Without Options.Average it returns an error that wraps ErrOption.
func (p *Predictor) LoadAveraged(ctx context.Context, a Averaged) error {
	return p.load(ctx, a.trainer, true)
}

// load is Load, or with averaged set LoadAveraged.
func (p *Predictor) load(ctx context.Context, t *Trainer, averaged bool) error {
	if err := p.usable(ctx); err != nil {
		return err
	}
	if t.use().isClosed() {
		return fmt.Errorf("load weights: %w", errClosed)
	}
	if averaged {
		if err := (Averaged{t}).check(); err != nil {
			return fmt.Errorf("load weights: %w", err)
		}
	}
	all := p.weights.plan.weightParts()
	if err := matchWeights(all, func(w ir.Part) (ir.Part, bool) {
		if home, ok := t.plan.average(w.Name); ok && averaged {
			return home, true
		}
		return t.plan.stored(w.Name)
	}); err != nil {
		return err
	}
	err := t.snapshot(ctx, false, func(*epochPass) error { return p.weights.copyFrom(t.memory, t.streams.compute, all) })
	if err != nil {
		return fmt.Errorf("load weights: %w", err)
	}
	return nil
}

// LoadPredictor copies the weights of another predictor, which may be on another device. To share
// weights without a copy see View.
func (p *Predictor) LoadPredictor(ctx context.Context, q *Predictor) error {
	if err := errors.Join(p.usable(ctx), q.usable(ctx)); err != nil {
		return err
	}
	if p.weights == q.weights {
		return nil
	}
	all := p.weights.plan.weightParts()
	err := matchWeights(all, func(w ir.Part) (ir.Part, bool) { return q.weights.plan.homes.Find(w.Ref.Region, w.Name) })
	if err != nil {
		return err
	}
	// The copies are made in Go memory, so that no call holds the locks of both predictors.
	data := make([][]byte, len(all))
	err = q.weights.hold(func() error {
		for i, w := range all {
			data[i] = make([]byte, w.Spec.Bytes())
			if err := q.weights.memory.read(w.from.Ref, w.Name, data[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = p.weights.change(func() error { return p.weights.writeAll(all, data) })
	}
	if err != nil {
		return fmt.Errorf("load weights: %w", err)
	}
	return nil
}

// LoadWeights sets all weights from a function that returns the elements of one, row-major, by its
// name; nil if it has none. A map m is func(name string) []float32 { return m[name] }. Missing
// weights and those of another size are a *WeightsError. Weights are copied, and rounded or widened
// to their type; Weights lists them.
func (p *Predictor) LoadWeights(ctx context.Context, values func(name string) []float32) error {
	if err := p.usable(ctx); err != nil {
		return err
	}
	if values == nil {
		return fmt.Errorf("load weights: no function: %w", ErrOption)
	}
	all := p.weights.plan.weightParts()
	data, bad := make([][]byte, len(all)), &WeightsError{}
	for i, w := range all {
		x, elems := values(w.Name), w.Spec.Shape.Elems()
		switch {
		case x == nil:
			bad.Missing = append(bad.Missing, w.Name)
		case len(x) != elems:
			bad.Other = append(bad.Other, Mismatch{w.Name, fmt.Sprintf("%d elements, %v", elems, w.Spec), fmt.Sprint(len(x), " elements")})
		case w.Spec.Type == arena.Float32:
			data[i] = elementBytes(x)
		case w.Spec.Type == arena.Float64:
			wide := make([]float64, elems)
			for k, v := range x {
				wide[k] = float64(v)
			}
			data[i] = elementBytes(wide)
		default: // a value that the graph holds, such as indices
			bad.Other = append(bad.Other, Mismatch{w.Name, w.Spec.String(), "float32"})
		}
	}
	if err := bad.err(); err != nil {
		return err
	}
	if err := p.weights.change(func() error { return p.weights.writeAll(all, data) }); err != nil {
		return fmt.Errorf("load weights: %w", err)
	}
	return nil
}

// usable returns an error if p is closed or ctx has ended.
func (p *Predictor) usable(ctx context.Context) error {
	switch {
	case p == nil || p.weights == nil || p.queue.isClosed():
		return errPredictorClosed
	case ctx == nil:
		return errNilContext
	}
	return ctx.Err()
}

// change calls f, which changes the weights, while no batch is being computed, and prepacks them: also
// after an error, since f may have changed some.
func (w *predictorWeights) change(f func() error) error {
	return w.hold(func() (err error) {
		defer func() { // after a panic of f, too
			if repacked := w.repack(); err == nil {
				err = repacked
			}
		}()
		return f()
	})
}

// hold calls f while no batch is being computed and nothing else changes the weights.
func (w *predictorWeights) hold(f func() error) error {
	w.update.Lock()
	defer w.update.Unlock()
	for _, l := range w.lanes {
		l.run.Lock()
		defer l.run.Unlock()
	}
	w.mu.Lock()
	closed := w.open == 0
	w.mu.Unlock()
	if closed {
		return errPredictorClosed
	}
	if err := w.compute.Sync(); err != nil { // as in compute
		return err
	}
	return f()
}

// copyFrom copies weights from another memory. On one device the copies are enqueued on compute,
// which orders them among the steps of a trainer; else they go through the memory of the host.
func (w *predictorWeights) copyFrom(from *memory, compute arena.Stream, all []weight) error {
	return w.change(func() error {
		if sameDevice(from.device, w.memory.device) {
			return w.copyOnDevice(from, compute, all)
		}
		done, err := from.device.NewEvent()
		if err != nil {
			return err
		}
		if err := errors.Join(compute.Record(done), done.Sync(), done.Close()); err != nil {
			return err
		}
		for _, x := range all {
			err := w.memory.write(x.Part, func(dst []byte) error { return from.read(x.from.Ref, x.Name, dst) })
			if err != nil {
				return fmt.Errorf("%q: %w", x.Name, err)
			}
		}
		return nil
	})
}

// copyOnDevice copies weights on the device of both memories. When it returns, the copies are done,
// also after an error, which the stream then no longer has.
func (w *predictorWeights) copyOnDevice(from *memory, compute arena.Stream, all []weight) (err error) {
	defer func() {
		if err == nil {
			return
		}
		if failed := compute.Sync(); failed != nil && !errors.Is(err, failed) {
			err = errors.Join(err, failed)
		}
	}()
	for _, x := range all {
		if err := compute.Copy(w.span(x.Ref, 0), from.place(x.from.Ref)); err != nil {
			return fmt.Errorf("%q: %w", x.Name, err)
		}
	}
	if err := compute.Record(w.loaded); err != nil {
		return err
	}
	return w.loaded.Sync()
}

// writeAll sets the weights from bytes in the order of all.
func (w *predictorWeights) writeAll(all []weight, data [][]byte) error {
	for i, x := range all {
		if err := w.memory.write(x.Part, func(dst []byte) error { copy(dst, data[i]); return nil }); err != nil {
			return fmt.Errorf("%q: %w", x.Name, err)
		}
	}
	return nil
}

// read copies a program's value to dst, which has its size.
func (m *memory) read(ref arena.Ref, name string, dst []byte) error {
	h, err := m.tensor(ref, 0, name)
	if err != nil {
		return err
	}
	return h.Read(dst)
}

// sameDevice reports whether a and b are one device.
func sameDevice(a, b kernels.Device) bool { return reflect.ValueOf(a).Comparable() && a == b }
