package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/internal/peer/python"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// rate is the rate of SGD.
const rate = 0.1

// one measures one trainer with a thread for each rank.
func (f flags) one(ctx context.Context, workload string) (result, error) {
	return f.train(ctx, workload, f.ranks, nil)
}

// local measures the ranks of a local group.
func (f flags) local(ctx context.Context, workload string) (result, error) {
	ranks, err := group.Local(f.ranks, group.Options{})
	if err != nil {
		return result{}, err
	}
	results, errs := make([]result, len(ranks)), make([]error, len(ranks))
	var all sync.WaitGroup
	for i, g := range ranks {
		all.Go(func() {
			if results[i], errs[i] = f.train(ctx, workload, 1, g); errs[i] != nil {
				g.Abort(errs[i])
			}
		})
	}
	all.Wait()
	for _, g := range ranks {
		errs = append(errs, g.Close())
	}
	return results[0], errors.Join(errs...)
}

// train trains as a rank of a group, or alone if g is nil. The first epoch is not timed.
func (f flags) train(ctx context.Context, workload string, threads int, g group.Group) (r result, err error) {
	dev, err := cpu.Open(cpu.Options{Threads: threads})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	w, ranks := nets.Workloads[workload], 1
	if g != nil {
		ranks = g.Size()
	}
	batch := f.batch(workload) / ranks
	ds, err := random(w, f.batch(workload)*steps[workload])
	if err != nil {
		return r, err
	}
	model := func(graph *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		return w.Model(graph, batch, f.shrink)
	}
	var before time.Time
	some := max(1, steps[workload]/4) // steps that are timed together: two are in flight
	clock := func(p trainer.Progress) {
		if p.Step%some != 0 {
			return
		}
		now := time.Now()
		if took := now.Sub(before).Seconds() / float64(some); p.Step > some && (r.Step == 0 || took < r.Step) {
			r.Step = took
		}
		before = now
	}
	t, err := trainer.New(ctx, model, trainer.Options{Device: dev, Batch: batch, Optimizer: optim.SGD{Rate: rate}, Group: g,
		Resident: []dataloader.Dataset{ds}, Progress: clock})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	params, err := t.Params()
	if err != nil {
		return r, err
	}
	for _, p := range params {
		if !p.Statistic {
			r.Parameters += p.Spec.Shape.Elems()
		}
	}
	runtime.GC()
	var epochs []time.Duration
	for range 1 + f.epochs {
		begun := time.Now()
		res, err := t.Fit(ctx, ds)
		if err != nil {
			return r, err
		}
		epochs, r.Loss = append(epochs, time.Since(begun)), res.Loss
	}
	mid := python.Median(epochs[1:], time.Duration.Seconds)
	r.Rate = float64(ds.Len()) / mid.Seconds()
	return r, nil
}

// batch returns the samples of a step of all ranks: as many for each.
func (f flags) batch(workload string) int {
	return nets.Workloads[workload].Batch / f.shrink / f.ranks * f.ranks
}

// random returns n random samples with random labels.
func random(w nets.Workload, n int) (*dataloader.Slices, error) {
	size := 1
	for _, d := range w.Sample {
		size *= d
	}
	r := rand.New(rand.NewPCG(1, 2))
	x, y := make([]float32, n*size), make([]int32, n)
	for i := range x {
		x[i] = r.Float32()
	}
	for i := range y {
		y[i] = int32(r.IntN(w.Classes))
	}
	return dataloader.FromSlices(n, dataloader.Column("x", x, w.Sample...), dataloader.Column("y", y))
}
