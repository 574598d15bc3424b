// Package run holds the common parts of the example programs: flags, the loop over epochs with its
// progress bar, and results.
//
// An [Example] has a model, its data and the defaults of its [Flags]; its Main runs it as a
// program. A program of your own needs only the model, and the calls in [Loop].
package run

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"syscall"

	humanize "github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/checkpoint"
	"github.com/evenkeel/evenkeel/trainer/loop"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"github.com/evenkeel/evenkeel/trainer/plot"
)

// Example is a program: a model, its data and the defaults of its flags.
type Example struct {
	Name  string
	Flags Flags
	Model trainer.ModelFunc
	// Load returns the training and the test set for the flags.
	Load func(f Flags) (train, test dataloader.Dataset, err error)
	// Draw writes a PNG that shows the trained model. Nil: the example has no picture.
	Draw func(ctx context.Context, t *trainer.Trainer, test dataloader.Dataset, w io.Writer) error
	// DrawsEach calls Draw after each epoch, too.
	DrawsEach bool
	// Adjust changes the options of the trainer that the flags select. May be nil.
	Adjust func(f Flags, opt *trainer.Options)
	// Add adds flags of the example's own. May be nil.
	Add func(fs *flag.FlagSet)
	// Before is called with the data, before anything is planned; done says that this was all that
	// the flags ask for. May be nil.
	Before func(ctx context.Context, f Flags, train dataloader.Dataset, out io.Writer) (done bool, err error)
	// Close is called at the end, whether Load was called and returned or not. May be nil.
	Close func() error
	// Progress is called after every step, in addition to the progress bar. May be nil.
	Progress func(trainer.Progress)
}

// Main parses flags over the defaults, loads data, trains, and exits with the status of group.ExitCode, 1 for errors of its own.
func (e Example) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once, but for SIGTERM with -mpi
	err := e.Run(ctx, os.Args[1:], os.Stdout)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return
	case errors.Is(err, context.Canceled) && !errors.Is(err, checkpoint.ErrSave):
		fmt.Fprintf(os.Stderr, "%s: interrupted\n", e.Name)
	default:
		fmt.Fprintf(os.Stderr, "%s: %v\n", e.Name, err)
	}
	stop()
	os.Exit(group.ExitCode(err))
}

// Run parses args, loads the data, trains and writes the output to out. It returns when ctx is done.
func (e Example) Run(ctx context.Context, args []string, out io.Writer) (err error) {
	f := e.Flags
	if err := f.Parse(e.Name, args, e.Add); err != nil {
		return err
	}
	if f.Quiet {
		out = io.Discard
	}
	opt, err := f.Options()
	if err != nil {
		return err
	}
	members, err := f.join(ctx)
	if err != nil {
		return err
	}
	defer func() { err = leave(members, err) }()
	opt.Device, opt.Group = members[0].device, members[0].Group
	if members[0].rank() > 0 {
		f, out = f.quiet(), io.Discard
	}
	if err := f.writable(); err != nil {
		return err
	}
	if e.Close != nil {
		defer func() { err = errors.Join(err, e.Close()) }()
	}
	train, test, err := e.load(ctx, f)
	if err != nil {
		return err
	}
	if done, err := e.before(ctx, f, train, out); done || err != nil {
		return err
	}
	opt.Fields = train.Fields()
	if f.Resident {
		opt.Resident, opt.Fields = []dataloader.Dataset{train, test}, nil
	}
	e.adjust(f, &opt, train.Len())
	if f.WhatFits != 0 {
		return e.whatFits(ctx, int64(f.WhatFits), out, opt, train.Len())
	}
	plan, err := trainer.Plan(ctx, e.Model, opt)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, plan.Text(columns(out)))
	if f.Picture != "" && !e.draws(f) {
		if err := e.drawPlan(ctx, f, plan, opt); err != nil {
			return err
		}
	}
	if f.Plan {
		if missing := plan.Total - opt.Memory; opt.Memory > 0 && missing > 0 {
			fmt.Fprintf(out, "It does not fit in -memory: %s bytes are missing. -what-fits %d shows settings that fit.\n", humanize.Comma(missing), opt.Memory)
		}
		return nil
	}
	return e.record(f, func() (Results, error) { return e.trainRanks(ctx, f, out, opt, members, train, test) })
}

// record calls work, and writes its results to the file of -json.
func (e Example) record(f Flags, work func() (Results, error)) (err error) {
	defer func() { err = unlessStopped(err) }()
	if f.JSON == "" {
		_, err = work()
		return err
	}
	return create("json", f.JSON, func(w io.Writer) error { // open the file before training, to report a wrong name at once
		res, err := work()
		if err != nil {
			return err
		}
		j := json.NewEncoder(w)
		j.SetIndent("", "  ")
		return j.Encode(res)
	})
}

