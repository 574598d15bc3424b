package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Prediction is the model's output for one sample.
type Prediction struct {
	Sample int       // index in the dataset
	Output []float64 // one row of Model.Output; overwritten by the next one
}

// stage is host memory of two batches for prediction, which many goroutines may be at while the device's slots are one pass's.
type stage struct {
	slots  []dataloader.Slot
	output []byte
	row    []float64
}

// Predict yields the output for every sample of ds, in order. Any number of rows and, at once, any number of goroutines are fine: each
// takes the device for one batch at a time. While Fit or Evaluate runs it yields ErrBusy; between two batches others may run them, or
// Close, after which it yields ErrClosed. Fields that only the loss needs may be missing from ds. What is not finite is yielded as it is.
func (t *Trainer) Predict(ctx context.Context, ds dataloader.Dataset) iter.Seq2[Prediction, error] {
	return func(yield func(Prediction, error) bool) {
		if err := t.predict(ctx, ds, yield); err != nil {
			yield(Prediction{}, fmt.Errorf("predict: %w", err))
		}
	}
}

func (t *Trainer) predict(ctx context.Context, ds dataloader.Dataset, yield func(Prediction, error) bool) (err error) {
	if ctx == nil {
		return fmt.Errorf("nil context: %w", ErrOption)
	}
	w, err := t.preparePredict(ctx, ds)
	if err != nil {
		return err
	}
	st := t.takeStage(w.fields)
	l, err := dataloader.New(w.read, dataloader.Options{Batch: t.opt.rows(compile.Predict), Seed: t.opt.Seed, Workers: 1})
	if err != nil {
		return err
	}
	defer l.Close()
	run, err := l.Epoch(ctx, 0, st.slots)
	if err != nil {
		return err
	}
	defer func() {
		if run.Close() == nil { // else a reader may still write to it
			t.giveStage(st)
		}
	}()
	for {
		b, err := run.Next(ctx)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		spec, err := t.predictBatch(w, st, b)
		if err != nil {
			return fmt.Errorf("samples from %d: %w", b.Indices[0], err)
		}
		width := spec.Shape.Elems() / b.Rows
		bytes := int64(width) * spec.Type.Size()
		for r, i := range b.Indices {
			kernels.Load(st.row[:width], spec.Type, st.output[int64(r)*bytes:int64(r+1)*bytes])
			if !yield(Prediction{Sample: int(i), Output: st.row[:width]}, nil) {
				return nil
			}
		}
		if err := run.Release(b.Slot, nil); err != nil {
			return err
		}
	}
}

// preparePredict checks ds and makes ready what its prediction needs.
func (t *Trainer) preparePredict(ctx context.Context, ds dataloader.Dataset) (*walk, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.idle(); err != nil {
		return nil, err
	}
	if err := t.reside(ctx, ds); err != nil {
		return nil, err
	}
	return t.source(ctx, compile.Predict, ds)
}

// predictBatch runs one batch on the first slot and brings its output to st.
func (t *Trainer) predictBatch(w *walk, st *stage, b dataloader.Batch) (kernels.Spec, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.idle(); err != nil {
		return kernels.Spec{}, err
	}
	if err := t.compute.Sync(); err != nil { // as in pass
		return kernels.Spec{}, err
	}
	p, err := t.ready(key{mode: compile.Predict, rows: b.Rows, source: w.from})
	if err != nil {
		return kernels.Spec{}, err
	}
	s := t.slot[0]
	for _, f := range s.fields {
		t.announce(f, true)
	}
	for k, f := range w.fields {
		copy(s.host[f.Name], st.slots[b.Slot].Fields[k][:int64(b.Rows)*f.Bytes()])
	}
	err = t.enqueue(s, p)
	if e := t.drain(); err == nil {
		err = e
	}
	if err != nil {
		return kernels.Spec{}, err
	}
	t.announce(s.outcome, false)
	if err := badIndex(p.ir.Indices, s.guard, b.Indices); err != nil {
		return kernels.Spec{}, errors.Join(err, t.clear(ir.Guard))
	}
	t.uploaded.Add(p.bytes)
	out, _ := p.ir.Result(compile.OutputName)
	st.output = append(st.output[:0], s.results[out.Ref.Offset:out.Ref.Offset+out.Ref.Size]...)
	if width := out.Spec.Shape.Elems() / b.Rows; len(st.row) < width {
		st.row = make([]float64, width)
	}
	return out.Spec, nil
}

// maxStages bounds the host memory kept for later predictions.
const maxStages = 4

// takeStage returns host memory for batches of such fields.
func (t *Trainer) takeStage(fields []dataloader.Field) *stage {
	t.mu.Lock()
	defer t.mu.Unlock()
	rows := t.opt.rows(compile.Predict)
	for i, st := range t.stages {
		if st.fits(fields, rows) {
			t.stages = slices.Delete(t.stages, i, i+1)
			return st
		}
	}
	st := &stage{slots: make([]dataloader.Slot, 2)}
	for i := range st.slots {
		for _, f := range fields {
			st.slots[i].Fields = append(st.slots[i].Fields, make([]byte, f.Bytes()*int64(rows)))
		}
	}
	return st
}

func (t *Trainer) giveStage(st *stage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.stages) < maxStages {
		t.stages = append(t.stages, st)
	}
}

// fits reports whether st has exactly the room that batches of such fields need.
func (st *stage) fits(fields []dataloader.Field, batch int) bool {
	if len(st.slots[0].Fields) != len(fields) {
		return false
	}
	for k, f := range fields {
		if int64(len(st.slots[0].Fields[k])) != f.Bytes()*int64(batch) {
			return false
		}
	}
	return true
}

// kept is a step whose kept values can be read.
type kept struct {
	program *pair
	slot    int
}

// Kept returns a handle to the value of a node of Options.Keep, as the step reported last left it, and its type and shape, whose first
// dimension is that step's batch. The handle is valid until the next step begins: use it inside Options.Progress or after a pass. Later it
// returns arena.ErrStale.
func (t *Trainer) Kept(name string) (arena.Handle, kernels.Spec, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.arena == nil {
		return arena.Handle{}, kernels.Spec{}, ErrClosed
	}
	if !slices.Contains(t.opt.Keep, name) {
		return arena.Handle{}, kernels.Spec{}, fmt.Errorf("%q is not kept: add it to Options.Keep: %w", name, ErrOption)
	}
	if t.last.program == nil {
		return arena.Handle{}, kernels.Spec{}, fmt.Errorf("%q: no step has run yet: %w", name, arena.ErrStale)
	}
	v, ok := t.last.program.ir.Result(name)
	if !ok {
		return arena.Handle{}, kernels.Spec{}, fmt.Errorf("%q: the last step does not compute it: %w", name, arena.ErrStale)
	}
	t.shown = true
	h, err := t.arena.Handle(t.at(v.Ref, t.last.slot), name)
	return h, v.Spec, err
}
