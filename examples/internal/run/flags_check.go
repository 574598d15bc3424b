package run

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// FlagError is a flag of the command line that has no such value, or not beside the others.
type FlagError struct {
	Flag, Value string
	Reason      string // what is wrong, and what to do
}

// Error names the flag as it is written.
func (e *FlagError) Error() string {
	return strings.TrimSpace("-"+e.Flag+" "+e.Value) + ": " + e.Reason
}

// check returns an error for each flag that cannot be followed. given are those on the command line.
func (f *Flags) check(given map[string]bool) error {
	var errs []error
	wrong := func(is bool, flag, value, reason string) {
		if is {
			errs = append(errs, &FlagError{flag, value, reason})
		}
	}
	wrong(f.Epochs < 0, "epochs", fmt.Sprint(f.Epochs), "must not be negative")
	wrong(given["what-fits"] && f.WhatFits == 0, "what-fits", "0", "nothing fits in 0 bytes: write 67108864 or 64MiB")
	wrong(given["json"] && (f.Plan || f.WhatFits != 0), "json", f.JSON, "holds the results of training, of which -plan and -what-fits do none")
	wrong(given["instructions"] && f.Device != "cpu", "instructions", f.Instructions.String(), "are of the cpu: leave them out with -device "+f.Device)
	if f.WhatFits != 0 {
		wrong(f.Plan, "plan", "", "is not printed with -what-fits: leave one of them out")
		wrong(given["memory"], "memory", f.Memory.String(), "-what-fits says how much there is: leave one of them out")
		wrong(given["picture"], "picture", f.Picture, "-what-fits draws none: add it where you train or plan what fits")
	}
	errs = append(errs, f.checkPicture(given["picture"] && f.Picture != ""))
	names := list(f.Recompute)
	for _, name := range names {
		wrong(name == "", "recompute", f.Recompute, "has an empty name: write the names of layers as a,b")
		wrong(len(names) > 1 && (name == "auto" || name == "none"), "recompute", f.Recompute, name+" stands alone: leave it or the layers out")
	}
	return errors.Join(errs...)
}

// checkPicture returns an error where no picture of this name is drawn; given: it is the user's.
func (f *Flags) checkPicture(given bool) error {
	switch {
	case f.Picture != "" && f.picture() == "":
		return &FlagError{"picture", f.Picture, "there are .svg, a map of the memory, and .png, what the example draws"}
	case given && f.draws() && f.Plan:
		return &FlagError{"picture", f.Picture, "is drawn when training is done, and -plan does none: name a .svg for a map of the memory"}
	case given && f.JSON != "" && filepath.Clean(f.Picture) == filepath.Clean(f.JSON):
		return &FlagError{"picture", f.Picture, "is also the file of -json: give them two names"}
	}
	return nil
}

// picture returns the kind of picture that a name asks for, svg or png; "": none.
func (f *Flags) picture() string {
	switch kind := strings.TrimPrefix(strings.ToLower(filepath.Ext(f.Picture)), "."); kind {
	case "svg", "png":
		return kind
	}
	return ""
}

// draws reports whether the picture is the example's own, not the map of the memory.
func (f *Flags) draws() bool { return f.picture() == "png" }
