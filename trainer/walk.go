package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// walk is one pass over a dataset: the loop of training and of evaluation.
//
//	loader ─► pinned slot ─copy stream─► device slot ─┐
//	          (one place on unified devices)          └─compute stream─► results ─► sums
type walk struct {
	t      *Trainer
	mode   compile.Mode
	from   int                // streamed, or the index of a resident dataset
	read   dataloader.Dataset // what is read: the samples, or the indices of resident ones
	fields []dataloader.Field // of read
	loader *dataloader.Loader
	full   *pair // the program of a full batch
	epoch  int

	before         int64   // training steps before this pass
	updates        int64   // updates before this pass
	skipped        int64   // updates, since they overflowed
	loss, right    float64 // sums over samples
	samples, steps int
	uploaded       int64
}

// run submits each batch as it comes and collects each step's results when they are there. At most two steps are in flight: the
// device works on one while the other waits for it. With a scaled loss only the batch of the other is there: it waits for the outcome of an update.
func (w *walk) run(ctx context.Context) (err error) {
	t := w.t
	run, err := w.loader.Epoch(ctx, w.epoch, t.loaderSlots(w.fields))
	if err != nil {
		return err
	}
	defer func() { err = w.finish(run, err) }()
	var before *slot // of the step before, if it is still in flight
	for {
		b, err := run.Next(ctx)
		if err == io.EOF {
			return w.collect(run, before)
		}
		if err != nil {
			return errors.Join(w.collect(run, before), err)
		}
		s := t.slot[b.Slot]
		if err := w.stage(s, b); err != nil {
			return errors.Join(w.collect(run, before), fmt.Errorf("step %d: %w", b.Step, err))
		}
		if before != nil && before.program.updates && t.opt.scaled() {
			if err := w.collect(run, before); err != nil {
				return err
			}
			before = nil
		}
		if err := w.submit(run, s); err != nil {
			return errors.Join(w.collect(run, before), fmt.Errorf("step %d: %w", b.Step, err))
		}
		if err := w.collect(run, before); err != nil {
			return err
		}
		before = s
		if s.ready.Done() {
			before = nil
			if err := w.collect(run, s); err != nil {
				return err
			}
		}
	}
}

// finish ends the run of a pass that ended with err. No step is in flight afterwards, and what a step has said of itself is forgotten.
func (w *walk) finish(run *dataloader.Run, err error) error {
	t := w.t
	drained, closed := t.drain(), run.Close()
	if closed != nil {
		t.mu.Lock()
		t.stuck = run
		t.mu.Unlock()
	}
	switch {
	case err == nil:
		err = drained
	case drained == nil: // else it has said the same again
		err = errors.Join(err, t.clear(ir.Guard))
	}
	return errors.Join(err, closed)
}

// stage chooses the program of the batch in slot s, and enqueues the early uploads.
func (w *walk) stage(s *slot, b dataloader.Batch) error {
	t := w.t
	window, _, _ := t.opt.window(w.mode, b.Step, w.loader.Steps())
	p := w.full
	if b.Rows != p.rows || window != p.window {
		var err error
		if p, err = t.ready(key{w.mode, b.Rows, w.from, window}); err != nil {
			return err
		}
	}
	s.batch, s.program = b, p
	s.indices = append(s.indices[:0], b.Indices...)
	if err := t.forgetKept(s); err != nil {
		return err
	}
	return t.bring(p.early[s.index])
}

// tell writes the controls of the step in slot s.
func (w *walk) tell(s *slot) error {
	t, b := w.t, s.batch
	_, first, end := t.opt.window(w.mode, b.Step, w.loader.Steps())
	t.announce(s.controlsSpan, true)
	update := w.updates - w.skipped + int64(first/max(1, t.opt.Accumulate)) + 1
	if err := optim.Write(t.opt.optimizer(), t.opt.Schedule, update, s.controls); err != nil {
		return err
	}
	share := float64(b.Rows) / float64(w.rowsBefore(end)-w.rowsBefore(first))
	if t.opt.scaled() {
		share *= t.scaling.Scale
		s.controls[kernels.ControlUnscale] = 1 / t.scaling.Scale
	}
	s.controls[kernels.ControlShare] = share
	s.controls[kernels.ControlStep] = float64(w.before + int64(b.Step) + 1)
	return nil
}

// submit enqueues the step whose batch is in slot s.
func (w *walk) submit(run *dataloader.Run, s *slot) error {
	t, p := w.t, s.program
	if w.mode == compile.Train {
		if err := w.tell(s); err != nil {
			return err
		}
	}
	if err := t.enqueue(s, p); err != nil {
		return err
	}
	if err := t.compute.Record(s.ready); err != nil {
		return err
	}
	t.inFlight++
	w.uploaded += p.bytes
	if t.unified {
		return nil // collect releases the slot, when the kernels are done with it
	}
	return run.Release(s.index, s.free)
}

// rowsBefore returns the samples of all steps before one.
func (w *walk) rowsBefore(step int) int { return min(step*w.full.rows, w.read.Len()) }

// forgetKept makes the handles to kept values stale, and no new ones to those of slot s, which the next step overwrites.
func (t *Trainer) forgetKept(s *slot) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last.slot == s.index {
		t.last = kept{}
	}
	if !t.shown {
		return nil
	}
	t.shown = false
	return t.arena.Reset(t.regions[0][ir.Results].Region)
}

// collect waits for the step in slot s, if there is one, and adds its numbers to the sums.
func (w *walk) collect(run *dataloader.Run, s *slot) error {
	if s == nil {
		return nil
	}
	t, p := w.t, s.program
	t.inFlight--
	if err := s.ready.Sync(); err != nil {
		return fmt.Errorf("step %d: %w", s.batch.Step, err)
	}
	t.announce(s.outcome, false)
	loss := s.number(p.loss)
	skipped := t.overflowed(s, loss)
	switch {
	case skipped:
		w.skipped++
		if err := t.clear(ir.Guard); err != nil {
			return fmt.Errorf("step %d: %w", s.batch.Step, err)
		}
	case len(s.guard) > 0 && s.guard[0] != 0 || !finite(loss):
		return fmt.Errorf("step %d: %w", s.batch.Step, t.diagnose(s))
	}
	rows := s.batch.Rows
	w.loss += loss * float64(rows)
	if p.guess {
		w.right += s.number(p.right)
	}
	w.samples += rows
	w.steps++
	t.finish(s, skipped)
	if t.unified {
		if err := run.Release(s.index, nil); err != nil {
			return err
		}
	}
	if t.opt.Progress != nil {
		t.opt.Progress(Progress{Epoch: w.epoch, Step: w.steps, Steps: w.loader.Steps(), Samples: w.samples,
			Loss: w.loss / float64(w.samples), Accuracy: w.accuracy(p)})
	}
	return nil
}

func (w *walk) accuracy(p *pair) float64 {
	if p == nil || !p.guess {
		return math.NaN()
	}
	return w.right / float64(w.samples)
}

// result returns the pass's numbers.
func (w *walk) result() Result {
	if w.samples == 0 {
		return Result{Loss: math.NaN(), Accuracy: math.NaN(), Dropped: w.loader.Dropped(), Epoch: w.epoch}
	}
	return Result{Loss: w.loss / float64(w.samples), Accuracy: w.accuracy(w.full),
		Samples: w.samples, Steps: w.steps, Skipped: int(w.skipped), Dropped: w.loader.Dropped(), Epoch: w.epoch, Uploaded: w.uploaded}
}
