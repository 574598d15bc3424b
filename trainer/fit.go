package trainer

import (
	"context"
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
)

// Result holds the measurements of one pass. If the pass also returns an error, they cover the
// steps that were finished before it.
type Result struct {
	// Loss is the mean over the samples, weighted by Model.Weight if the model has one; NaN if all
	// weights are 0. With several objectives it is the loss of the first one.
	Loss     float64
	Losses   []ObjectiveResult // of all objectives, in the model's order
	Accuracy float64           // share of correct outputs, weighted in the same way; NaN if the model has no Correct
	Weight   float64           // sum of the weights of Model.Weight, or of the first objective; Samples if the model has none
	Samples  int
	Steps    int // batches; each has a step for every objective, but see Objective.Every
	// Skipped counts the updates that were skipped: gradients overflowed (Options.LossScale), all
	// weights were 0, or a step was not finite (Options.SkipNonFinite).
	Skipped int
	// NonFinite counts the steps that Options.SkipNonFinite skipped. Loss and Accuracy are the means
	// without those whose loss is not finite.
	NonFinite int
	Dropped   int   // samples that Options.Tail left out
	Epoch     int   // number of the epoch, counted by Fit and Steps from 0; 0 in Evaluate
	Uploaded  int64 // bytes of samples copied to the device
	// Metrics are those of Model.Metrics, in their order. Nil after Fit, unless Options.TrainMetrics
	// is set. The caller owns the slice.
	Metrics []MetricResult
	// Input says who waited for whom: the device for data, or the workers that read for the device. Its
	// String is one line. It differs from run to run; after Restore it is of the rest of the epoch.
	Input dataloader.Stalls
}

// Fit trains one epoch. Each batch is uploaded once, and each objective of the model has a step on
// it, in the model's order. The order of samples is a function of Options.Seed and the number of
// the epoch, which counts up from 0, epochs of Steps included. After an error or a cancelled ctx,
// parameters are as the last finished step left them (but see GuardEach), and the next Fit has the
// next number. After Restore it trains the rest of an unfinished epoch; the Result is that of the whole
// epoch. If all parameters are frozen, Fit changes no parameter; it only updates running
// statistics of batch normalizations that Options.Frozen does not name. While another pass of Fit,
// Steps or Evaluate runs, and in the body of Steps, it returns ErrBusy; while Predict or Step runs
// it waits for the end of a batch.
func (t *Trainer) Fit(ctx context.Context, ds dataloader.Dataset) (Result, error) {
	return t.pass(ctx, "Fit", &epochPass{t: t, mode: compile.Train}, ds)
}

// Evaluate measures loss, accuracy and metrics over all samples of ds. It changes neither parameters
// nor running statistics. While another pass of Fit, Steps or Evaluate runs it returns ErrBusy, but
// not in the body of Steps; while Predict or Step runs it waits for the end of a batch.
func (t *Trainer) Evaluate(ctx context.Context, ds dataloader.Dataset) (Result, error) {
	return t.pass(ctx, "Evaluate", &epochPass{t: t, mode: compile.Evaluate}, ds)
}

// pass runs all batches of ds through the programs of p.
func (t *Trainer) pass(ctx context.Context, name string, p *epochPass, ds dataloader.Dataset) (r Result, err error) {
	returned := false
	defer func() { t.left(err, returned) }()
	r, err = t.runPass(ctx, name, p, ds)
	returned = true
	if err == nil {
		t.logPass(name, r)
	}
	return r, err
}

// runPass is pass, of a rank that ends no other.
func (t *Trainer) runPass(ctx context.Context, name string, p *epochPass, ds dataloader.Dataset) (Result, error) {
	if ctx == nil {
		return Result{}, fmt.Errorf("%s: %w", name, errNilContext)
	}
	if err := t.use().beginPass(ctx, name, p.mode == compile.Train); err != nil {
		return Result{}, err
	}
	defer func() { t.usage.endPass(p.reader.stuck) }()
	ctx, stop := t.plan.opt.watch(ctx)
	defer stop()
	if err := p.open(ctx, ds); err != nil {
		return Result{}, fmt.Errorf("%v: %w", p.mode, brokenBy(ctx, err))
	}
	err := p.profiler.begin()
	if err == nil {
		err = p.run(ctx)
	}
	if err = errors.Join(err, p.profiler.end()); err != nil {
		return p.result(), fmt.Errorf("%v epoch %d: %w", p.mode, p.epoch, brokenBy(ctx, err))
	}
	return p.result(), nil
}
