// Package loop has parts of training loops: functions over the steps and results of a trainer, to be
// combined.
//
//	steps := loop.Within(loop.Epochs(ctx, t, train, 100), time.Hour)
//	for e, err := range loop.Evaluations(ctx, t, steps, val, 500) {
//		if err != nil {
//			return err
//		}
//		if stop, err := early.Add(e.Result.Loss); stop || err != nil {
//			break
//		}
//	}
//	err := weights.Restore()
//
// [Epochs], [Until], [Within] and [Evaluations] yield steps. [Early] stops, [Weights] keeps the parameters of
// the best result, [Top] the names of the best files. [Plateau] is a schedule that lowers the rate
// where results stop to improve, [RangeTest] measures losses at rising rates, [Norms] shows the norms
// of gradients, [History] keeps the numbers that package plot draws as curves.
//
// A value that is NaN is worse than every number.
package loop

import (
	"context"
	"iter"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/trainer"
)

// Steps are the steps of a loop, as Trainer.Steps yields them: after an error comes nothing more.
type Steps = iter.Seq2[trainer.Step, error]

// Epochs yields the steps of n epochs over ds, one after the other. While the body runs, what holds in
// a body of Trainer.Steps holds.
func Epochs(ctx context.Context, t *trainer.Trainer, ds dataloader.Dataset, n int) Steps {
	return func(yield func(trainer.Step, error) bool) {
		for range n {
			for step, err := range t.Steps(ctx, ds) {
				if !yield(step, err) || err != nil {
					return
				}
			}
		}
	}
}

// Within yields steps until limit has passed since the loop began: the step during which that happens
// is the last one. It yields none if limit is 0 or less. The end is no error, and parameters are as the
// last step left them.
func Within(steps Steps, limit time.Duration) Steps {
	return func(yield func(trainer.Step, error) bool) {
		end := time.Now().Add(limit)
		if limit <= 0 {
			return
		}
		for step, err := range steps {
			if !yield(step, err) || !time.Now().Before(end) {
				return
			}
		}
	}
}

// Evaluation is a step and the result of an evaluation after it.
type Evaluation struct {
	Step   trainer.Step
	Result trainer.Result
}

// Evaluations runs the steps and yields the result of t.Evaluate on ds after each step whose number is
// a multiple of every, and after the last step. An every below 1 means after the last step only. The
// first error, of a step or an evaluation, is yielded, and nothing after it.
func Evaluations(ctx context.Context, t *trainer.Trainer, steps Steps, ds dataloader.Dataset, every int) iter.Seq2[Evaluation, error] {
	return func(yield func(Evaluation, error) bool) {
		var last trainer.Step
		pending := false // last is a step without evaluation
		evaluate := func() bool {
			pending = false
			res, err := t.Evaluate(ctx, ds)
			return yield(Evaluation{last, res}, err) && err == nil
		}
		for step, err := range steps {
			if err != nil {
				yield(Evaluation{Step: step}, err)
				return
			}
			last, pending = step, true
			if every > 0 && step.Number%int64(every) == 0 && !evaluate() {
				return
			}
		}
		if pending {
			evaluate()
		}
	}
}
