package run

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/checkpoint"
)

// ErrStopped is the error of a training that a signal has ended with a checkpoint.
var ErrStopped = errors.New("stopped")

// AddCheckpoint adds the flags -checkpoint, -resume and -every to fs.
func AddCheckpoint(fs *flag.FlagSet, dir *string, resume *bool, every *string) {
	fs.StringVar(dir, "checkpoint", *dir, "`folder` to keep checkpoints in; Ctrl-C then ends the training with one; empty: none")
	fs.BoolVar(resume, "resume", *resume, "go on from the newest checkpoint in the folder of -checkpoint, if it has one")
	fs.StringVar(every, "every", *every, "`interval` between checkpoints: steps as 500, a time as 10m, or epochs as 2e; default: 1e")
}

// CheckCheckpoint returns an error for each of these flags that is not valid.
func CheckCheckpoint(dir string, resume bool, every string) error {
	var errs []error
	if dir == "" && resume {
		errs = append(errs, &FlagError{"resume", "", "needs the folder of the checkpoints: add -checkpoint DIR"})
	}
	if dir == "" && every != "" {
		errs = append(errs, &FlagError{"every", every, "needs a folder for checkpoints: add -checkpoint DIR"})
	}
	if _, err := Interval(every); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Interval returns the options of a folder for a value of -every: "500" is every 500 steps, "10m"
// every 10 minutes, "2e" every 2 epochs, and "" every epoch.
func Interval(every string) (opt checkpoint.Options, err error) {
	if every == "" {
		every = "1e"
	}
	bad := &FlagError{"every", every, "write steps as 500, a time as 10m, or epochs as 2e"}
	number, epochs := strings.CutSuffix(every, "e")
	if n, err := strconv.Atoi(number); err == nil {
		if n < 1 {
			return opt, bad
		}
		if epochs {
			opt.EveryEpochs = n
		} else {
			opt.EverySteps = n
		}
		return opt, nil
	}
	if opt.EveryTime, err = time.ParseDuration(every); err != nil || opt.EveryTime <= 0 {
		return opt, bad
	}
	return opt, nil
}

// warnings returns a logger of what is at least a warning, on standard error.
func warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// OpenFolder opens the folder of -checkpoint. With -resume it restores t from it, and writes to out
// where the training goes on and what differs. The end of ctx stops a training with a checkpoint.
// Ranks of g, unless it is nil, open it together. The caller closes the folder before t.
func OpenFolder(ctx context.Context, t *trainer.Trainer, dir string, resume bool, every string, g group.Group, out io.Writer) (*checkpoint.Folder, error) {
	opt, err := Interval(every)
	if err != nil {
		return nil, err
	}
	opt.Stop, opt.Group = ctx.Done(), g
	opt.Logger = warnings()
	folder, err := checkpoint.Open(dir, opt)
	if err != nil {
		return nil, err
	}
	if !resume {
		if n := len(folder.Checkpoints()); n > 0 {
			err := &FlagError{"checkpoint", dir, "has checkpoints: add -resume to go on with them, or use another folder"}
			return nil, errors.Join(err, folder.Close())
		}
		return folder, nil
	}
	r, err := folder.Resume(context.WithoutCancel(ctx), t)
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	for _, p := range r.Passed {
		fmt.Fprintf(out, "passed over %s: %v\n", p.Name, p.Err)
	}
	if r.Found {
		fmt.Fprintf(out, "resumed from %s: epoch %d, step %d\n", folder.Path(r.From), r.Position.Epoch+1, r.Position.Step+1)
	}
	for _, d := range r.Restored.Differences {
		fmt.Fprintln(out, d)
	}
	return folder, nil
}

// CloseFolder closes a folder after training. A checkpoint that could not be written is no error
// then: the log has it.
func CloseFolder(folder *checkpoint.Folder) error {
	err := folder.Close()
	if errors.Is(err, checkpoint.ErrSave) {
		return nil
	}
	return err
}

// Stopped writes how to go on with a training that was stopped, and returns ErrStopped; if its
// state could not be written it returns the reason.
func Stopped(folder *checkpoint.Folder, out io.Writer) error {
	if err := folder.Wait(); err != nil {
		return err
	}
	last := folder.Stats().Last
	if last.Name == "" { // stopped before the first step
		fmt.Fprintln(out, "stopped before a step was trained")
		return ErrStopped
	}
	fmt.Fprintf(out, "stopped after step %d, which is in %s: the same command with -resume goes on\n", last.Step, folder.Path(last))
	return ErrStopped
}

// unlessStopped returns err, or nil if it is ErrStopped, which Stopped has written about.
func unlessStopped(err error) error {
	if onlyStopped(err) {
		return nil
	}
	return err
}

// onlyStopped reports whether an error is ErrStopped and nothing else.
func onlyStopped(err error) bool {
	all, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err == ErrStopped
	}
	for _, err := range all.Unwrap() {
		if !onlyStopped(err) {
			return false
		}
	}
	return true
}
