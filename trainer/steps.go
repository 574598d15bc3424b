package trainer

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
)

// Step describes one finished training step.
type Step struct {
	Objective string  // name of the objective that it trained; "" if the model has Model.Loss
	Number    int64   // number of the training step, counted from 1 since New; Restore continues the count
	Epoch     int     // number of the epoch, counted from 0 by Fit and Steps
	Step      int     // number of the batch in the epoch, 1 to Steps; each objective has a step on it
	Steps     int     // batches of the epoch
	Samples   int     // rows of the batch
	Weight    float64 // sum of the objective's weights in the batch; Samples if it has none
	// Loss is the mean over the batch, weighted if the objective has a Weight; NaN if all weights
	// are 0.
	Loss float64
	// Accuracy is the share of correct outputs, weighted in the same way; NaN if the model has no
	// Correct.
	Accuracy float64
	Rate     float64 // learning rate of the update that the step is part of, after Options.Schedule
	// Norm is the L2 norm of the gradients of all trained parameters that the update starts from:
	// of the mean over the window of Options.Accumulate, divided by the loss scale, before
	// clipping. NaN if the step has no update, or if neither Options.GradientNorm nor Clip.Norm is
	// set. It is not finite if the gradients overflow (then Skipped is set) or, in float64, their
	// squares.
	Norm float64
	// Updated is set if the step updated parameters: in a window of Options.Accumulate only the
	// last step does, and none if all parameters are frozen.
	Updated bool
	Skipped bool // the update was skipped; see Result.Skipped
	// NonFinite is set if Options.SkipNonFinite skipped the step: its loss or gradients are not finite.
	NonFinite bool
	Uploaded  int64 // bytes of samples copied to the device for the step
	// Metrics are those of Model.Metrics over the rows of the batch, in their order; a step of an
	// objective has those that its program computes, and the others are NaN. The trainer owns the
	// memory, which the next step overwrites. Nil without Options.TrainMetrics.
	Metrics []MetricResult
}

// Steps trains one epoch, as Fit does and with the same bits, and yields after each training step:
//
//	for step, err := range t.Steps(ctx, ds) {
//		if err != nil {
//			return err
//		}
//		log.Print(step.Number, step.Loss)
//	}
//
// When the body runs, the step is finished, and no later one has begun; only its batch may be read
// and uploaded already. So the body may call every method of the trainer except Fit, Steps, Unfreeze,
// Restore and Close, which return ErrBusy. What it changes, such as a parameter, takes effect in the next step.
// Other goroutines may do the same while the body runs; the next step waits for their calls. After
// Evaluate and Predict in a body, the batches that were read ahead are read again.
//
// The body may leave the loop at any step, also by a panic: the epoch then ends, and parameters are
// as the last step left them. The next Fit or Steps has the next number, as after an error. The
// first error is yielded with a zero Step, and nothing after it; the device is then free.
func (t *Trainer) Steps(ctx context.Context, ds dataloader.Dataset) iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		if _, err := t.loop(ctx, ds, yield); err != nil && !errors.Is(err, errLeft) {
			yield(Step{}, err)
		}
	}
}

// FitEach trains one epoch as Fit does, with the same bits and Result, and calls each after each
// training step. What holds in a body of Steps holds in each. Where it returns false the epoch ends, as
// where a body leaves Steps: the Result is of the steps so far, of this rank only, and the error is nil.
func (t *Trainer) FitEach(ctx context.Context, ds dataloader.Dataset, each func(Step) (goes bool)) (Result, error) {
	if each == nil {
		return Result{}, fmt.Errorf("FitEach: nothing to call: %w", ErrOption)
	}
	r, err := t.loop(ctx, ds, func(s Step, _ error) bool { return each(s) })
	switch {
	case errors.Is(err, errLeft):
		return r, nil
	case err == nil:
		t.logPass("FitEach", r)
	}
	return r, err
}

