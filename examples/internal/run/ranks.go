package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/group/mpi"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/checkpoint"
)

// join returns the memberships of the ranks that this process has: all of -ranks, or its own of -mpi.
// Without either there are none. opt becomes that of the first.
func (f *Flags) join(opt *trainer.Options) (groups []group.Group, err error) {
	switch {
	case f.MPI:
		g, err := mpi.Open(mpi.Options{})
		if err != nil {
			return nil, fmt.Errorf("-mpi: %w", err)
		}
		groups = append(groups, g)
	case f.Ranks > 1:
		if groups, err = group.Local(f.Ranks, group.Options{}); err != nil {
			return nil, fmt.Errorf("-ranks: %w", err)
		}
	default:
		return nil, nil
	}
	opt.Group = groups[0]
	return groups, nil
}

// first returns the number of the first rank of this process.
func first(groups []group.Group) int {
	if len(groups) == 0 {
		return 0
	}
	return groups[0].Rank()
}

// threads returns the threads of the CPU for one rank; 0: all.
func (f *Flags) threads() int {
	if f.Ranks < 2 {
		return 0
	}
	return max(1, runtime.GOMAXPROCS(0)/f.Ranks)
}

// leave ends memberships.
func leave(groups []group.Group) error {
	var errs []error
	for _, g := range groups {
		errs = append(errs, g.Close())
	}
	return errors.Join(errs...)
}

// quiet returns the flags of a rank other than the first: only that one writes files and prints.
func (f Flags) quiet() Flags {
	f.JSON, f.Picture, f.Curves, f.Trace, f.Run, f.Serve = "", "", "", "", "", ""
	return f
}

// trainRanks trains all ranks of this process, and returns the results of the first one. opt has the
// device of the first.
func (e Example) trainRanks(ctx context.Context, f Flags, out io.Writer, opt trainer.Options, groups []group.Group, train, test dataloader.Dataset) (Results, error) {
	if len(groups) == 0 {
		return e.train(ctx, f, out, opt, train, test)
	}
	results, errs := make([]Results, len(groups)), make([]error, len(groups))
	var ranks sync.WaitGroup
	for i, g := range groups {
		ranks.Go(func() {
			if results[i], errs[i] = e.trainRank(ctx, f, out, opt, i, g, train, test); errs[i] != nil {
				g.Abort(errs[i])
			}
		})
	}
	ranks.Wait()
	// The error of a rank's own tells more than those of the ranks that it has ended.
	for _, err := range errs {
		var other *group.RankError
		if err != nil && !errors.As(err, &other) {
			return results[0], err
		}
	}
	return results[0], errors.Join(errs...)
}

// trainRank trains rank i of this process.
func (e Example) trainRank(ctx context.Context, f Flags, out io.Writer, opt trainer.Options, i int, g group.Group, train, test dataloader.Dataset) (res Results, err error) {
	opt.Group = g
	if i > 0 {
		if opt.Device, err = f.open(); err != nil {
			return res, err
		}
		defer func() { err = errors.Join(err, opt.Device.Close()) }()
	}
	if g.Rank() > 0 {
		f, out = f.quiet(), io.Discard
	}
	return e.train(ctx, f, out, opt, train, test)
}

// together reports whether all ranks take checkpoints together: each has its part of the state.
func together(opt trainer.Options) bool {
	return opt.Group != nil && (opt.Shard != trainer.ShardNothing || opt.Accumulate > 1)
}

// openFolder opens the folder of -checkpoint for a rank: only the first one writes. Ranks that take
// checkpoints together open it together.
func openFolder(ctx context.Context, t *trainer.Trainer, f Flags, opt trainer.Options, out io.Writer) (*checkpoint.Folder, error) {
	switch g := opt.Group; {
	case together(opt):
		return OpenFolder(ctx, t, f.Checkpoint, f.Resume, f.Every, g, out)
	case g == nil || g.Rank() == 0:
		return OpenFolder(ctx, t, f.Checkpoint, f.Resume, f.Every, nil, out)
	}
	if !f.Resume {
		return nil, nil
	}
	folder, err := checkpoint.Open(f.Checkpoint, checkpoint.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	_, err = folder.Resume(ctx, t)
	return nil, errors.Join(err, folder.Close())
}
