package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// timed prints a row for each net: the time of a step on the host, planned with the workspaces of
// its kernels, and the extra time with recomputation, by the cost model and measured as the median
// of the ratios within a round.
func timed(ctx context.Context, f flags, some []nets.Net, out io.Writer) (err error) {
	runtime.GOMAXPROCS(f.threads)
	dev, err := cpu.Open(cpu.Options{Threads: f.threads})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	instructions, err := dev.Instructions()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s, %v, %d threads; medians of %d rounds of %d steps\n", runtime.GOARCH, instructions, f.threads, f.rounds, f.steps)
	w := columns(out)
	fmt.Fprint(w, "net\tbatch\tplanned\tms a step")
	for _, part := range parts {
		fmt.Fprintf(w, "\twithin %.0f %%\tshare\ttime\tmeasured", 100*part)
	}
	fmt.Fprintln(w)
	for _, n := range some {
		if f.batch > 0 {
			n.Batch = f.batch
		}
		if err := timedNet(ctx, f, n, dev, w); err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
	}
	return w.Flush()
}

// timedNet trains a net alternately without and with recomputation, and prints its row.
func timedNet(ctx context.Context, f flags, n nets.Net, dev *cpu.Device, out io.Writer) (err error) {
	const seed = 1
	ds, err := n.Data(f.steps*n.Batch, seed)
	if err != nil {
		return err
	}
	p, err := planOf(n, trainer.Options{Device: dev, Batch: n.Batch, Fields: ds.Fields(), Guard: trainer.GuardEach, Optimizer: optim.SGD{Rate: 1e-6}, Seed: seed})
	if err != nil {
		return err
	}
	var runs []*trainer.Trainer
	defer func() {
		for _, t := range runs {
			err = errors.Join(err, t.Close())
		}
	}()
	for _, c := range append([]cut{p.whole}, p.within...) {
		t, err := trainer.New(ctx, n.Model, c.opt)
		if err != nil {
			return err
		}
		if runs = append(runs, t); t.Plan().Programs[0].Scratch != c.step().Scratch {
			return fmt.Errorf("%d bytes of scratch are planned, but the trainer has %d", c.step().Scratch, t.Plan().Programs[0].Scratch)
		}
	}
	step, longer, err := alternate(ctx, runs, ds, f)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\t%d\t%d\t%.1f", n.Name, n.Batch, p.whole.step().Scratch, float64(step.Nanoseconds())/1e6)
	for i, c := range p.within {
		share, modelled := c.compare(p.whole)
		fmt.Fprintf(out, "\t%d\t%.1f %%\t%+.1f %%\t%+.1f %%", c.step().Scratch, 100*share, 100*modelled, 100*(longer[i+1]-1))
	}
	_, err = fmt.Fprintln(out)
	return err
}

// alternate trains each of the runs on ds in every round, starting with a different one in each.
// The first round is a warm-up. It returns the median time of a step of runs[0], and for each run
// the median ratio of its time to that of runs[0] in the same round.
func alternate(ctx context.Context, runs []*trainer.Trainer, ds dataloader.Dataset, f flags) (step time.Duration, ratio []float64, err error) {
	steps := make([]time.Duration, 0, f.rounds)
	ratios := make([][]float64, len(runs))
	took := make([]time.Duration, len(runs))
	for round := range f.rounds + 1 {
		for k := range runs {
			i := (round + k) % len(runs)
			began := time.Now()
			if _, err := runs[i].Fit(ctx, ds); err != nil {
				return 0, nil, err
			}
			took[i] = time.Since(began)
		}
		if round == 0 {
			continue
		}
		steps = append(steps, took[0]/time.Duration(f.steps))
		for i := range runs {
			ratios[i] = append(ratios[i], took[i].Seconds()/took[0].Seconds())
		}
	}
	for _, r := range ratios {
		ratio = append(ratio, median(r))
	}
	return median(steps), ratio, nil
}

// median returns the middle value; of two, the larger.
func median[T time.Duration | float64](x []T) T {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}
