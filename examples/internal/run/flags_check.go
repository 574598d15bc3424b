package run

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
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
	wrong(f.Epochs < 0, "epochs", fmt.Sprint(f.Epochs), "must not be negative")
	wrong(given["what-fits"] && f.WhatFits == 0, "what-fits", "0", "nothing fits in 0 bytes: write 67108864 or 64MiB")
	wrong(given["json"] && (f.Plan || f.WhatFits != 0), "json", f.JSON, "needs training, which -plan and -what-fits leave out")
	wrong(given["instructions"] && f.Device != "cpu", "instructions", f.Instructions.String(), "only apply to the cpu: leave them out with -device "+f.Device)
	if f.WhatFits != 0 {
		wrong(f.Plan, "plan", "", "cannot be used with -what-fits: leave one of them out")
		wrong(given["memory"], "memory", f.Memory.String(), "-what-fits sets the memory: leave one of them out")
		wrong(given["picture"], "picture", f.Picture, "cannot be used with -what-fits: use it with -plan or training")
	}
	errs = append(errs, f.checkPicture(given["picture"] && f.Picture != ""))
	names := list(f.Recompute)
	for _, name := range names {
		wrong(name == "", "recompute", f.Recompute, "has an empty name: write the names of layers as a,b")
		wrong(len(names) > 1 && (name == "auto" || name == "none"), "recompute", f.Recompute, name+" cannot be combined with layers: leave one of them out")
	}
	return errors.Join(errs...)
}

// checkPicture returns an error if the picture cannot be drawn. given: the flag is on the command line.
func (f *Flags) checkPicture(given bool) error {
	switch {
	case f.Picture != "" && f.picture() == "":
		return &FlagError{"picture", f.Picture, "use .svg for a map of the memory, or .png for the picture of the example"}
	case given && f.draws() && f.Plan:
		return &FlagError{"picture", f.Picture, "is drawn after training, which -plan leaves out: use .svg for a map of the memory"}
	case given && f.JSON != "" && filepath.Clean(f.Picture) == filepath.Clean(f.JSON):
		return &FlagError{"picture", f.Picture, "is also the file of -json: use two names"}
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
