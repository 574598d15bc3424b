package run

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/picture"
	"github.com/evenkeel/evenkeel/trainer/plot"
)

// FlagError reports a flag whose value is not valid, or not together with the other flags.
type FlagError struct {
	Flag, Value string
	Reason      string // the mistake and how to correct it
}

// Error returns the flag as written on the command line, and the reason.
func (e *FlagError) Error() string {
	return strings.TrimSpace("-"+e.Flag+" "+e.Value) + ": " + e.Reason
}

// check returns an error for each invalid flag. given has the flags of the command line.
func (f *Flags) check(given map[string]bool) error {
	if f.Plan && !given["picture"] {
		f.Picture = "" // the default of an example is drawn after training
	}
	var errs []error
	wrong := func(is bool, flag, value, reason string) {
		if is {
			errs = append(errs, &FlagError{flag, value, reason})
		}
	}
	wrong(f.Ranks < 0 || f.Ranks > group.MaxLocal, "ranks", fmt.Sprint(f.Ranks), fmt.Sprintf("must be 1 to %d", group.MaxLocal))
	wrong(f.Ranks > 1 && f.MPI, "ranks", fmt.Sprint(f.Ranks), "the launcher sets the number of ranks: leave it out with -mpi")
	if shard, err := f.shard(); err != nil {
		errs = append(errs, err)
	} else {
		wrong(shard != trainer.ShardNothing && f.Ranks < 2 && !f.MPI, "shard", f.Shard, "shares between ranks: add -ranks 2 or more, or -mpi")
	}
	wrong(given["grace"] && (!f.MPI || f.Checkpoint == ""), "grace", f.Grace.String(), "is for the last checkpoint of a launcher's ranks: add -mpi and -checkpoint")
	wrong(f.Grace < 0, "grace", f.Grace.String(), "must not be negative")
	wrong(f.WhatFits != 0 && (f.Ranks > 1 || f.MPI), "what-fits", f.WhatFits.String(), "looks at one rank: leave out -ranks and -mpi")
	wrong(f.Epochs < 0, "epochs", fmt.Sprint(f.Epochs), "must not be negative")
	wrong(given["what-fits"] && f.WhatFits <= 0, "what-fits", f.WhatFits.String(), "nothing fits in so few bytes: write 67108864 or 64MiB")
	wrong(given["json"] && (f.Plan || f.WhatFits != 0), "json", f.JSON, "needs training, which -plan and -what-fits leave out")
	wrong(given["instructions"] && f.Device != "cpu", "instructions", f.Instructions.String(), "only apply to the cpu: leave them out with -device "+f.Device)
	wrong(f.Quiet && f.WhatFits != 0, "quiet", "", "leaves nothing of -what-fits: leave one of them out")
	wrong(f.Quiet && f.Plan && f.Picture == "", "quiet", "", "leaves nothing of -plan: add -picture, or leave one of them out")
	wrong(f.Quiet && f.Profile && f.Trace == "", "quiet", "", "leaves nothing of -profile: use -trace FILE, or leave one of them out")
	if f.WhatFits != 0 {
		wrong(f.Plan, "plan", "", "cannot be used with -what-fits: leave one of them out")
		wrong(given["memory"], "memory", f.Memory.String(), "-what-fits sets the memory: leave one of them out")
		wrong(f.Compare, "compare", "", "cannot be used with -what-fits: leave one of them out")
		wrong(given["picture"], "picture", f.Picture, "cannot be used with -what-fits: use it with -plan or training")
	}
	errs = append(errs, f.checkCurves(), f.checkProfile(), f.checkRecord())
	errs = append(errs, CheckCheckpoint(f.Checkpoint, f.Resume, f.Every))
	errs = append(errs, f.checkPicture())
	errs = append(errs, checkList("recompute", f.Recompute, "auto", "none"), checkList("offload", f.Offload, "none"))
	return errors.Join(errs...)
}

// checkList returns an error if the value of a flag is not a list of names, or is one with a name
// that has to be alone.
func checkList(flag, value string, alone ...string) error {
	names := list(value)
	for _, name := range names {
		switch {
		case name == "":
			return &FlagError{flag, value, "has an empty name: write names as a,b"}
		case len(names) > 1 && slices.Contains(alone, name):
			return &FlagError{flag, value, name + " cannot be combined with others: leave one of them out"}
		}
	}
	return nil
}

// checkPicture returns an error if the picture cannot be drawn.
func (f *Flags) checkPicture() error {
	format, err := picture.FormatOf(f.Picture)
	switch {
	case f.WhatFits != 0: // which needs no picture
		return nil
	case f.Compare && (f.Picture == "" || format != picture.HTML):
		return &FlagError{"compare", "", "is about a page of -picture: add -picture plan.html"}
	case f.Compare && len(f.savings()) == 0:
		return &FlagError{"compare", "", "shows what -recompute, -offload, -guard and -precision change: add one of them"}
	case f.Picture == "":
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", &FlagError{"picture", f.Picture, "draws a page or a map of the memory"}, err)
	case f.JSON != "" && filepath.Clean(f.Picture) == filepath.Clean(f.JSON):
		return &FlagError{"json", f.JSON, "is also the file of the picture: use two names"}
	}
	return nil
}

// savings returns the flags that change how a model fits in memory and are not at their defaults, as
// they are written on the command line.
func (f *Flags) savings() (flags []string) {
	for _, s := range [][3]string{{"recompute", f.Recompute, "none"}, {"offload", f.Offload, "none"}, {"guard", f.Guard, "step"}, {"precision", f.Precision, "float32"}} {
		if s[1] != "" && s[1] != s[2] {
			flags = append(flags, "-"+s[0]+" "+s[1])
		}
	}
	return flags
}

// checkCurves returns an error if the curves cannot be drawn.
func (f *Flags) checkCurves() error {
	if f.Curves == "" {
		if f.LogLoss {
			return &FlagError{"log-loss", "", "is about the picture of -curves: add -curves FILE"}
		}
		return nil
	}
	_, err := plot.FormatOf(f.Curves)
	switch file := filepath.Clean(f.Curves); {
	case err != nil:
		return fmt.Errorf("-curves: %w", err)
	case f.Plan || f.WhatFits != 0:
		return &FlagError{"curves", f.Curves, "needs training, which -plan and -what-fits leave out"}
	case f.Picture != "" && file == filepath.Clean(f.Picture) || f.JSON != "" && file == filepath.Clean(f.JSON):
		return &FlagError{"curves", f.Curves, "is also the file of another flag: use two names"}
	}
	return nil
}
