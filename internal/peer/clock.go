package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/cuda"
	"github.com/evenkeel/evenkeel/trainer"
	plans "github.com/evenkeel/evenkeel/trainer/report"
)

// clock runs a workload and records its times.
type clock struct {
	f flags
	w workload
	d data

	device  kernels.Device
	t       *trainer.Trainer
	plan    *plans.Plan
	steps   []stepBytes
	others  float64                 // fraction of the CPU time that other processes used
	total   int                     // steps of warm-up and timing; 0: all steps of the epochs
	stop    context.CancelCauseFunc // of training
	started time.Time               // of training
	since   time.Time               // the window began
	done    int                     // steps

	windows, epochs, evals []time.Duration
	first                  time.Duration // until the first step was done
	budget                 bool          // training was stopped by it
	loss, accuracy         []float64
	rss                    rss
	free, inUse            []int64 // bytes of the device and of the arena, after each evaluation
}

// newClock returns a clock for a workload with the defaults of the flags.
func newClock(f flags, w workload) *clock {
	if f.epochs <= 0 {
		f.epochs = max(w.epochs, 1)
	}
	if f.steps <= 0 {
		f.steps = w.steps
	}
	if f.window > 0 {
		w.window = f.window
	}
	w.shrink, w.Batch = f.shrink, max(1, w.Batch/f.shrink)
	c := &clock{f: f, w: w}
	if w.steps > 0 {
		c.total = f.steps + w.window*w.warm
	}
	return c
}

// train opens the trainer, trains and evaluates.
func (c *clock) train(ctx context.Context) (err error) {
	f := c.f
	c.rss.Imported = resident("VmRSS")
	if c.d, err = c.w.load(c.w, f); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.d.drop()) }()
	if c.device, err = f.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.device.Close()) }()
	opt := trainer.Options{Device: c.device, Batch: c.w.Batch, EvalBatch: evalBatch, Optimizer: c.w.optimizer, Seed: f.seed,
		Tail: dataloader.DropTail, Progress: c.progress, Resident: []dataloader.Dataset{c.d.train}}
	if c.d.test != c.d.train {
		opt.Resident = append(opt.Resident, c.d.test)
	}
	if c.t, err = trainer.New(ctx, c.w.model, opt); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.t.Close()) }()
	c.plan = c.t.Plan()
	for _, ds := range opt.Resident { // the first prediction uploads the data
		for _, err := range c.t.Predict(ctx, ds) {
			if err != nil {
				return err
			}
			break
		}
	}
	if err := c.d.drop(); err != nil {
		return err
	}
	c.rss.Data = resident("VmRSS")
	before := loaded()
	if err := c.profiled(ctx); err != nil {
		return err
	}
	c.others = before.others(loaded())
	c.rss.End, c.rss.Peak = resident("VmRSS"), resident("VmHWM")
	return c.planSteps(opt)
}

// planSteps plans the step for streaming data, which needs no copy of the batch in scratch, with
// either guard.
func (c *clock) planSteps(opt trainer.Options) error {
	opt.Resident, opt.Fields = nil, c.d.train.Fields()
	for _, s := range []struct {
		how   string
		guard trainer.Guard
	}{{"scratch and gradients", trainer.GuardStep}, {"scratch under `GuardEach`", trainer.GuardEach}} {
		opt.Guard = s.guard
		p, err := trainer.Plan(context.Background(), c.w.model, opt)
		if err != nil {
			return err
		}
		c.steps = append(c.steps, stepBytes{s.how, p.Programs[0].Scratch + p.Category("gradients")})
	}
	return nil
}

// open opens the device.
func (f flags) open() (kernels.Device, error) {
	if f.device == "cuda" {
		d, err := cuda.Open(cuda.Options{Products: f.products, CuBLAS: f.cublas})
		if err != nil {
			return nil, err
		}
		return d, nil
	}
	return cpu.Open(cpu.Options{Threads: f.threads, Instructions: f.instructions()})
}

