package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/group/mpi"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cuda"
	"github.com/evenkeel/evenkeel/trainer"
)

// member is a rank that this process has: its device, and its group unless it trains alone. On GPUs
// the group sums by NCCL.
type member struct {
	group.Group // nil: it trains alone
	device      kernels.Device
	close       func() error // of both; all ranks call it at once
}

// rank returns the number of the rank in its group.
func (m *member) rank() int {
	if m.Group == nil {
		return 0
	}
	return m.Rank()
}

// join returns the members of this process, with their devices: all of -ranks, its own of -mpi, or one
// that trains alone. The caller closes them by leave.
func (f *Flags) join(ctx context.Context) ([]member, error) {
	groups, err := []group.Group{nil}, error(nil)
	switch {
	case f.MPI:
		var opt mpi.Options
		if f.Checkpoint != "" {
			opt.Grace = f.Grace
		}
		if groups[0], err = mpi.Open(opt); err != nil {
			return nil, fmt.Errorf("-mpi: %w", err)
		}
	case f.Ranks > 1:
		if groups, err = group.Local(f.Ranks, group.Options{}); err != nil {
			return nil, fmt.Errorf("-ranks: %w", err)
		}
	}
	members := make([]member, len(groups))
	err = each(members, func(i int) error {
		m := &members[i]
		m.Group = groups[i]
		if err := f.equip(ctx, m, i); err != nil {
			if m.Group != nil {
				m.Abort(err)
			}
			return err
		}
		return nil
	})
	if err != nil {
		return nil, leave(members, err)
	}
	return members, nil
}

// equip opens the device of member i of this process. GPUs of a group are one for each rank, and joined
// by NCCL.
func (f *Flags) equip(ctx context.Context, m *member, i int) (err error) {
	m.close = func() error { return nil }
	if m.Group != nil {
		m.close = m.Group.Close
	}
	if f.Device == "cuda" && f.MPI {
		if i, err = placeOnHost(ctx, m.Group); err != nil {
			return fmt.Errorf("-mpi: %w", err)
		}
	}
	if m.device, err = f.open(i); err != nil {
		var few *cuda.NoDeviceError
		if errors.As(err, &few) && m.Group != nil {
			err = fmt.Errorf("rank %d needs a GPU of its own: start one rank for each GPU that is visible to it: %w", m.Rank(), err)
		}
		return err
	}
	leaveGroup := m.close
	m.close = func() error { return errors.Join(leaveGroup(), m.device.Close()) }
	gpu, ok := m.device.(*cuda.Device)
	if !ok || m.Group == nil || m.Size() == 1 {
		return nil
	}
	joined, err := gpu.Join(ctx, m.Group, group.Options{})
	if err != nil {
		return fmt.Errorf("-device cuda: %w", err)
	}
	m.Group = joined
	m.close = func() error { return errors.Join(joined.Close(), leaveGroup(), gpu.Close()) }
	return nil
}

// placeOnHost returns the number of the rank among those of its host that see the same GPUs.
func placeOnHost(ctx context.Context, g group.Group) (n int, err error) {
	host, err := os.Hostname()
	if err != nil {
		return 0, err
	}
	all, err := group.Exchange(ctx, g, []byte(host+" "+os.Getenv("CUDA_VISIBLE_DEVICES")))
	if err != nil {
		return 0, err
	}
	for _, other := range all[:g.Rank()] {
		if string(other) == string(all[g.Rank()]) {
			n++
		}
	}
	return n, nil
}

// each calls f for each member at once, and returns the errors. The error of a rank's own tells more
// than those of the ranks that it has ended, and than a stop.
func each(members []member, f func(i int) error) error {
	errs := make([]error, len(members))
	var all sync.WaitGroup
	for i := range members {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	for _, err := range errs {
		var other *group.RankError
		if unlessStopped(err) != nil && !errors.As(err, &other) {
			return err
		}
	}
	return errors.Join(errs...)
}

// leave closes the groups and devices of members after err, which it returns: the groups are given up
// first, since ranks of other processes may wait, unless err is nil or a stop.
func leave(members []member, err error) error {
	for i := range members {
		if m := &members[i]; m.Group != nil && unlessStopped(err) != nil {
			m.Abort(err)
		}
	}
	return errors.Join(err, each(members, func(i int) error { return members[i].close() }))
}

// threads returns the threads of the CPU for one rank; 0: all.
func (f *Flags) threads() int {
	if f.Ranks < 2 {
		return 0
	}
	return max(1, runtime.GOMAXPROCS(0)/f.Ranks)
}

// quiet returns the flags of a rank other than the first: only that one writes files and prints.
func (f Flags) quiet() Flags {
	f.JSON, f.Picture, f.Curves, f.Trace, f.Run, f.Serve = "", "", "", "", "", ""
	return f
}

// trainRanks trains all ranks of this process, and returns the results of the first one.
func (e Example) trainRanks(ctx context.Context, f Flags, out io.Writer, opt trainer.Options, members []member, train, test dataloader.Dataset) (Results, error) {
	results := make([]Results, len(members))
	err := each(members, func(i int) (err error) {
		m, f, out, opt := &members[i], f, out, opt
		opt.Device, opt.Group = m.device, m.Group
		if m.rank() > 0 {
			f, out = f.quiet(), io.Discard
		}
		if results[i], err = e.train(ctx, f, out, opt, train, test); m.Group != nil && unlessStopped(err) != nil {
			m.Abort(err)
		}
		return err
	})
	return results[0], err
}

// fitTogether trains an epoch of ranks that a page, which only the first one has, may stop: where that one
// leaves, the others learn it after the same step. The stop is a cancelled context on the first rank, and
// ErrStopped on the others.
func (l *Loop) fitTogether(ctx context.Context, t *trainer.Trainer, train dataloader.Dataset) (trainer.Result, error) {
	stopped := false
	r, err := t.FitEach(ctx, train, func(trainer.Step) (goes bool) {
		stopped = l.Group.Rank() == 0 && l.Stopping()
		return !stopped
	})
	switch {
	case errors.Is(err, trainer.ErrLeft):
		return r, ErrStopped
	case err == nil && stopped:
		return r, context.Canceled
	}
	return r, err
}
