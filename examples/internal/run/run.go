// Package run is what the example programs have in common: flags, the loop of epochs with its progress bar, and the results.
//
// An example states its model and its data in an [Example] and calls its Main; everything that a program of your own would copy is in the
// example itself or in [Loop].
package run

import (
	"bytes"
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

	"github.com/schollz/progressbar/v3"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Example is a program: a model, its data, and what its flags are where the command line does not say.
type Example struct {
	Name  string
	Flags Flags
	Model trainer.ModelFunc
	// Load reads or makes the data that the flags ask for.
	Load func(f Flags) (train, test dataloader.Dataset, err error)
	// Draw writes a PNG of what the trained model does. Nil: the example draws none.
	Draw func(ctx context.Context, t *trainer.Trainer, test dataloader.Dataset, w io.Writer) error
	// Progress is called after every step beside what the loop shows. Nil: nobody asks.
	Progress func(trainer.Progress)
}

// Main parses flags over the defaults, loads data, trains, and exits with status 1 on an error.
func (e Example) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := e.Run(ctx, os.Args[1:], os.Stdout)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return
	case ctx.Err() != nil:
		fmt.Fprintf(os.Stderr, "%s: interrupted\n", e.Name)
	default:
		fmt.Fprintf(os.Stderr, "%s: %v\n", e.Name, err)
	}
	stop()
	os.Exit(1)
}

// Run is Main without the process around it.
func (e Example) Run(ctx context.Context, args []string, out io.Writer) (err error) {
	f := e.Flags
	if err := f.Parse(e.Name, args); err != nil {
		return err
	}
	if f.draws() && e.Draw == nil {
		return &FlagError{"picture", f.Picture, e.Name + " draws no PNG: name a .svg for a map of the memory"}
	}
	opt, err := f.Options()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opt.Device.Close()) }()
	train, test, err := e.load(ctx, f)
	if err != nil {
		return err
	}
	opt.Fields = train.Fields()
	if f.Resident {
		opt.Resident, opt.Fields = []dataloader.Dataset{train, test}, nil
	}
	if updates := f.updates(train.Len()); updates > 0 && !f.Constant {
		opt.Schedule = optim.Cosine{Steps: updates}
	}
	if f.WhatFits != 0 {
		return e.whatFits(ctx, int64(f.WhatFits), out, opt, train.Len())
	}
	plan, err := trainer.Plan(ctx, e.Model, opt)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, plan)
	if f.Picture != "" && !f.draws() {
		if err := create(f.Picture, plan.SVG); err != nil {
			return err
		}
	}
	if f.Plan {
		if missing := plan.Total - opt.Memory; opt.Memory > 0 && missing > 0 {
			fmt.Fprintf(out, "It does not fit in -memory: %d bytes are missing. -what-fits %d shows what would.\n", missing, opt.Memory)
		}
		return nil
	}
	work := func() (Results, error) { return e.train(ctx, f, out, opt, train, test) }
	if f.JSON == "" {
		_, err = work()
		return err
	}
	return create(f.JSON, func(w io.Writer) error { // opened before training, so that a wrong name costs no time
		res, err := work()
		if err != nil {
			return err
		}
		j := json.NewEncoder(w)
		j.SetIndent("", "  ")
		return j.Encode(res)
	})
}

// updates returns how many updates training makes on so many samples, math.MaxInt64 where it would be more.
func (f *Flags) updates(samples int) int64 {
	over := func(n, by int) int { return (n-1)/max(by, 1) + 1 }
	if samples < 1 {
		return 0
	}
	epoch := int64(over(over(samples, f.Batch), f.Windows))
	if int64(f.Epochs) > math.MaxInt64/epoch {
		return math.MaxInt64
	}
	return int64(f.Epochs) * epoch
}

// whatFits prints what would fit in so many bytes.
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
		fmt.Fprint(out, x)
	}
	return err
}

// load is Load, given up when ctx is done: reading is then left to end by itself, or with the process.
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

// train makes a trainer, runs the loop on it, and draws.
func (e Example) train(ctx context.Context, f Flags, out io.Writer, opt trainer.Options, train, test dataloader.Dataset) (res Results, err error) {
	l := &Loop{Out: out, Epochs: f.Epochs}
	opt.Progress = l.Progress
	if e.Progress != nil {
		opt.Progress = func(p trainer.Progress) {
			l.Progress(p)
			e.Progress(p)
		}
	}
	t, err := trainer.New(ctx, e.Model, opt)
	if err != nil {
		return Results{}, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	if !f.draws() {
		return l.Run(ctx, t, train, test)
	}
	err = create(f.Picture, func(w io.Writer) error {
		if res, err = l.Run(ctx, t, train, test); err != nil {
			return err
		}
		return e.Draw(ctx, t, test, w)
	})
	return res, err
}

// create opens a file, makes its contents and writes them. Where there are none, an older file stays as it is and a new one goes.
func create(name string, contents func(io.Writer) error) error {
	_, missing := os.Stat(name)
	w, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := contents(&b); err != nil {
		if missing != nil {
			err = errors.Join(err, os.Remove(name))
		}
		return errors.Join(err, w.Close())
	}
	if s, err := w.Stat(); err == nil && s.Mode().IsRegular() {
		if err := w.Truncate(0); err != nil {
			return errors.Join(err, w.Close())
		}
	}
	_, err = w.Write(b.Bytes())
	return errors.Join(err, w.Close())
}
