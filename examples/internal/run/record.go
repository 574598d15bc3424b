package run

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/runs"
	"github.com/evenkeel/evenkeel/trainer/runs/live"
)

// addRecord adds the flags -run and -serve.
func (f *Flags) addRecord(fs *flag.FlagSet) {
	fs.StringVar(&f.Run, "run", f.Run, "record the training in `folder`, with a page that shows it; with -resume the record goes on")
	fs.StringVar(&f.Serve, "serve", f.Serve, "serve a page that shows the training, with buttons, at `address`, such as :8080 on this machine only; its token is $EVENKEEL_TOKEN, or a new one")
}

// records reports whether the training is recorded, for a folder or a page.
func (f *Flags) records() bool { return f.Run != "" || f.Serve != "" }

// checkRecord returns an error if there is no training to record.
func (f *Flags) checkRecord() error {
	var errs []error
	for _, x := range [][2]string{{"run", f.Run}, {"serve", f.Serve}} {
		if flag, value := x[0], x[1]; value != "" && (f.Plan || f.WhatFits != 0 || f.Profile || f.Trace != "") {
			errs = append(errs, &FlagError{flag, value, "needs a training, which -plan, -what-fits, -profile and -trace leave out"})
		}
	}
	return errors.Join(errs...)
}

// recording is the record of a training: of -run, with the page of -serve.
type recording struct {
	*runs.Run
	server *live.Server // nil without -serve
	cancel context.CancelFunc
	log    *slog.Logger
}

// announces returns where the address of the page is printed: with -quiet it is no output of the
// training, but without it nobody could open the page.
func (f *Flags) announces(out io.Writer) io.Writer {
	if f.Quiet {
		return os.Stderr
	}
	return out
}

// openRecording opens the record that the flags ask for, and prints the address of its page to out.
// The caller trains with the returned context, which the page can end, and closes the record. Without
// the flags it is nil.
func (e Example) openRecording(ctx context.Context, f Flags, out io.Writer) (_ *recording, inner context.Context, err error) {
	if !f.records() {
		return nil, ctx, nil
	}
	r := &recording{log: warnings().With("flag", "-run "+f.Run)}
	inner, r.cancel = context.WithCancel(ctx)
	opt := runs.Options{Resume: f.Resume, Settings: f.settings, Logger: r.log}
	if f.Run == "" {
		opt.Name = e.Name
	}
	if r.Run, err = runs.Create(inner, f.Run, opt); err != nil {
		r.cancel()
		if refused := (*runs.FolderError)(nil); errors.As(err, &refused) && refused.Recorded {
			err = &FlagError{"run", f.Run, "has a recorded training: use another folder, or go on with it by -resume and the folder of its -checkpoint"}
			return nil, ctx, err
		}
		return nil, ctx, fmt.Errorf("-run: %w", err)
	}
	if f.Serve == "" {
		return r, inner, nil
	}
	if r.server, err = live.Serve(f.Serve, r.Run, live.Options{Token: f.token}); err != nil {
		r.close()
		return nil, ctx, fmt.Errorf("-serve: %w", err)
	}
	for i, url := range r.server.URLs() {
		fmt.Fprintf(f.announces(out), "the page is %sat %s\n", map[bool]string{true: "also "}[i > 0], url)
	}
	return r, inner, nil
}

// progress returns the hook of trainer.Options that calls next, too.
func (r *recording) progress(next func(trainer.Progress)) func(trainer.Progress) {
	if r == nil {
		return next
	}
	return func(p trainer.Progress) {
		next(p)
		r.Progress(p)
	}
}

// attach gives the record what it reads from and what its page controls.
func (r *recording) attach(t *trainer.Trainer, opt trainer.Options, l *Loop) error {
	if r == nil {
		return nil
	}
	s := runs.Source{Trainer: t, Group: opt.Group, Device: opt.Device, Stop: r.cancel}
	if l.Folder != nil {
		s.Checkpointer = l.Folder
	}
	l.Evaluated = r.Evaluated
	return r.Attach(s)
}

// end closes the record and its page, and returns the error of the training: one that the page has
// stopped is ErrStopped.
func (r *recording) end(err error, out io.Writer) error {
	defer r.close()
	if r == nil || !r.State().Stopping || !errors.Is(err, context.Canceled) {
		return err
	}
	fmt.Fprintf(out, "stopped on its page after step %d\n", r.State().Number)
	return ErrStopped
}

// close closes the record and its page. An error of theirs does not end the training and is not its
// error: the log has it.
func (r *recording) close() {
	if r == nil {
		return
	}
	defer r.cancel()
	_ = r.Run.Close() // pages have the last state
	if r.server == nil {
		return
	}
	if err := r.server.Close(); err != nil {
		r.log.Warn("the page cannot be closed", "error", err)
	}
}
