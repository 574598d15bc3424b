package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
)

// Prediction is the model's output for one sample.
type Prediction struct {
	Sample int       // index in the dataset
	Output []float64 // one row of Model.Output, valid until the loop continues: copy it to keep it

	named []namedRow // of Model.Outputs
}

// namedRow is a row of one of Model.Outputs.
type namedRow struct {
	name string
	row  []float64
}

// Named returns the row of the node of that name in Model.Outputs, valid until the loop continues,
// or nil if there is none.
func (p Prediction) Named(name string) []float64 {
	for _, n := range p.named {
		if n.name == name {
			return n.row
		}
	}
	return nil
}

// Predict yields the output for every sample of ds, in order. ds may have any number of samples,
// and need not have the fields that only the loss reads, such as labels. Outputs that are not
// finite are no error. After an error it yields nothing more.
//
// Any number of goroutines may predict at the same time: they take turns on the device, batch by
// batch. While Fit or Evaluate runs, Predict yields ErrBusy, but not in the body of Steps. The device
// is free while the caller handles the outputs of a batch: the caller may then even call Fit,
// Evaluate or Close. After Close, Predict yields ErrClosed.
func (t *Trainer) Predict(ctx context.Context, ds dataloader.Dataset) iter.Seq2[Prediction, error] {
	return func(yield func(Prediction, error) bool) {
		if err := t.predict(ctx, ds, false, yield); err != nil {
			yield(Prediction{}, fmt.Errorf("predict: %w", err))
		}
	}
}

// predict is Predict until its first error; averaged: with the averages of parameters.
func (t *Trainer) predict(ctx context.Context, ds dataloader.Dataset, averaged bool,
	yield func(Prediction, error) bool,
) (err error) {
	if ctx == nil {
		return errNilContext
	}
	source, err := t.openPrediction(ctx, ds, averaged)
	if err != nil {
		return err
	}
	opt := &t.plan.opt
	rows := opt.rows(compile.Predict)
	l, err := dataloader.New(source.read, dataloader.Options{Batch: rows, Seed: opt.Seed, Workers: 1})
	if err != nil {
		return err
	}
	defer l.Close()
	// Two batches: the reader fills one while the device computes, or the caller handles, the other.
	host := t.staging.take(source.fields, rows)
	run, err := l.Epoch(ctx, 0, host.slots)
	if err != nil {
		return err
	}
	defer func() {
		if run.Close() == nil { // else a reader may still write to host
			t.staging.give(host)
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
		// The device is free while the caller handles the rows of a batch.
		if err := t.predictBatch(ctx, source, host, b); err != nil {
			return fmt.Errorf("samples from %d: %w", b.Indices[0], err)
		}
		if !host.yield(b, yield) {
			return nil
		}
		if err := run.Release(b.Slot, nil); err != nil {
			return err
		}
	}
}

// openPrediction opens the source of a prediction.
func (t *Trainer) openPrediction(ctx context.Context, ds dataloader.Dataset, averaged bool) (batchSource, error) {
	if err := t.use().acquire(ctx); err != nil {
		return batchSource{}, err
	}
	defer t.usage.release()
	source, err := t.openSource(ctx, compile.Predict, averaged, ds)
	if err == nil {
		err = t.openTail(ctx, compile.Predict, &source)
	}
	return source, err
}

// predictBatch runs one batch on slot 0 and copies its outputs to host.
func (t *Trainer) predictBatch(ctx context.Context, source batchSource, host *hostBatch, b dataloader.Batch) error {
	if err := t.usage.acquire(ctx); err != nil {
		return err
	}
	defer t.usage.release()
	if err := t.takeSlots(); err != nil {
		return err
	}
	if err := t.streams.compute.Sync(); err != nil { // as in openSource
		return err
	}
	// openPrediction has made the program of the last, short batch. Other predictions may have dropped
	// it since.
	k := programKey{mode: compile.Predict, rows: b.Rows, dataset: source.dataset, averaged: source.full.averaged}
	if k == source.tail {
		if err := t.ensurePrograms(ctx, k); err != nil {
			return err
		}
	}
	p, err := t.programs.find(k)
	if err != nil {
		return err
	}
	// The loader fills Go memory, not the slot: that is this prediction's for one batch only.
	s := t.slots[0]
	for _, f := range s.fields {
		t.memory.willWrite(f)
	}
	for k, f := range source.fields {
		copy(s.host[f.Name], host.slots[b.Slot].Fields[k][:int64(b.Rows)*f.Bytes()])
	}
	// Wait at once: the next batch may be another prediction's.
	s.uploads = &p.own
	err = p.enqueue(&t.streams, s)
	if drained := t.streams.drain(t.slots); err == nil {
		err = drained
	}
	if err != nil {
		return err
	}
	t.memory.willRead(s.outcome)
	// Numbers that are not finite are no error here, so only a bad index sets the status word.
	if err := badIndex(p.ir.Indices, s.status, b.Indices); err != nil {
		return errors.Join(err, t.memory.clear(ir.Guard, t.streams.compute))
	}
	t.uploaded.Add(p.own.sampleBytes)
	// The copy frees the slot for other predictions before the caller sees the first row.
	host.copy(p.ir, s.results)
	return nil
}
