package checkpoint

import (
	"context"
	"errors"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/trainer"
)

// measured are values that were measured after a step.
type measured struct {
	step   int64
	values map[string]float64
}

// after returns the values that were measured after a step; nil if there are none.
func (m *measured) after(step int64) map[string]float64 {
	if m.step != step {
		return nil
	}
	return m.values
}

// Values returns the numbers of a result by name, for Folder.Measured: "loss"; "accuracy" if there
// is one; of several objectives each loss by the objective's name; and the model's metrics.
func Values(r trainer.Result) map[string]float64 {
	all := map[string]float64{"loss": r.Loss}
	if !math.IsNaN(r.Accuracy) {
		all["accuracy"] = r.Accuracy
	}
	if len(r.Losses) > 1 {
		for _, o := range r.Losses {
			all[o.Name] = o.Loss
		}
	}
	for _, m := range r.Metrics {
		all[m.Name] = m.Value
	}
	return all
}

// Measured tells the folder what was measured of t as it is now, such as the Values of an
// evaluation. The values are kept with a checkpoint of this step. If the one of Options.Best is the
// best so far, the checkpoint is taken at once: Measured waits for one that is being written, and
// for the copy of the state. It may be called in the body of Steps and between loops. It returns
// the error of the trainer, and a *SaveError if Options.Fail is set. If t is at an earlier step
// than the newest checkpoint, the error is an *OccupiedError: use another folder to train on from
// there.
func (f *Folder) Measured(ctx context.Context, t *trainer.Trainer, values map[string]float64) error {
	if err := f.begin(ctx, t); err != nil {
		return err
	}
	f.measured = measured{t.Stats().Steps, maps.Clone(values)}
	var own decision
	if value, ok := values[f.opt.Best.Metric]; ok && !math.IsNaN(value) {
		f.writer.wait() // the one that is being written may be better
		if best, has := f.Best(); !has || f.opt.Best.better(value, best.Metrics[f.opt.Best.Metric]) {
			own = takes
		}
	}
	if d, err := f.decide(own, nil); err != nil || d == 0 {
		return err
	}
	return errors.Join(f.take(ctx, t), f.fail(f.Err()))
}

// Save takes a checkpoint of t as it is now and waits until it is written. It may be called in the
// body of Steps and between loops. The error is a *SaveError, or one of the trainer.
func (f *Folder) Save(ctx context.Context, t *trainer.Trainer) error {
	if err := f.begin(ctx, t); err != nil {
		return err
	}
	f.writer.wait()
	if err := f.take(ctx, t); err != nil {
		return err
	}
	return f.Wait()
}

// take captures the state of t, and gives it to the goroutine that writes. The caller has seen that
// it is free. The error is one of the trainer. If its memory for a copy is in use, by a State that
// someone else holds, the checkpoint fails as one that cannot be written: the next due one tries
// again.
func (f *Folder) take(ctx context.Context, t *trainer.Trainer) error {
	_, err := f.takeIn(ctx, t, -1)
	return err
}

// takeIn is take, but of a state that goes on in another epoch it takes none, if epoch is not
// negative: the pass over the epoch has ended, maybe with a fault.
func (f *Folder) takeIn(ctx context.Context, t *trainer.Trainer, epoch int) (taken bool, err error) {
	state, err := t.Capture(ctx)
	f.requested.Store(false)
	switch {
	case errors.Is(err, trainer.ErrBusy):
		step := t.Stats().Steps
		if f.opt.follows() {
			return true, nil
		}
		f.mu.Lock()
		f.note(Checkpoint{Name: stem(step) + suffix, Step: step}, err, 0)
		f.mu.Unlock()
		f.log.Error("a checkpoint is not written", "step", step, "error", err)
		f.schedule.start(step, int64(t.Position().Epoch), f.now())
		return true, nil
	case err != nil:
		return false, err
	case epoch >= 0 && state.Info().Position.Epoch != epoch:
		state.Release()
		return false, nil
	}
	return true, f.give(state)
}