// instructions returns the instructions of the variant.
func (f flags) instructions() cpu.Instructions {
	for _, v := range variants {
		if v.name == f.variant {
			return v.instructions
		}
	}
	return cpu.Best
}

// profiled calls run, with a CPU profile if the flags have one.
func (c *clock) profiled(ctx context.Context) (err error) {
	if c.f.profile == "" {
		return c.run(ctx)
	}
	w, err := os.Create(c.f.profile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if err := pprof.StartCPUProfile(w); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return c.run(ctx)
}

var (
	errEnough = errors.New("all steps are done")
	errBudget = errors.New("the budget is spent")
)

// run trains epoch by epoch. It evaluates after each epoch, or, if the number of steps is fixed,
// twice at the end.
func (c *clock) run(ctx context.Context) error {
	within, cancel := context.WithTimeoutCause(ctx, seconds(c.f.budget), errBudget)
	defer cancel()
	within, c.stop = context.WithCancelCause(within)
	defer c.stop(nil)
	c.started = time.Now()
	c.since = c.started
	for epoch := 0; within.Err() == nil && (c.total > 0 || epoch < c.f.epochs); epoch++ {
		began := time.Now()
		if c.total == 0 {
			c.since = began
		}
		res, err := c.t.Fit(within, c.d.train)
		if why := context.Cause(within); err != nil && why != errEnough && why != errBudget {
			return err
		}
		c.budget = context.Cause(within) == errBudget
		if res.Samples > 0 {
			c.epochs = append(c.epochs, time.Since(began))
			c.loss = append(c.loss, res.Loss)
		}
		if c.total == 0 {
			if err := c.evaluate(ctx); err != nil {
				return err
			}
		}
	}
	if c.total > 0 {
		return errors.Join(c.evaluate(ctx), c.evaluate(ctx))
	}
	return nil
}

// evaluate evaluates once and records time, accuracy and memory.
func (c *clock) evaluate(ctx context.Context) error {
	training := c.stop
	c.stop = nil // progress ignores the steps of an evaluation
	defer func() { c.stop = training }()
	began := time.Now()
	res, err := c.t.Evaluate(ctx, c.d.test)
	if err != nil {
		return err
	}
	c.evals = append(c.evals, time.Since(began))
	c.accuracy = append(c.accuracy, res.Accuracy)
	c.rss.Epochs = append(c.rss.Epochs, resident("VmRSS"))
	info, err := c.device.Info()
	if err != nil {
		return err
	}
	c.free, c.inUse = append(c.free, info.Free), append(c.inUse, c.t.Stats().Arena.InUse)
	return nil
}

// progress counts the steps of training and records the time at the end of a window.
func (c *clock) progress(p trainer.Progress) {
	if c.stop == nil {
		return
	}
	c.done++
	n := c.done
	if c.total == 0 {
		n = p.Step
	}
	if n%c.w.window == 0 {
		now := time.Now()
		c.windows = append(c.windows, now.Sub(c.since))
		c.since = now
	}
	if c.done == 1 {
		c.first = time.Since(c.started)
	}
	if c.done == c.total {
		c.stop(errEnough)
	}
}

// speed returns the median time of a window, without the warm-up.
func (c *clock) speed() (time.Duration, error) {
	if len(c.windows) == 0 {
		if c.done == 0 {
			return 0, fmt.Errorf("no step was done")
		}
		var all time.Duration
		for _, e := range c.epochs {
			all += e
		}
		c.windows = []time.Duration{all * time.Duration(c.w.window) / time.Duration(c.done)}
	}
	timed := c.windows
	if len(timed) > c.w.warm {
		timed = timed[c.w.warm:]
	}
	return median(timed), nil
}

// median returns the middle value, the mean of the middle two, or 0 for none.
func median[T time.Duration | float64](all []T) T {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}
