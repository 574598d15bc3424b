// Package picture draws memory plans: as a page for a browser, and as SVG and PNG.
//
// [Write] and [Save] draw the plan that trainer.Plan, Trainer.Plan and the plans of predictors and
// machines are. The page is one file that loads nothing from a network. It has every tensor as a box,
// offsets against instructions, and it can show two plans side by side with their difference, which
// [Difference] returns as data.
package picture

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// Format is the kind of file of a picture.
type Format int

// Formats. Equal plans have equal bytes in each.
const (
	HTML Format = iota // a page to look around in
	SVG                // a map of the arena and of the scratch of the first program, 1280 pixels wide
	PNG                // the map, with 2 dots for each pixel; Latin, Greek and Cyrillic letters
)

// FormatOf returns the format for the ending of a file name, .html, .svg or .png in any case. Another
// name is an error that wraps trainer.ErrOption.
func FormatOf(name string) (Format, error) {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".html":
		return HTML, nil
	case ".svg":
		return SVG, nil
	case ".png":
		return PNG, nil
	}
	return 0, fmt.Errorf("picture %q: use a name that ends in .html, .svg or .png: %w", name, trainer.ErrOption)
}

// Options are options of a page. The zero value is a page of one plan. SVG and PNG have none.
type Options struct {
	// Name is the name of the plan, such as that of the model. The page shows 60 characters of it, and
	// all under the pointer. Default: "memory plan".
	Name string
	// Other is a plan to show next to the first one, and OtherName its name. Default: none.
	Other     *report.Plan
	OtherName string
	// Lines are the lines of code that made a node, by its name, as layers.Sources returns them.
	// Default: boxes show the operation and the layer only.
	Lines map[string][]string
}

// Save writes a picture of the plan to a file in the format of its name, as FormatOf returns it. The
// picture is drawn before the file is opened; an existing file is replaced.
func Save(name string, p *report.Plan, opt Options) error {
	f, err := FormatOf(name)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := Write(&b, f, p, opt); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}

// Write draws the plan to w. The plan is only read: several goroutines may draw it at once. No plan,
// an unknown format, and a comparison in another format than HTML are errors that wrap
// trainer.ErrOption.
func Write(w io.Writer, f Format, p *report.Plan, opt Options) error {
	switch {
	case p == nil:
		return fmt.Errorf("picture of no plan: use the one that trainer.Plan returns: %w", trainer.ErrOption)
	case opt.Other != nil && f != HTML:
		return fmt.Errorf("picture of two plans: use HTML, or draw each in a picture of its own: %w", trainer.ErrOption)
	case f == HTML:
		return writeHTML(w, p, opt)
	case f == SVG:
		return writeSVG(w, p)
	case f == PNG:
		return writePNG(w, p)
	}
	return fmt.Errorf("picture format %d: use HTML, SVG or PNG: %w", f, trainer.ErrOption)
}
