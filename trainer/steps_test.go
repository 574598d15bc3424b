package trainer_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// stepwise trains an epoch by Steps, calls body after each step, and returns the steps.
func stepwise(t testing.TB, tr *trainer.Trainer, ds dataloader.Dataset, body func(trainer.Step)) (all []trainer.Step) {
	t.Helper()
	for step, err := range tr.Steps(context.Background(), ds) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, step)
		if body != nil {
			body(step)
		}
	}
	return all
}

// stepOptions are options under which the steps of a pass differ, by name.
func stepOptions() map[string]trainer.Options {
	return map[string]trainer.Options{
		"plain":              {Batch: 8, Optimizer: optim.Adam{}},
		"windows of 3":       {Batch: 4, Accumulate: 3, Optimizer: optim.Adam{}, Average: optim.Average{Decay: 0.75}},
		"scaled and clipped": {Batch: 8, Precision: arena.Float16, LossScale: optim.Scaling{Initial: 1 << 24}, Clip: optim.Clip{Norm: 1}},
		"dropped tail":       {Batch: 8, Tail: dataloader.DropTail, Schedule: optim.Step{Every: 3, Factor: 0.5}},
		"GuardEach":          {Batch: 8, Guard: trainer.GuardEach, Workers: 3, Average: optim.Average{Uniform: true, Start: 3}},
	}
}

// differingFrom returns the names of what b learned otherwise than a: parameters, statistics and, with Options.Average, averages.
func differingFrom(t *testing.T, a, b *trainer.Trainer, opt trainer.Options) []string {
	t.Helper()
	names := differing(learned(t, a), learned(t, b))
	if opt.Average.On() {
		for _, name := range differing(learnedFrom(t, a.Averaged().Params), learnedFrom(t, b.Averaged().Params)) {
			names = append(names, "average of "+name)
		}
	}
	return names
}

func TestStepsHaveTheBitsOfFit(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds, val := samples(t, 45, 4, 3), samples(t, 21, 4, 3)
		skips := 0
		for name, opt := range stepOptions() {
			for _, resident := range []bool{false, true} {
				opt.Device, opt.Seed, opt.Fields = dev, 5, ds.Fields()
				if resident {
					opt.Resident = []dataloader.Dataset{ds}
				}
				fitted, stepped := made(t, small, opt), made(t, small, opt)
				for epoch := range 3 {
					res := fit(t, fitted, ds)
					all := stepwise(t, stepped, ds, func(s trainer.Step) {
						switch {
						case epoch == 1 && s.Step%2 == 0:
							evaluate(t, stepped, val)
						case epoch == 2 && s.Step%3 == 1:
							outputs(t, stepped, val)
						}
					})
					skipped, loss, weight := 0, 0.0, 0.0
					for i, s := range all {
						if s.Step != i+1 || s.Steps != res.Steps || s.Epoch != epoch || s.Number != int64(epoch*res.Steps+i+1) {
							t.Errorf("%s: step %d of epoch %d is %+v", name, i, epoch, s)
						}
						if s.Skipped {
							skipped++
							skips++
						}
						loss, weight = loss+s.Loss*s.Weight, weight+s.Weight
					}
					if len(all) != res.Steps || skipped != res.Skipped || !about(loss/weight, res.Loss, 1e-6) {
						t.Errorf("%s: %d steps, %d skipped, loss %v: Fit has %+v", name, len(all), skipped, loss/weight, res)
					}
					if d := differingFrom(t, stepped, fitted, opt); len(d) > 0 {
						t.Errorf("%s, resident %v, epoch %d: %q differ from those of Fit", name, resident, epoch, d)
					}
				}
			}
		}
		if skips == 0 {
			t.Error("no update was skipped")
		}
	})
}

// leavings are the ways to leave a loop after step at of an epoch of 6, by name.
var leavings = map[string]func(t *testing.T, tr *trainer.Trainer, ds dataloader.Dataset, at int, body func(trainer.Step)){
	"break": func(t *testing.T, tr *trainer.Trainer, ds dataloader.Dataset, at int, body func(trainer.Step)) {
		for step, err := range tr.Steps(context.Background(), ds) {
			if err != nil {
				t.Fatal(err)
			}
			if body(step); step.Step == at {
				break
			}
		}
	},
	"panic": func(t *testing.T, tr *trainer.Trainer, ds dataloader.Dataset, at int, body func(trainer.Step)) {
		defer func() {
			if r := recover(); r != "left" {
				t.Errorf("recovered %v", r)
			}
		}()
		stepwise(t, tr, ds, func(step trainer.Step) {
			if body(step); step.Step == at {
				panic("left")
			}
		})
	},
	"exit": func(t *testing.T, tr *trainer.Trainer, ds dataloader.Dataset, at int, body func(trainer.Step)) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			stepwise(t, tr, ds, func(step trainer.Step) {
				if body(step); step.Step == at {
					runtime.Goexit()
				}
			})
		}()
		<-done
	},
	"cancel": func(t *testing.T, tr *trainer.Trainer, ds dataloader.Dataset, at int, body func(trainer.Step)) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		last, failed := 0, error(nil)
		for step, err := range tr.Steps(ctx, ds) {
			if failed != nil {
				t.Errorf("%v is yielded after %v", step, failed)
			}
			if failed = err; err != nil {
				continue
			}
			last = step.Step
			if body(step); step.Step == at {
				cancel()
			}
		}
		if last != at || errors.Is(failed, context.Canceled) != (at < 6) {
			t.Errorf("cancelled after step %d: step %d is the last, the error %v", at, last, failed)
		}
	},
}

// However and wherever a loop is left, parameters are as that step left them, and the next epochs train.
func TestALoopMayBeLeftAtEveryStep(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds, val := samples(t, 45, 4, 3), samples(t, 21, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.Adam{}, Accumulate: 2}
		var at []map[string]string // after each step
		undisturbed := made(t, small, opt)
		stepwise(t, undisturbed, ds, func(trainer.Step) { at = append(at, learned(t, undisturbed)) })
		for step := 1; step <= 6; step++ {
			var next map[string]string // after another epoch, the same however the loop was left
			for name, leave := range leavings {
				for use, body := range map[string]func(*trainer.Trainer){
					"nothing": func(*trainer.Trainer) {}, "the slots": func(tr *trainer.Trainer) { evaluate(t, tr, val) },
				} {
					tr := made(t, small, opt)
					leave(t, tr, ds, step, func(trainer.Step) { body(tr) })
					if d := differing(learned(t, tr), at[step-1]); len(d) > 0 {
						t.Errorf("%s at %d, a body that uses %s: %q differ", name, step, use, d)
					}
					if res := fit(t, tr, ds); res.Epoch != 1 || res.Samples != 45 {
						t.Errorf("%s at %d: the next epoch is %+v", name, step, res)
					}
					stepwise(t, tr, ds, nil)
					if got := learned(t, tr); next == nil {
						next = got
					} else if d := differing(got, next); len(d) > 0 {
						t.Errorf("%s at %d, a body that uses %s: %q differ after more epochs", name, step, use, d)
					}
					if err := tr.Close(); err != nil {
						t.Errorf("%s at %d: close: %v", name, step, err)
					}
				}
			}
		}
	})
}
