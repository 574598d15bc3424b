package trainer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// ranks returns the number of ranks that share each batch.
func (o *Options) ranks() int {
	if o.Group == nil {
		return 1
	}
	return o.Group.Size()
}

// rank returns the number of this rank among them, from 0.
func (o *Options) rank() int {
	if o.Group == nil {
		return 0
	}
	return o.Group.Rank()
}

// RankError reports that a step failed on another rank of Options.Group, on all ranks alike: each
// rank knows what its own samples did. It wraps ErrNonFinite.
type RankError struct {
	Rank int    // the rank
	Text string // its error
}

func (e *RankError) Error() string { return fmt.Sprintf("rank %d: %s", e.Rank, e.Text) }

// Unwrap returns ErrNonFinite.
func (e *RankError) Unwrap() error { return ErrNonFinite }

// MismatchError reports that the ranks of Options.Group were not given the same. It wraps ErrOption.
type MismatchError struct {
	What        string // what differs, such as "batch" or "data"
	Rank, Other int    // two ranks that differ
	Has         string // what rank Rank has
	OtherHas    string // what rank Other has
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s: rank %d has %s, rank %d has %s: all ranks of a group need the same: %v", e.What, e.Rank, e.Has, e.Other, e.OtherHas, ErrOption)
}

// Unwrap returns ErrOption.
func (e *MismatchError) Unwrap() error { return ErrOption }

// agreedError is an error that all ranks have at the same step: none waits for another.
type agreedError struct{ error }

func (e agreedError) Unwrap() error { return e.error }

// compare returns a *MismatchError on every rank unless all ranks have equal settings.
func (o *Options) compare(ctx context.Context, mine []Setting) error {
	if o.ranks() == 1 {
		return nil
	}
	b, err := json.Marshal(mine)
	if err != nil {
		return err
	}
	all, err := group.Exchange(ctx, o.Group, b)
	if err != nil {
		return err
	}
	var first, other []Setting
	for rank, b := range all {
		if err := json.Unmarshal(b, &other); err != nil {
			return fmt.Errorf("settings of rank %d: %w", rank, err)
		}
		if rank == 0 {
			first = slices.Clone(other)
		}
		for i := range max(len(first), len(other)) {
			var a, b Setting
			if i < len(first) {
				a = first[i]
			}
			if i < len(other) {
				b = other[i]
			}
			if a != b {
				return agreedError{&MismatchError{What: a.Name, Rank: 0, Has: a.Value, Other: rank, OtherHas: b.Value}}
			}
		}
		other = other[:0]
	}
	return nil
}

// checkDevices returns an error if two ranks share a device that pins one block of memory for all
// functions of the host: one rank's sum would wait for the other's, which waits for the block.
func (o *Options) checkDevices(ctx context.Context) error {
	if _, ok := o.Device.(kernels.HostStager); !ok || o.ranks() == 1 {
		return nil
	}
	host, _ := os.Hostname() // without a name, ranks of two hosts may look like one
	all, err := group.Exchange(ctx, o.Group, fmt.Appendf(nil, "%s %d %p", host, os.Getpid(), o.Device))
	if err != nil {
		return err
	}
	for rank, id := range all {
		if other := slices.IndexFunc(all, func(b []byte) bool { return bytes.Equal(b, id) }); other < rank {
			return agreedError{fmt.Errorf("ranks %d and %d share a device: open one for each: %w", other, rank, ErrOption)}
		}
	}
	return nil
}

// compareRanks compares the plans and options of all ranks.
func (t *Trainer) compareRanks(ctx context.Context) error {
	if err := t.plan.opt.checkDevices(ctx); err != nil {
		return err
	}
	o := &t.plan.opt
	own := []Setting{{"batch", fmt.Sprint(o.Batch)}, {"evaluation batch", fmt.Sprint(o.rows(compile.Evaluate))},
		{"keep", fmt.Sprintf("%q", o.Keep)}, {"gradient norm", fmt.Sprint(o.GradientNorm)}, {"checkpoint", fmt.Sprint(o.Checkpoint)},
		{"slots", fmt.Sprint(o.slots())}, {"synchronized batch normalization", fmt.Sprint(o.SyncBatchNorm)},
		{"resident datasets", fmt.Sprint(len(o.Resident))}}
	return o.compare(ctx, slices.Concat(own, t.plan.settings(), []Setting{{"memory plan", t.plan.fingerprint()}, {"operations", t.plan.operations()}}))
}

