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

// tally combines one number of each rank of a group, again and again. The zero value has no operation
// yet.
type tally struct {
	op     group.Operation
	number []int32
}

// combine returns the sum or the maximum of the own numbers of all ranks, which all pass the same kind
// and label.
func (c *tally) combine(g group.Group, kind group.Kind, label string, own int) (_ int, err error) {
	if c.op == nil {
		memory := make([]byte, 4)
		if c.op, err = g.Prepare(group.Op{Kind: kind, Type: arena.Int32, Data: memory, Label: label}); err != nil {
			return 0, err
		}
		c.number = dataloader.View[int32](memory)
	}
	c.number[0] = int32(own)
	err = group.Run(c.op)
	return int(c.number[0]), err
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
	return p.body.ballot.combine(o.Group, group.Max, "leave the loop", own)
}
