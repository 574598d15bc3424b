// Package checkpoint keeps checkpoints of a training in a folder, so that a run which dies at any
// instant goes on from the last one with the same bits.
//
//	folder, err := checkpoint.Open("run1", checkpoint.Options{EveryTime: 5 * time.Minute, Keep: 3})
//	…
//	defer folder.Close()
//	resumed, err := folder.Resume(ctx, t) // from the newest one, if there is one
//	…
//	for step, err := range folder.Steps(ctx, t, loop.Until(ctx, t, data, 100)) {
//		…
//	}
//
// [Folder.Steps] passes steps on and takes a checkpoint when one is due; [Folder.Fit] does so
// during an epoch of Trainer.Fit. The state is copied between two steps to pinned memory, which
// trainer.Options.Checkpoint plans, and written from there by a goroutine of the folder, while
// training goes on. A checkpoint is a safetensors file with a checksum, and has its name only when
// it is complete. [Folder.Resume] takes the newest one that can be read.
//
// Training does not end because a checkpoint cannot be written, unless Options.Fail is set: the
// failure is logged, [Folder.Err] returns it, and the next due checkpoint tries again. [Signals]
// makes Ctrl-C a clean end with a checkpoint.
package checkpoint

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/trainer"
)

// Options of a Folder. The zero value takes a checkpoint every 10 minutes and at the end of a loop,
// and keeps the last 3.
type Options struct {
	// EverySteps takes a checkpoint when the number of the step passes a multiple of it; each
	// objective of a batch has a step. Default: not by steps.
	EverySteps int
	// EveryTime takes a checkpoint after the step at whose end so much time has passed since the
	// last one. Default: not by time, but every 10 minutes if no other interval is set.
	EveryTime time.Duration
	// EveryEpochs takes a checkpoint at the end of every so many epochs. Default: not by epochs.
	EveryEpochs int

	// Keep is the number of the latest checkpoints that are kept. Older ones are removed after a
	// new one is complete, also those that cannot be read. Default 0: 3. Below 0: all.
	Keep int
	// Best also keeps the checkpoint with the best result. Default: none.
	Best Best
	// ShardBytes is the most bytes of a file: larger checkpoints become several files with an
	// index. Default: always one file.
	ShardBytes int64

	// ReadOnly opens a folder without locking or changing it, such as one on a file system that
	// cannot be written to: Resume and Restore work, and what would write is a *SaveError. Another
	// process may train with the folder meanwhile. Default: the folder is locked, and writable.
	ReadOnly bool

	// Group lets ranks take checkpoints together, as they must where each has its part of the state
	// (trainer.Options.Shard) or of the sum of gradients (trainer.Options.Accumulate). All ranks
	// open the folder with the same options, and make the same calls of Steps, Fit, Measured, Save and
	// Resume. The first rank decides after each step whether a checkpoint is due, also by Request, and
	// writes it; the others see it by Resume. Stop of any rank ends the loop of all ranks after the same
	// step. An error of one rank ends the group. It cannot be used with Rollback. Default: the folder
	// is one rank's.
	Group group.Group

	// Logger gets a line for each checkpoint that is written, cannot be written, is passed over, or
	// is rolled back to. Default: nothing is logged.
	Logger *slog.Logger
	// Fail ends Steps and Fit with a *SaveError when a checkpoint cannot be written. Default:
	// training goes on.
	Fail bool

	// Stop, when it is closed, ends Steps and Fit: the step is finished, a checkpoint is written,
	// and the loop ends without an error. Folder.Stopped then reports true. Signals makes such a
	// channel. Default: nothing stops them.
	Stop <-chan struct{}
	// Rollback goes on from the last checkpoint after a fault in the numbers. Default: the fault
	// ends the loop.
	Rollback Rollback
}

// defaultKeep is the number of checkpoints that are kept by default.
const defaultKeep = 3

// check returns an error for all options that are outside their range.
func (o *Options) check() error {
	var errs []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format+": %w", append(args, trainer.ErrOption)...))
		}
	}
	wrong(o.EverySteps < 0, "EverySteps %d must not be negative", o.EverySteps)
	wrong(o.EveryTime < 0, "EveryTime %v must not be negative", o.EveryTime)
	wrong(o.EveryEpochs < 0, "EveryEpochs %d must not be negative", o.EveryEpochs)
	wrong(o.ShardBytes < 0, "ShardBytes %d must not be negative", o.ShardBytes)
	wrong(o.Best.Larger && o.Best.Metric == "", "Best.Larger needs the name of a Metric")
	wrong(o.grouped() && o.Rollback.Times != 0, "Rollback: ranks of a group cannot roll back together: leave out Rollback, and start again with Resume")
	errs = append(errs, o.Rollback.check())
	return errors.Join(errs...)
}

// schedule returns when checkpoints are due.
func (o *Options) schedule() schedule {
	s := schedule{steps: int64(o.EverySteps), epochs: int64(o.EveryEpochs), time: o.EveryTime}
	if s.steps == 0 && s.epochs == 0 && s.time == 0 {
		s.time = defaultTime
	}
	return s
}
