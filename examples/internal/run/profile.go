package run

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/trainer"
)

// profiledSteps is how many steps -profile and -trace train.
const profiledSteps = 20

// profile trains some steps and prints what they cost. The trace is written to the file of -trace.
func profile(ctx context.Context, f Flags, out io.Writer, t *trainer.Trainer, train dataloader.Dataset) error {
	p, err := t.Profile(ctx, train, profiledSteps)
	if err != nil {
		return err
	}
	fmt.Fprint(out, p)
	if f.Trace == "" {
		return nil
	}
	if err := create("trace", f.Trace, p.WriteTrace); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nthe trace is in %s: open it at https://ui.perfetto.dev\n", f.Trace)
	return nil
}

// checkProfile returns an error if steps cannot be profiled, and makes -trace imply -profile.
func (f *Flags) checkProfile() error {
	name, value := "profile", ""
	if f.Trace != "" {
		f.Profile, name, value = true, "trace", f.Trace
	}
	switch {
	case !f.Profile:
		return nil
	case f.Plan || f.WhatFits != 0:
		return &FlagError{name, value, "needs training, which -plan and -what-fits leave out"}
	case f.JSON != "" || f.Curves != "" || f.Checkpoint != "":
		return &FlagError{name, value, fmt.Sprintf("stops after %d steps: leave out -json, -curves and -checkpoint", profiledSteps)}
	case f.Trace != "" && f.Picture != "" && filepath.Clean(f.Trace) == filepath.Clean(f.Picture):
		return &FlagError{name, value, "is also the file of another flag: use two names"}
	}
	return nil
}
