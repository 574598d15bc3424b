package group

import (
	"errors"
	"fmt"
	"time"

	"github.com/evenkeel/evenkeel/arena"
)

// Group is one rank's membership in a group of ranks. Prepare and the operations belong to one
// goroutine at a time; the other methods may be called from any goroutine at any time.
type Group interface {
	// Rank is the number of this rank, from 0 to Size-1.
	Rank() int
	// Size is the number of ranks, at least 1.
	Size() int
	// String returns the engine and its version, such as "local" or "Open MPI 4.1.4".
	String() string
	// Prepare makes an operation, which may run many times. Nothing is sent, so ranks may prepare in
	// different orders. A bad Op is an *OpError; a closed group returns arena.ErrClosed. The memory
	// of op.Data stays the caller's and must stay valid until the operation is closed.
	Prepare(op Op) (Operation, error)
	// Busy marks this rank as doing something long between operations, such as a compilation or a
	// checkpoint, until done is called: the time does not count towards the limit of the others'
	// waits. Calls may nest. what is named if the rank dies meanwhile.
	Busy(what string) (done func())
	// Abort breaks the group because this rank gives up: pending and later operations of all ranks
	// return a *RankError with this rank and the cause, which wraps ErrAborted. Only the first cause
	// of a group counts.
	Abort(cause error)
	// Err returns why the group is broken, nil while it works.
	Err() error
	// Close ends the membership. A rank that closes with operations in flight, or that others still
	// need, breaks the group. A second call does nothing.
	Close() error
}

// Operation is a collective operation on fixed memory: every rank starts it, and it completes on
// each. All ranks start the same operations in the same order. Several may be in flight; each at
// most once at a time. Start and Wait make no Go objects.
type Operation interface {
	// Start enqueues the operation and returns at once. Until Wait returns, nobody else may use the
	// data. Started twice it returns arena.ErrBusy, and after Close arena.ErrClosed.
	Start() error
	// Wait returns when the started operation is complete, or with the *RankError of a broken group.
	// Without Start it returns ErrNotStarted. After an error the data are undefined.
	Wait() error
	// Close releases the operation. In flight it returns arena.ErrBusy; a second call does nothing.
	Close() error
}

// Timed is what an Operation also is whose engine notes when it completes, which may be long before
// Wait is called. An operation that is not Timed completes in Wait.
type Timed interface {
	// Completed is when the last start completed on this rank. It is valid after Wait has returned
	// without an error.
	Completed() time.Time
}

// Kind is a kind of operation.
type Kind uint8

// The kinds of operations. All work in place on Op.Data, of n elements.
const (
	// Sum replaces the data by the sum over all ranks. Types: Float32, Float64, and Int32 and Int64,
	// which wrap around.
	Sum Kind = iota + 1
	// Max replaces the data by the greatest of all ranks. NaN is greater than all numbers, and 0 is
	// greater than -0. Types: Float64, Int32, Int64.
	Max
	// Broadcast replaces the data by those of rank Op.Root. All types.
	Broadcast
	// AllGather exchanges Size equal parts of the data: before, part Rank holds this rank's
	// contribution; afterwards part r holds that of rank r. All types.
	AllGather
	// ReduceScatter replaces part Rank of Size equal parts by the sum over all ranks. The other parts
	// keep what this rank had there. Types as Sum.
	ReduceScatter
	// Barrier waits until all ranks have started it. It has no type and no data.
	Barrier
)

// String returns the name of the kind, such as "all-gather".
func (k Kind) String() string {
	names := [...]string{"", "sum", "max", "broadcast", "all-gather", "reduce-scatter", "barrier"}
	if int(k) < len(names) && k > 0 {
		return names[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// parts reports whether the data are cut into a part for each rank.
func (k Kind) parts() bool { return k == AllGather || k == ReduceScatter }

// Op describes an operation. Kind, Type, Root, Label and the length of Data must be the same on all
// ranks; if they differ when the operation starts, it returns a *RankError that wraps ErrMismatch.
type Op struct {
	Kind Kind
	Type arena.DType // of the elements of Data; 0 for Barrier
	Data []byte      // aligned to its elements; it may be empty. Data of local ranks do not overlap.
	Root int         // the rank whose data Broadcast sends, else 0
	// Label names the operation in errors. Ranks compare it, so a label for each use finds mistakes.
	Label string
}

// String returns kind, type, number of elements and label: `sum float32[1024] "gradients 3"`.
func (op Op) String() string {
	text := op.Kind.String()
	if size := op.Type.Size(); size > 0 {
		text += fmt.Sprintf(" %s[%d]", op.Type, int64(len(op.Data))/size)
	}
	if op.Kind == Broadcast {
		text += fmt.Sprintf(" from rank %d", op.Root)
	}
	if op.Label != "" {
		text += fmt.Sprintf(" %.60q", op.Label)
	}
	return text
}

// Options are those of every engine. The zero value is a good default.
type Options struct {
	// Limit is the longest time that an operation waits for a rank that has not started it, without
	// the time in which a rank is busy (Group.Busy). Default: 10 minutes.
	Limit time.Duration
	// Strict sums in the order of the ranks, which gives the same bits on every engine. Default:
	// the fastest order that the engine has. Local always sums so; other engines send more bytes.
	Strict bool
}

// DefaultLimit is the limit of an operation if Options.Limit is 0.
const DefaultLimit = 10 * time.Minute

// Check returns the options with defaults filled in, or an *OpError for a negative limit. Engines
// call it.
func (o Options) Check() (Options, error) {
	if o.Limit < 0 {
		return o, &OpError{Op: "open", Reason: fmt.Sprintf("Limit is %v: it must not be negative; 0 is %v", o.Limit, DefaultLimit)}
	}
	if o.Limit == 0 {
		o.Limit = DefaultLimit
	}
	return o, nil
}

// Run starts the operation and waits for it.
func Run(o Operation) error {
	if err := o.Start(); err != nil {
		return err
	}
	return o.Wait()
}

// Once prepares an operation, runs it and closes it.
func Once(g Group, op Op) error {
	o, err := g.Prepare(op)
	if err != nil {
		return err
	}
	return errors.Join(Run(o), o.Close())
}
