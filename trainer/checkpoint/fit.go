package checkpoint

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/trainer"
)

// Times of Fit.
const (
	look  = 5 * time.Millisecond // between two looks at the number of steps
	grace = 10 * time.Second     // for the end of a step after its context has ended
)

// Fit trains an epoch, or the rest of a restored one, as t.Fit does, and takes checkpoints as Steps
// does, but at the end of an epoch only if one is due. It looks at the number of steps every 5 ms,
// so that a checkpoint by steps may be some short steps late. With Options.Group it looks after each
// update; if ctx is done, the checkpoint is of a step within the window of trainer.Options.Accumulate.
//
// When Options.Stop is closed, Fit takes a checkpoint after the step that runs and returns the
// results so far without an error; Stopped then reports true. If it is closed between two epochs,
// the next call does so without training. When ctx is done, Fit does the same, with the error of
// ctx. Of an epoch that has ended so, or with a fault, no further call takes a checkpoint, which
// would leave out the rest of the epoch. After a rollback, Fit trains the rest of the checkpoint's
// epoch, which may be an earlier one:
//
//	for t.Position().Epoch < 100 && !folder.Stopped() {
//		result, err := folder.Fit(ctx, t, data)
//		…
//	}
func (f *Folder) Fit(ctx context.Context, t *trainer.Trainer, ds dataloader.Dataset) (trainer.Result, error) {
	if f.opt.grouped() {
		return f.fitTogether(ctx, t, ds)
	}
	if err := f.begin(ctx, t); err != nil {
		return trainer.Result{}, err
	}
	for {
		if ctx.Err() != nil {
			// It is that of the pass, whether the checkpoint is written or not.
			_ = f.between(ctx, t)
			return trainer.Result{}, ctx.Err()
		}
		if f.halted() {
			return trainer.Result{}, f.between(ctx, t)
		}
		result, err := f.epoch(ctx, t, ds)
		if err == nil {
			return result, nil
		}
		again, err := f.rollback(ctx, t, err)
		if !again {
			return result, err
		}
	}
}

// between takes the checkpoint of what was trained before an epoch that does not begin, as
// Options.Stop is closed or ctx is done. It takes none after a pass that was broken off: the state
// goes on with the next epoch, and what is left of that one would never be trained.
func (f *Folder) between(ctx context.Context, t *trainer.Trainer) (err error) {
	if step := t.Stats().Steps; step > 0 && step != f.brokenOff {
		err = f.finish(ctx, t, step, true)
	}
	if f.halted() {
		f.halt()
	}
	return err
}

// epoch is Fit without rollbacks.
func (f *Folder) epoch(ctx context.Context, t *trainer.Trainer, ds dataloader.Dataset) (trainer.Result, error) {
	// The watch ends the pass, after a checkpoint.
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	begun := t.Position()
	w := watch{f: f, t: t, epoch: begun.Epoch, ended: make(chan struct{})}
	var wait sync.WaitGroup
	wait.Go(func() {
		if w.run(ctx) {
			cancel()
		}
	})
	result, err := t.Fit(inner, ds)
	close(w.ended)
	wait.Wait()
	if err != nil && t.Position() != begun {
		f.brokenOff = t.Stats().Steps
	}
	if w.late && err == nil { // a whole epoch; after a fault there is none
		if err := f.between(ctx, t); err != nil {
			return result, err
		}
	}
	switch {
	case w.err != nil && err != nil && !errors.Is(err, context.Canceled): // a fault of its own
		return result, errors.Join(err, w.err)
	case w.err != nil:
		return result, w.err
	case w.halted && errors.Is(err, context.Canceled):
		f.halt()
		return result, nil
	case err != nil:
		return result, err
	}
	if f.due(t.Stats().Steps, int64(t.Position().Epoch)) {
		return result, f.take(ctx, t)
	}
	return result, f.fail(f.Err())
}

// watch takes checkpoints while a pass of Fit runs, from a goroutine of its own.
type watch struct {
	f      *Folder
	t      *trainer.Trainer
	ended  chan struct{} // closed after the pass
	epoch  int           // that the pass is over
	late   bool          // the pass had ended when its last checkpoint was to be taken
	halted bool          // Options.Stop has ended it
	err    error         // of the trainer, of ctx, or of a checkpoint with Options.Fail
}

// run watches until the pass has ended. It returns true if the pass is to end.
func (w *watch) run(ctx context.Context) (stop bool) {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		select {
		case <-w.ended:
			return false
		case <-ctx.Done():
			// The error of ctx is that of the pass, whether the checkpoint is written or not.
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
			defer cancel()
			_ = w.last(end)
			w.err = ctx.Err()
			return true
		case <-w.f.opt.Stop:
			w.halted = true
			w.err = w.last(ctx)
			return true
		case <-ticker.C:
			if w.err = w.look(ctx); w.err != nil {
				return true
			}
		}
	}
}

// look takes a checkpoint if one is due. The end of an epoch is left to Fit.
func (w *watch) look(ctx context.Context) error {
	if err := w.f.fail(w.f.Err()); err != nil {
		return err
	}
	if !w.f.due(w.t.Stats().Steps, w.f.schedule.epoch) {
		return nil
	}
	_, err := w.take(ctx)
	return err
}

// take takes a checkpoint, unless the pass has ended meanwhile.
func (w *watch) take(ctx context.Context) (taken bool, err error) {
	if w.f.watching != nil {
		w.f.watching(w.ended)
	}
	return w.f.takeIn(ctx, w.t, w.epoch)
}

// last takes the checkpoint at the end of a pass and waits for it.
func (w *watch) last(ctx context.Context) error {
	w.f.writer.wait()
	taken, err := w.take(ctx)
	if err != nil {
		return err
	}
	w.late = !taken
	return w.f.fail(w.f.Wait())
}
