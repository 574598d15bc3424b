package trainer

import (
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/group"
)

// ErrLeft is wrapped by a LeaveError.
var ErrLeft = errors.New("another rank left the loop over Steps")

// LeaveError ends the loop over Trainer.Steps of a rank because another rank of Options.Group left
// its own, after the same step. Parameters are those after this step on all ranks, and the group goes
// on: all make the same next call. It wraps ErrLeft.
type LeaveError struct {
	Rank int   // the highest rank that left
	Step int64 // Step.Number of the step
}

func (e *LeaveError) Error() string {
	return fmt.Sprintf("after step %d: rank %d: %v: leave the loop on all ranks, and make the same next call", e.Step, e.Rank, ErrLeft)
}

// Unwrap returns ErrLeft.
func (e *LeaveError) Unwrap() error { return ErrLeft }

// tally combines numbers of each rank of a group, again and again. The zero value has no operation yet.
type tally struct {
	op      group.Operation
	numbers []int64
}

// combine returns the sums or the maxima of the own numbers of all ranks, which all pass the same kind,
// label and count. They are there until the next call.
func (c *tally) combine(g group.Group, kind group.Kind, label string, own ...int64) (_ []int64, err error) {
	if c.op == nil {
		memory := make([]byte, 8*len(own))
		if c.op, err = g.Prepare(group.Op{Kind: kind, Type: arena.Int64, Data: memory, Label: label}); err != nil {
			return nil, err
		}
		c.numbers = dataloader.View[int64](memory)
	}
	copy(c.numbers, own)
	return c.numbers, group.Run(c.op)
}

// close releases the operation.
func (c *tally) close() {
	if c.op != nil {
		_ = c.op.Close() // of a broken group it may be in flight
	}
}

// vote returns the highest rank whose body has left the loop after this step, -1 for none. Every rank
// votes after each call of the body.
func (p *epochPass) vote(leaves bool) (leaver int, err error) {
	o := &p.t.plan.opt
	if o.ranks() == 1 {
		return -1, nil
	}
	own := -1
	if leaves {
		own = o.rank()
	}
	highest, err := p.body.ballot.combine(o.Group, group.Max, "leave the loop", int64(own))
	if err != nil {
		return -1, err
	}
	return int(highest[0]), nil
}
