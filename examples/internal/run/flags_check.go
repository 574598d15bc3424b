package run

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/group"
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
	var errs []error
	wrong := func(is bool, flag, value, reason string) {
		if is {
			errs = append(errs, &FlagError{flag, value, reason})
		}
	}
	wrong(f.Ranks < 0 || f.Ranks > group.MaxLocal, "ranks", fmt.Sprint(f.Ranks), fmt.Sprintf("must be 1 to %d", group.MaxLocal))
	wrong(f.Ranks > 1 && f.MPI, "ranks", fmt.Sprint(f.Ranks), "the launcher sets the number of ranks: leave it out with -mpi")
	wrong(f.WhatFits != 0 && (f.Ranks > 1 || f.MPI), "what-fits", f.WhatFits.String(), "looks at one rank: leave out -ranks and -mpi")
	wrong(f.Epochs < 0, "epochs", fmt.Sprint(f.Epochs), "must not be negative")
	wrong(given["what-fits"] && f.WhatFits <= 0, "what-fits", f.WhatFits.String(), "nothing fits in so few bytes: write 67108864 or 64MiB")
	wrong(given["json"] && (f.Plan || f.WhatFits != 0), "json", f.JSON, "needs training, which -plan and -what-fits leave out")
	wrong(given["instructions"] && f.Device != "cpu", "instructions", f.Instructions.String(), "only apply to the cpu: leave them out with -device "+f.Device)
	if f.WhatFits != 0 {
		wrong(f.Plan, "plan", "", "cannot be used with -what-fits: leave one of them out")
		wrong(given["memory"], "memory", f.Memory.String(), "-what-fits sets the memory: leave one of them out")
		wrong(given["picture"], "picture", f.Picture, "cannot be used with -what-fits: use it with -plan or training")
	}
	errs = append(errs, f.checkCurves())
	wrong(f.Run != "" && (f.Plan || f.WhatFits != 0), "run", f.Run, "needs training, which -plan and -what-fits leave out")
	wrong(f.Serve != "" && (f.Plan || f.WhatFits != 0), "serve", f.Serve, "needs training, which -plan and -what-fits leave out")
	errs = append(errs, CheckCheckpoint(f.Checkpoint, f.Resume, f.Every))
	errs = append(errs, f.checkPicture(given["picture"] && f.Picture != ""))
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

// checkPicture returns an error if the picture cannot be drawn. given: the flag is on the command line.
func (f *Flags) checkPicture(given bool) error {
	switch {
	case f.Picture != "" && f.picture() == "":
		return &FlagError{"picture", f.Picture, "use .svg for a map of the memory, or .png for the picture of the example"}
	case given && f.draws() && f.Plan:
		return &FlagError{"picture", f.Picture, "is drawn after training, which -plan leaves out: use .svg for a map of the memory"}
	case f.JSON != "" && filepath.Clean(f.Picture) == filepath.Clean(f.JSON):
		return &FlagError{"json", f.JSON, "is also the file of the picture: use two names"}
	}
	return nil
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

// picture returns the kind of picture, by the file name: svg, png, or "" for none.
func (f *Flags) picture() string {
	switch kind := strings.TrimPrefix(strings.ToLower(filepath.Ext(f.Picture)), "."); kind {
	case "svg", "png":
		return kind
	}
	return ""
}

// draws reports whether the picture is that of the example, not the map of the memory.
func (f *Flags) draws() bool { return f.picture() == "png" }
