package run

import (
	"context"
	"io"
	"strings"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/picture"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// draws reports whether the picture is that of the example, and not one of its plan.
func (e Example) draws(f Flags) bool {
	format, err := picture.FormatOf(f.Picture)
	return e.Draw != nil && !f.Plan && err == nil && format == picture.PNG
}

// drawPlan writes the picture of a plan to the file of -picture.
func (e Example) drawPlan(ctx context.Context, f Flags, plan *report.Plan, opt trainer.Options) error {
	format, err := picture.FormatOf(f.Picture)
	if err != nil {
		return err
	}
	p := picture.Options{Name: e.Name}
	if format == picture.HTML {
		if p.Lines, err = layers.Sources(e.Model, opt.Batch); err != nil {
			return err
		}
	}
	if f.Compare {
		p.Other, p.OtherName = plan, e.Name+" "+strings.Join(f.savings(), " ")
		if plan, err = trainer.Plan(ctx, e.Model, plain(opt)); err != nil {
			return err
		}
	}
	return create("picture", f.Picture, func(w io.Writer) error { return picture.Write(w, format, plan, p) })
}

// plain returns the options without what -recompute, -offload, -guard and -precision set.
func plain(opt trainer.Options) trainer.Options {
	var none trainer.Options
	opt.Recompute, opt.Offload, opt.Guard, opt.Precision = none.Recompute, none.Offload, none.Guard, none.Precision
	return opt
}