// broadcast replaces the bytes of a value by those of rank 0.
func (o *Options) broadcast(dst []byte, label string) error {
	if o.ranks() == 1 || len(dst) == 0 {
		return nil
	}
	return group.Once(o.Group, group.Op{Kind: group.Broadcast, Type: arena.Uint8, Data: dst, Label: label})
}

// busy tells the other ranks that this one does something long, until done is called.
func (o *Options) busy(what string) (done func()) {
	if o.ranks() == 1 {
		return func() {}
	}
	return o.Group.Busy(what)
}

// left tells the other ranks that this one has left a call that they wait for, with err or, unless it
// returned, because its goroutine ends. Of an error that all have, they know.
func (o *Options) left(err error, returned bool) {
	if !returned {
		err = errUnwound
	}
	var agreed agreedError
	if o.ranks() > 1 && err != nil && !errors.As(err, &agreed) && !errors.Is(err, ErrBusy) && !errors.Is(err, errLeft) {
		o.Group.Abort(err)
	}
}

// errUnwound is the error of a rank whose goroutine ended, or panicked, within a call that others wait for.
var errUnwound = errors.New("a panic, or the end of the goroutine")

// left is Options.left, of a call of the trainer's, which may be nil.
func (t *Trainer) left(err error, returned bool) {
	if t != nil && t.plan != nil {
		t.plan.opt.left(err, returned)
	}
}

// watchInterval is the time between two looks whether the group of a pass is broken.
const watchInterval = 10 * time.Millisecond

// watch returns a context for a pass, which also ends when the group breaks: a rank that waits for
// samples would not notice. The caller calls stop.
func (o *Options) watch(ctx context.Context) (_ context.Context, stop func()) {
	if o.ranks() == 1 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		look := time.NewTicker(watchInterval)
		defer look.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
				if err := o.Group.Err(); err != nil {
					cancel(err)
					return
				}
			}
		}
	})
	return ctx, func() { cancel(nil); watcher.Wait() }
}

// brokenBy returns why the group broke if err is only that ctx ended because of it, else err.
func brokenBy(ctx context.Context, err error) error {
	var broken *group.RankError
	if errors.Is(err, context.Canceled) && errors.As(context.Cause(ctx), &broken) && !errors.As(err, &broken) {
		return broken
	}
	return err
}

