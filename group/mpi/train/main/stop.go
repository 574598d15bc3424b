package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/checkpoint"
	"github.com/evenkeel/evenkeel/trainer/loop"
)

// stoppable trains the first network from the newest checkpoint until the end of its epochs, or until a
// signal stops it. It prints which.
func stoppable(ctx context.Context, g group.Group) (err error) {
	dev, err := cpu.Open(cpu.Options{Threads: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	ds, err := data()
	if err != nil {
		return err
	}
	opt := trainer.Options{Batch: batch, Group: g, Checkpoint: true}
	t, err := networks[0].trainer(ctx, dev, ds, opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	stop, release := checkpoint.Signals()
	defer release()
	folder, err := checkpoint.Open(*checkpoints, checkpoint.Options{Stop: stop, Group: g})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	if _, err := folder.Resume(ctx, t); err != nil {
		return err
	}
	for step, err := range folder.Steps(ctx, t, loop.Until(ctx, t, ds, *epochs)) {
		if err != nil {
			return err
		}
		if step.Number == 3 {
			fmt.Printf("rank %d: ready\n", g.Rank())
		}
		time.Sleep(*pace)
	}
	if folder.Stopped() {
		fmt.Printf("rank %d: stopped after step %d\n", g.Rank(), t.Stats().Steps)
		return nil
	}
	learned, err := learnedBy(t)
	if err == nil {
		fmt.Printf("rank %d: learned %x in %d steps\n", g.Rank(), digest(learned), t.Stats().Steps)
	}
	return err
}
