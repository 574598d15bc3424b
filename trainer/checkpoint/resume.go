package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// Resumed says where a training goes on.
type Resumed struct {
	Found    bool             // a checkpoint was restored; if not, the folder has none
	From     Checkpoint       // the one that was restored
	Position trainer.Position // of the next step
	Passed   []Passed         // newer ones that cannot be read, newest first
	Restored trainer.Restored // what differs from the run that took it
}

// Passed is a checkpoint that Resume passed over.
type Passed struct {
	Name string // of its file
	Err  error  // why it cannot be read
}

// Resume restores t from the newest checkpoint that can be read and whose checksum is right. Newer
// ones that cannot be read are passed over. They stay in the folder, as they may be read again,
// until a checkpoint of the same step replaces them or Options.Keep later ones are complete. If the
// folder has no checkpoint, t stays as it is, and Found is false. If none of several can be read,
// the error is an *UnreadableError. A checkpoint that does not fit t is the error of
// Trainer.Restore, which names what differs; an older one is then not tried. After any error t is as
// it was.
func (f *Folder) Resume(ctx context.Context, t *trainer.Trainer) (Resumed, error) {
	return f.ResumeWith(ctx, t, trainer.RestoreOptions{})
}

// ResumeWith is Resume with options of Trainer.Restore. With ParametersOnly the steps are counted
// from 0, earlier than the checkpoints': to train on, use another folder, since what would write to
// this one is an *OccupiedError.
func (f *Folder) ResumeWith(ctx context.Context, t *trainer.Trainer, opt trainer.RestoreOptions) (Resumed, error) {
	r, err := f.resume(ctx, t, func(trainer.Info) trainer.RestoreOptions { return opt })
	if err != nil {
		return r, fmt.Errorf("resume: %w", err)
	}
	return r, nil
}

// resume is ResumeWith, with errors that do not say so, and options that depend on the checkpoint.
func (f *Folder) resume(ctx context.Context, t *trainer.Trainer, opt restoreOptions) (r Resumed, err error) {
	if ctx == nil {
		return r, errNilContext
	}
	if f.isClosed() {
		return r, ErrClosed
	}
	f.writer.wait()
	if _, err := f.decide(0, nil); err != nil { // the others wait for what the first rank writes
		return r, err
	}
	all, err := list(f.dir)
	if err != nil {
		return r, err
	}
	var passed []Checkpoint
	for _, c := range slices.Backward(all) {
		restored, got, err := f.restore(ctx, t, c, opt)
		switch {
		case err == nil:
			r.Found, r.From, r.Restored, r.Position = true, got, restored, restored.Position
			f.resumed(r, passed)
			return r, nil
		case !damaged(err) || ctx.Err() != nil:
			return r, fmt.Errorf("%s: %w", c.Name, err)
		}
		f.log.Warn("a checkpoint cannot be read and is passed over", "name", c.Name, "error", err)
		r.Passed, passed = append(r.Passed, Passed{c.Name, err}), append(passed, c)
	}
	if len(r.Passed) > 0 {
		return r, &UnreadableError{Dir: f.dir, Passed: r.Passed}
	}
	f.log.Info("no checkpoint: training begins")
	return r, nil
}

// resumed notes where training goes on, and what was passed over.
func (f *Folder) resumed(r Resumed, passed []Checkpoint) {
	f.mu.Lock()
	f.all = slices.DeleteFunc(f.all, func(c Checkpoint) bool { return c.Step > r.From.Step })
	f.damaged = slices.DeleteFunc(f.damaged, func(c Checkpoint) bool { return c.Step > r.From.Step })
	f.damaged = append(f.damaged, passed...)
	f.add(r.From)
	f.mu.Unlock()
	f.occupied = ""
	f.restored(r.From)
	f.log.Info("training goes on", "name", r.From.Name, "step", r.From.Step, "epoch", r.Position.Epoch)
}

// restored notes that a trainer was restored from a checkpoint, whose metrics stay if it is taken
// again.
func (f *Folder) restored(c Checkpoint) {
	f.begun, f.captured, f.brokenOff, f.measured = false, c.Step, -1, measured{c.Step, c.Metrics}
}

// damaged reports whether an error is one of a checkpoint that cannot be read, and not of the
// trainer.
func damaged(err error) bool {
	var path *fs.PathError
	return errors.Is(err, safetensors.ErrFormat) || errors.Is(err, safetensors.ErrNoChecksum) || errors.As(err, &path)
}

// restoreOptions returns the options for a checkpoint.
type restoreOptions func(trainer.Info) trainer.RestoreOptions

// restore restores t from one checkpoint, after comparing its checksum.
func (f *Folder) restore(ctx context.Context, t *trainer.Trainer, c Checkpoint, options restoreOptions) (trainer.Restored, Checkpoint, error) {
	file, err := open(f.path(c.Step))
	if err != nil {
		return trainer.Restored{}, c, err
	}
	defer file.Close()
	if c, err = file.describe(f.dir, c); err != nil {
		return trainer.Restored{}, c, err
	}
	if err := file.Verify(ctx); err != nil {
		return trainer.Restored{}, c, err
	}
	info := file.metadata.Info
	opt := options(info)
	restored, err := t.Restore(ctx, file, opt)
	if err == nil && !opt.ParametersOnly {
		f.order, f.rate = max(f.order, info.Order, opt.Order), info.RateFactor*cmp.Or(opt.RateFactor, 1)
	}
	return restored, c, err
}

// Restore restores t from one of the Checkpoints, such as the Best one to evaluate it. To train on
// from one that is not the newest, use another folder: checkpoints of earlier steps than the newest
// are an *OccupiedError.
func (f *Folder) Restore(ctx context.Context, t *trainer.Trainer, c Checkpoint, opt trainer.RestoreOptions) (trainer.Restored, error) {
	if ctx == nil {
		return trainer.Restored{}, errNilContext
	}
	if f.isClosed() {
		return trainer.Restored{}, ErrClosed
	}
	f.writer.wait()
	restored, c, err := f.restore(ctx, t, c, func(trainer.Info) trainer.RestoreOptions { return opt })
	if err != nil {
		return restored, fmt.Errorf("restore %s: %w", c.Name, err)
	}
	f.restored(c)
	return restored, nil
}
