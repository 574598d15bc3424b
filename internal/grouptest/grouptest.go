// Package grouptest wraps a rank of a group for tests: [Watch] sees each operation before it starts,
// and can let it fail or stall.
package grouptest

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/evenkeel/evenkeel/group"
)

// ErrFault is the error of an operation that Watch lets fail.
var ErrFault = errors.New("fault of the engine")

// Fault is what becomes of an operation on one rank.
type Fault uint8

// The faults.
const (
	None  Fault = iota
	Fail        // Prepare or Start fails; the other ranks wait for this one
	Lose        // Start succeeds and Wait fails; the other ranks get their results
	Stall       // Start does nothing, and Wait waits until the group breaks
)

// Call is a call of Group.Prepare or of Operation.Start.
type Call struct {
	Number int // of this rank, from 0
	Start  bool
	Op     group.Op
}

// Watch returns g, of which each call of Prepare and Start goes to fault, which returns what becomes of
// it. For Prepare, all but None are Fail.
func Watch(g group.Group, fault func(Call) Fault) group.Group {
	return &watched{Group: g, fault: fault}
}

// watched is a rank whose operations are watched.
type watched struct {
	group.Group
	fault func(Call) Fault
	calls atomic.Int64
}

// call returns the fault of the next call.
func (w *watched) call(start bool, op group.Op) Fault {
	return w.fault(Call{Number: int(w.calls.Add(1) - 1), Start: start, Op: op})
}

func (w *watched) Prepare(op group.Op) (group.Operation, error) {
	if w.call(false, op) != None {
		return nil, ErrFault
	}
	o, err := w.Group.Prepare(op)
	if err != nil {
		return nil, err
	}
	return &operation{Operation: o, w: w, op: op}, nil
}

// operation is an operation that is watched.
type operation struct {
	group.Operation
	w     *watched
	op    group.Op
	fault Fault // of the start in flight
}

func (o *operation) Start() error {
	o.fault = o.w.call(true, o.op)
	switch o.fault {
	case Fail:
		return ErrFault
	case Stall:
		return nil
	}
	return o.Operation.Start()
}

func (o *operation) Wait() error {
	switch o.fault {
	case Stall:
		for o.w.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		return o.w.Err()
	case Lose:
		return errors.Join(ErrFault, o.Operation.Wait())
	}
	return o.Operation.Wait()
}
