package main

import (
	"context"
	"fmt"
	"io"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"github.com/evenkeel/evenkeel/trainer/picture"
)

// options returns the options of the trainer.
func (f flags) options(dev kernels.Device, fields []dataloader.Field) trainer.Options {
	return trainer.Options{Device: dev, Batch: f.batch, Fields: fields, Seed: f.seed, Optimizer: optim.Adam{}, Checkpoint: f.checkpoint != ""}
}

// serving returns the options of the predictor.
func (f flags) serving(dev kernels.Device, fields []dataloader.Field) trainer.PredictorOptions {
	return trainer.PredictorOptions{Device: dev, Batch: f.rows, MaxDelay: f.delay, Fields: fields, Seed: f.seed}
}

// showPlans prints the plans of the trainer and of the predictor, and draws them: both on a page, or
// the predictor's alone.
func (f flags) showPlans(ctx context.Context, dev kernels.Device, fields []dataloader.Field, out io.Writer) error {
	training, err := trainer.Plan(ctx, cnn, f.options(dev, fields))
	if err != nil {
		return err
	}
	serving, err := trainer.PlanPredictor(ctx, cnn, f.serving(dev, fields))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "training:\n\n%s\nserving:\n\n%s", training, serving)
	if f.picture == "" {
		return nil
	}
	if format, err := picture.FormatOf(f.picture); err != nil || format != picture.HTML {
		return picture.Save(f.picture, serving, picture.Options{}) // which has the error of the name
	}
	lines, err := layers.Sources(cnn, f.batch)
	if err != nil {
		return err
	}
	return picture.Save(f.picture, training, picture.Options{Name: "training", Other: serving, OtherName: "serving", Lines: lines})
}
