package group

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/arena"
)

// The classes of errors of a broken group, for errors.Is. The error is a [*RankError].
var (
	// ErrDied: the process of a rank ended without Close.
	ErrDied = errors.New("rank died")
	// ErrStuck: a rank did not start an operation within Options.Limit.
	ErrStuck = errors.New("rank is stuck")
	// ErrAborted: a rank called Group.Abort.
	ErrAborted = errors.New("rank gave up")
	// ErrMismatch: ranks started different operations, or a rank closed its membership too early.
	ErrMismatch = errors.New("ranks started different operations")
	// ErrSignalled: the launcher, or a user, ended this process by SIGTERM.
	ErrSignalled = errors.New("ended by SIGTERM")
)

// ErrNotStarted: Wait was called for an operation that is not in flight.
var ErrNotStarted = errors.New("operation is not started")

// RankError reports why a group is broken. It wraps one of the classes above and, in the process of
// the rank that gave up, the cause.
type RankError struct {
	Rank  int    // the rank that is to blame, the lowest one of several; -1 if it is not known
	Ranks []int  // all ranks that are to blame, ascending; empty if not known
	Op    string // the operation that waited, such as `sum float32[1024] "gradients 3"`; may be ""
	Cause string // what is known about the reason; may be ""
	Err   error  // ErrDied, ErrStuck, ErrAborted, ErrMismatch or ErrSignalled
	Own   error  // the cause of Abort, in the process of the rank that gave up; else nil
}

func (e *RankError) Error() string {
	var b strings.Builder
	switch len(e.Ranks) {
	case 0:
		b.WriteString("group")
	case 1:
		fmt.Fprintf(&b, "rank %d", e.Ranks[0])
	default:
		b.WriteString("ranks " + strings.Trim(fmt.Sprint(e.Ranks), "[]"))
	}
	fmt.Fprintf(&b, ": %s", class(e.Err))
	if e.Op != "" {
		fmt.Fprintf(&b, " in %s", e.Op)
	}
	if e.Cause != "" {
		fmt.Fprintf(&b, ": %s", e.Cause)
	}
	return b.String()
}

// class returns the words of a class of errors after the rank.
func class(err error) string {
	switch err {
	case ErrDied:
		return "died"
	case ErrStuck:
		return "is stuck"
	case ErrAborted:
		return "gave up"
	case ErrMismatch:
		return "started another operation"
	}
	return err.Error()
}

// Unwrap returns the class and, if there is one, this rank's own cause.
func (e *RankError) Unwrap() []error {
	if e.Own != nil {
		return []error{e.Err, e.Own}
	}
	return []error{e.Err}
}

// OpError reports an operation or an option that cannot be right. It wraps arena.ErrOption.
type OpError struct {
	Op     string // the operation, or what was called
	Reason string // what is wrong and what to do
}

func (e *OpError) Error() string { return "group: " + e.Op + ": " + e.Reason }

// Unwrap returns arena.ErrOption.
func (e *OpError) Unwrap() error { return arena.ErrOption }

// The exit codes of ExitCode.
const (
	ExitOwn       = 1   // this rank failed by itself
	ExitMismatch  = 65  // the ranks do not run the same program
	ExitDied      = 70  // another rank died or gave up: its own message has the cause
	ExitStuck     = 75  // a rank did not come in time
	ExitSignalled = 143 // the launcher, or a user, sent SIGTERM
)

// ExitCode returns the status with which a rank's program ends after err: 0 for nil, and one of the
// constants above. An error that wraps the cause of this rank's own Abort is ExitOwn.
func ExitCode(err error) int {
	var e *RankError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e) && e.Own != nil:
		return ExitOwn
	case errors.Is(err, ErrSignalled):
		return ExitSignalled
	case errors.Is(err, ErrStuck):
		return ExitStuck
	case errors.Is(err, ErrMismatch):
		return ExitMismatch
	case errors.Is(err, ErrDied), errors.Is(err, ErrAborted):
		return ExitDied
	}
	return ExitOwn
}

// Aborted returns the error of a group that a rank of it gave up. Engines call it on that rank.
func Aborted(rank int, op string, cause error) *RankError {
	e := &RankError{Rank: rank, Ranks: []int{rank}, Op: op, Err: ErrAborted, Own: cause}
	if cause != nil {
		e.Cause = cause.Error()
	}
	return e
}

// Stuck returns the error of a group in which ranks did not start an operation in time. Engines
// call it.
func Stuck(late []int, op string, limit time.Duration) *RankError {
	e := &RankError{Rank: -1, Ranks: late, Op: op, Err: ErrStuck,
		Cause: fmt.Sprintf("no progress within %v: if that is normal, raise Limit or mark long work with Busy", limit)}
	if len(late) > 0 {
		e.Rank = late[0]
	}
	return e
}