// before calls Before.
func (e Example) before(ctx context.Context, f Flags, train dataloader.Dataset, out io.Writer) (done bool, err error) {
	if e.Before == nil {
		return false, nil
	}
	return e.Before(ctx, f, train, out)
}

// adjust sets the options that depend on the example, and on the size of its training set.
func (e Example) adjust(f Flags, opt *trainer.Options, samples int) {
	ranks := 1
	if opt.Group != nil {
		ranks = opt.Group.Size()
	}
	if updates := f.updates(samples, ranks); updates > 0 && !f.Constant {
		opt.Schedule = optim.Cosine{Steps: updates}
	}
	if e.Adjust != nil {
		e.Adjust(f, opt)
	}
}

// updates returns the number of updates of all epochs on a training set of that many samples, which ranks share, at
// most math.MaxInt64.
func (f *Flags) updates(samples, ranks int) int64 {
	ceilDiv := func(n, by int) int { return (n-1)/max(by, 1) + 1 }
	if samples < 1 {
		return 0
	}
	epoch := int64(ceilDiv(ceilDiv(ceilDiv(samples, f.Batch), ranks), f.Accumulate))
	if int64(f.Epochs) > math.MaxInt64/epoch {
		return math.MaxInt64
	}
	return int64(f.Epochs) * epoch
}

// whatFits prints the settings that fit in that much memory.
func (e Example) whatFits(ctx context.Context, memory int64, out io.Writer, opt trainer.Options, samples int) error {
	opt.Memory = memory
	var bar *progressbar.ProgressBar
	x, err := trainer.Explore(ctx, e.Model, opt, trainer.ExploreOptions{MaxBatch: samples, Progress: func(p trainer.ExploreProgress) {
		if p.Done == 1 {
			bar = newBar(p.Total, "plans")
			bar.Describe(p.Phase.String())
		}
		_ = bar.Set(p.Done)
	}})
	if err == nil {
		fmt.Fprint(out, x.Text(columns(out)))
	}
	return err
}

// load calls Load. If ctx is done first, it returns at once, and Load ends by itself.
func (e Example) load(ctx context.Context, f Flags) (train, test dataloader.Dataset, err error) {
	type data struct {
		train, test dataloader.Dataset
		err         error
	}
	loaded := make(chan data, 1)
	go func() {
		train, test, err := e.Load(f)
		loaded <- data{train, test, err}
	}()
	select {
	case d := <-loaded:
		return d.train, d.test, d.err
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// train opens a trainer, runs the loop on it, and draws.
func (e Example) train(ctx context.Context, f Flags, out io.Writer, opt trainer.Options, train, test dataloader.Dataset) (res Results, err error) {
	first := opt.Group == nil || opt.Group.Rank() == 0
	l := &Loop{Out: out, Epochs: f.Epochs, Quiet: f.Quiet || !first, Group: opt.Group}
	if f.Curves != "" {
		l.History, l.Curves = loop.NewHistory(0), func(h *loop.History) error {
			return named("curves", plot.Training(h, plot.Options{Title: e.Name, LogLoss: f.LogLoss}).Save(f.Curves))
		}
	}
	outer := ctx
	record, ctx, err := e.openRecording(ctx, f, out)
	if err != nil {
		return Results{}, err
	}
	opt.Progress = record.progress(l.Progress)
	if ours := opt.Progress; e.Progress != nil && first {
		opt.Progress = func(p trainer.Progress) {
			ours(p)
			e.Progress(p)
		}
	}
	t, err := trainer.New(ctx, e.Model, opt)
	if err != nil {
		record.close()
		return Results{}, err
	}
	defer func() { err = errors.Join(record.end(err, out), t.Close()) }()
	if f.Profile {
		return Results{}, profile(ctx, f, out, t, train)
	}
	if f.Checkpoint != "" {
		if l.Folder, err = OpenFolder(ctx, t, f.Checkpoint, f.Resume, f.Every, opt.Group, out); err != nil {
			return Results{}, err
		}
		defer func() { err = errors.Join(err, CloseFolder(l.Folder)) }()
	} else if opt.Group != nil && f.stoppable {
		page := ctx
		l.Stopping, ctx = func() bool { return page.Err() != nil && outer.Err() == nil }, outer
	}
	if err := record.attach(t, opt, l); err != nil {
		return Results{}, err
	}
	if !e.draws(f) {
		return l.Run(ctx, t, train, test)
	}
	if e.DrawsEach {
		l.Each = func() error {
			return create("picture", f.Picture, func(w io.Writer) error { return e.Draw(ctx, t, test, w) })
		}
	}
	err = create("picture", f.Picture, func(w io.Writer) error {
		if res, err = l.Run(ctx, t, train, test); err != nil {
			return err
		}
		return e.Draw(ctx, t, test, w)
	})
	return res, err
}