// stepsName is the name of a pass of Steps in errors.
const stepsName = "Steps"

// errLeft ends a pass of Steps whose body left the loop.
var errLeft = errors.New("the body left the loop")

// loop is Steps until its first error.
func (t *Trainer) loop(ctx context.Context, ds dataloader.Dataset, yield func(Step, error) bool) (r Result, err error) {
	returned := false
	defer func() { t.left(err, returned) }()
	r, err = t.runLoop(ctx, ds, yield)
	returned = true
	return r, err
}

// runLoop is loop, of a rank that ends no other.
func (t *Trainer) runLoop(ctx context.Context, ds dataloader.Dataset, yield func(Step, error) bool) (Result, error) {
	if ctx == nil {
		return Result{}, fmt.Errorf("%s: %w", stepsName, errNilContext)
	}
	if err := t.use().beginPass(ctx, stepsName, true); err != nil {
		return Result{}, err
	}
	p := &epochPass{t: t, mode: compile.Train, body: &loopBody{yield: yield}}
	defer func() { // also if the body panics
		p.body.ballot.close()
		if p.body.paused {
			t.usage.leave(p)
		} else {
			t.usage.endPass(p.reader.stuck)
		}
	}()
	ctx, stop := t.plan.opt.watch(ctx)
	defer stop()
	if err := p.open(ctx, ds); err != nil {
		return Result{}, fmt.Errorf("%v: %w", p.mode, brokenBy(ctx, err))
	}
	if err := p.run(ctx); err != nil {
		return p.result(), fmt.Errorf("%v epoch %d: %w", p.mode, p.epoch, brokenBy(ctx, err))
	}
	return p.result(), nil
}

// loopBody is the body of a loop over Steps. While it runs, its pass is paused: see usage.
type loopBody struct {
	yield  func(Step, error) bool
	ballot tally // of the ranks of a group
	// The pass does not have the device: the body runs, or it has left the loop, or the pass could
	// not resume after it.
	paused bool
}

// call calls the body after the last step of p.
func (l *loopBody) call(ctx context.Context, p *epochPass) error {
	t := p.t
	t.addCounts(p, -1)
	l.paused = true
	t.usage.pause(p)
	if !l.yield(p.last, nil) {
		if _, err := p.vote(true); err != nil {
			t.left(err, true) // the next call of this rank returns it: the loop is left
		}
		return errLeft
	}
	if err := t.usage.resume(ctx); err != nil {
		return fmt.Errorf("step %d: %w", p.steps, err)
	}
	l.paused = false
	if leaver, err := p.vote(false); err != nil {
		return fmt.Errorf("step %d: %w", p.steps, err)
	} else if leaver >= 0 {
		return agreedError{&LeaveError{Rank: leaver, Step: p.last.Number}}
	}
	// Steps that the body has trained count, too.
	t.addCounts(p, 1)
	if p.steps == p.total {
		return nil
	}
	return t.checkWindow("the next step of " + stepsName)
}

// trainedSteps returns the number of training steps since New.
func (t *Trainer) trainedSteps() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counters.steps
}

// addCounts adds the numbers of training steps and updates, times sign, to those before pass p.
func (t *Trainer) addCounts(p *epochPass, sign int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.stepsBefore += sign * t.counters.steps
	for i, n := range t.counters.updates {
		p.updatesBefore[i] += sign * n
	}
}

// takeSlots takes the slots from a paused pass, whose batches are then read again. The caller has
// the device.
func (t *Trainer) takeSlots() error {
	p := t.usage.pausedPass()
	if p == nil {
		return nil
	}
	if err := p.giveSlots(); err != nil {
		return fmt.Errorf("the slots of %s: %w", stepsName, err)
	}
	return nil
}

// giveSlots ends the uploads and the reader of a paused pass. A second call does nothing.
func (p *epochPass) giveSlots() error {
	return p.reader.close(func() error { return p.t.streams.drain(p.t.slots) })
}