// give gives a captured state to the goroutine that writes, which is free. A state that is older
// than the newest checkpoint is refused, since Resume would not take it.
func (f *Folder) give(state *trainer.State) error {
	info := state.Info()
	if f.opt.follows() {
		state.Release()
		f.captured = info.Steps
		return nil
	}
	if newest := f.newest(); newest.Step > info.Steps {
		state.Release()
		return &OccupiedError{Dir: f.dir, Newest: newest.Name}
	}
	if !f.writer.start(job{state, f.measured.after(info.Steps)}) {
		state.Release()
		return f.errClosed()
	}
	f.captured = info.Steps
	f.schedule.start(info.Steps, int64(info.Position.Epoch), f.now())
	return nil
}

// newest returns the newest checkpoint, a zero one if there is none.
func (f *Folder) newest() Checkpoint {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.all) == 0 {
		return Checkpoint{}
	}
	return f.all[len(f.all)-1]
}

// write writes a checkpoint and removes those that are no longer kept. It is the work of the
// folder's goroutine.
func (f *Folder) write(j job) {
	begun := time.Now()
	c, err := f.create(j)
	j.state.Release()
	f.mu.Lock()
	f.note(c, err, time.Since(begun))
	var others []Checkpoint
	if err == nil {
		f.all, others = surplus(f.all, f.keep(), f.opt.Best)
		var outlived []Checkpoint
		f.damaged, outlived = f.outlived()
		others = append(others, outlived...)
	}
	f.mu.Unlock()
	if err != nil {
		f.log.Error("a checkpoint is not written", "step", c.Step, "error", err)
		return
	}
	f.log.Info("checkpoint", "name", c.Name, "step", c.Step, "bytes", c.Bytes, "time", time.Since(begun))
	for _, c := range others {
		if err := f.remove(c); err != nil {
			f.log.Warn("an old checkpoint is not removed", "name", c.Name, "error", err)
		}
	}
}

// outlived divides the checkpoints that could not be read into those that stay, and those after
// which as many others are complete as are kept. f.mu is held.
func (f *Folder) outlived() (stay, others []Checkpoint) {
	for _, c := range f.damaged {
		later := len(f.all)
		for later > 0 && f.all[len(f.all)-later].Step < c.Step {
			later--
		}
		if n := f.keep(); n > 0 && later >= n {
			others = append(others, c)
		} else {
			stay = append(stay, c)
		}
	}
	return stay, others
}

// keep returns the number of latest checkpoints that are kept.
func (f *Folder) keep() int {
	if f.opt.Keep == 0 {
		return defaultKeep
	}
	return f.opt.Keep
}

// note notes that a checkpoint was written, or why not. f.mu is held.
func (f *Folder) note(c Checkpoint, err error, took time.Duration) {
	if err != nil {
		f.stats.Failed++
		f.err = &SaveError{Path: f.Path(c), Step: c.Step, Err: err}
		// It is there if only the folder's names could not be made durable.
		if c, err := describe(f.dir, c); err == nil {
			f.add(c)
		}
		return
	}
	f.stats.Saved++
	f.stats.Last, f.stats.LastTime = c, took
	f.err = nil
	f.add(c)
}

// add adds a checkpoint to the list, in the place of one of the same step. f.mu is held.
func (f *Folder) add(c Checkpoint) {
	same := func(o Checkpoint) bool { return o.Step == c.Step }
	f.all, f.damaged = slices.DeleteFunc(f.all, same), slices.DeleteFunc(f.damaged, same)
	i, _ := slices.BinarySearchFunc(f.all, c.Step, func(o Checkpoint, step int64) int { return int(max(-1, min(1, o.Step-step))) })
	f.all = slices.Insert(f.all, i, c)
}

// regain locks the folder again if it was removed and made anew. Where there is none, or another
// process has it now, it returns an error.
func (f *Folder) regain() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lock.Held() {
		return nil
	}
	if _, err := os.Stat(f.dir); err != nil {
		return err
	}
	lock, err := acquire(f.dir)
	if err != nil {
		return err
	}
	_ = f.lock.Release() // of a file that is gone
	f.lock = lock
	return nil
}
