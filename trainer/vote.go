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

// ballot is the vote of the ranks of a group after each step of a loop: the maximum of one number.
type ballot struct {
	op     group.Operation
	leaver []int32 // rank + 1 of the one that leaves, 0 for none
}

// vote returns the highest rank whose body has left the loop after this step, -1 for none. Every rank
// votes after each call of the body.
func (p *epochPass) vote(leaves bool) (leaver int, err error) {
	o := &p.t.plan.opt
	if o.ranks() == 1 {
		return -1, nil
	}
	b := p.body.ballot
	if b == nil {
		memory := make([]byte, 4)
		b = &ballot{leaver: dataloader.View[int32](memory)}
		if b.op, err = o.Group.Prepare(group.Op{Kind: group.Max, Type: arena.Int32, Data: memory, Label: "leave the loop"}); err != nil {
			return -1, err
		}
		p.body.ballot = b
	}
	b.leaver[0] = 0
	if leaves {
		b.leaver[0] = int32(o.rank()) + 1
	}
	err = group.Run(b.op)
	return int(b.leaver[0]) - 1, err
}

// close releases the operation of the votes.
func (b *ballot) close() {
	if b != nil {
		_ = b.op.Close() // of a broken group it may be in flight
	}
}