// operations identifies the operations of all programs, in their order.
func (p *planned) operations() string {
	h := sha256.New()
	for _, k := range p.order {
		for _, in := range p.programs[k].Instrs {
			fmt.Fprintln(h, in.Op.Name, in.Label)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// meet compares what the ranks are about to pass over, and the states that they begin with.
func (p *epochPass) meet(ctx context.Context) error {
	t, o := p.t, &p.t.plan.opt
	if o.ranks() == 1 {
		return nil
	}
	data := p.source.data.info()
	all := append([]Setting{
		{"pass", fmt.Sprint(p.mode)}, {"loop over Steps", fmt.Sprint(p.body != nil)}, {"averages", fmt.Sprint(p.averaged)}, {"epoch", fmt.Sprint(p.epoch)}, {"step", fmt.Sprint(p.steps)},
		{"data", data.String()}, {"samples of the epoch", fmt.Sprint(p.source.samples)}}, t.plan.settings()...)
	t.mu.Lock()
	c := &t.counters
	all = append(all, Setting{"loss scale", fmt.Sprintf("%+v", c.scaling)}, Setting{"rate factor", fmt.Sprint(c.rateFactor)},
		Setting{"order", fmt.Sprint(c.order)}, Setting{"updates", fmt.Sprint(c.updates)}, Setting{"unfrozen stages", fmt.Sprint(t.plan.stage)})
	t.mu.Unlock()
	digest, err := t.parameterDigest()
	if err != nil {
		return err
	}
	err = o.compare(ctx, append(all, Setting{"parameters", digest}))
	t.own.changed = err != nil
	return err
}

// parameterDigest identifies the bits of parameters and running statistics: one rank may have written
// others. The caller has the device, and nothing is in flight.
func (t *Trainer) parameterDigest() (string, error) {
	sum, table := uint32(0), crc32.MakeTable(crc32.Castagnoli) // which processors compute as fast as they read
	for _, r := range modelRegions {
		for _, home := range t.plan.homes.Parts(r) {
			b := t.readBuffer(home.Ref.Size)
			if err := t.memory.read(home.Ref, home.Name, b); err != nil {
				return "", err
			}
			sum = crc32.Update(sum, table, b)
		}
	}
	return fmt.Sprintf("%08x", sum), nil
}

// ownTail returns this rank's rows of the last batch of an epoch, if that is a short one, and the
// number of batches.
func (o *Options) ownTail(mode compile.Mode, samples int) (rows, batches int) {
	rank, ranks := o.rank(), o.ranks()
	if mode == compile.Predict { // of the rank alone
		rank, ranks = 0, 1
	}
	global := o.rows(mode) * ranks
	all := samples % global
	if rows = all / ranks; rank < all%ranks {
		rows++
	}
	return rows, (samples + global - 1) / global
}

// stepRows returns the rows of the batch of a step, of all ranks.
func (p *epochPass) stepRows(step int) int { return p.rowsBefore(step+1) - p.rowsBefore(step) }

// skipIdle ends a step of evaluation for which this rank has no samples, which the last one may be.
func (p *epochPass) skipIdle(b dataloader.Batch) error {
	p.steps++
	return p.reader.run.Release(b.Slot, nil)
}

// sumRanks replaces the sums of an evaluation by those of all ranks.
func (p *epochPass) sumRanks() error {
	o := &p.t.plan.opt
	if o.ranks() == 1 || p.mode != compile.Evaluate {
		return nil
	}
	numbers := []*float64{&p.correct}
	samples, uploaded := float64(p.samples), float64(p.uploaded)
	numbers = append(numbers, &samples, &uploaded)
	steps := make([]float64, len(p.objectives))
	for i := range p.objectives {
		s := &p.objectives[i]
		steps[i] = float64(s.steps)
		numbers = append(numbers, &s.loss, &s.weight, &steps[i])
	}
	for i := range p.totals {
		numbers = append(numbers, &p.totals[i])
	}
	memory := make([]byte, 8*len(numbers))
	data := dataloader.View[float64](memory)
	for i, x := range numbers {
		data[i] = *x
	}
	if err := group.Once(o.Group, group.Op{Kind: group.Sum, Type: arena.Float64, Data: memory, Label: "evaluation"}); err != nil {
		return err
	}
	for i, x := range numbers {
		*x = data[i]
	}
	p.samples, p.uploaded = int(samples), int64(uploaded)
	for i := range p.objectives {
		p.objectives[i].steps = int(steps[i])
	}
	return nil
}

// exchangeCauses completes the error of a step that failed on all ranks, each of which knows its own.
func (p *epochPass) exchangeCauses(ctx context.Context, s *slot, own error) error {
	o := &p.t.plan.opt
	if o.ranks() == 1 || p.mode != compile.Train {
		return own
	}
	text := []byte(own.Error())
	if s.status[0] == ir.PeerCode {
		text = nil // its own part of the step was fine
	}
	all, err := group.Exchange(ctx, o.Group, text)
	if err != nil {
		return err
	}
	for rank, text := range all {
		if len(text) > 0 && s.status[0] == ir.PeerCode {
			return agreedError{&RankError{Rank: rank, Text: string(text)}}
		}
	}
	return agreedError{own}
}

// agreeOnEnd returns own, the error of a step that this rank has not begun. If all ranks have the same
// one, such as a rate that is out of range, the group goes on. Nothing is in flight.
func (p *epochPass) agreeOnEnd(own error) error {
	o := &p.t.plan.opt
	if o.ranks() == 1 {
		return own
	}
	if err := group.Once(o.Group, group.Op{Kind: group.Barrier, Label: own.Error()}); err != nil {
		return errors.Join(own, err)
	}
	return agreedError{own}
}

// verdict returns what all ranks have agreed on about the step in slot s; without a group, what its
// own status word says.
func (s *slot) worst() int32 {
	switch {
	case len(s.verdict) > 0:
		return s.verdict[0]
	case s.status[0] < 0:
		return kernels.VerdictIndex
	case s.status[0] > 0:
		return kernels.VerdictNonFinite
	}
	return kernels.VerdictFine
}
