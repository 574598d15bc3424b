package cuda

import (
	"fmt"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
)

// Collective is a collective operation in place on device memory, for Comm.Enqueue. Kind, Type, Root
// and the size of Data must be the same on all ranks.
type Collective struct {
	Kind group.Kind // all but Barrier, with the same results; where a NaN is, Max is undefined
	Type arena.DType
	Data arena.Span // in device memory, aligned to its elements
	Root int        // the rank whose data Broadcast sends, else 0
}

// NCCLError is the error of a call of NCCL, or of a collective that fails on the device.
type NCCLError struct {
	Call string // "ncclAllReduce"
	Code int    // ncclResult_t
	Text string // what NCCL says about it
}

func (e *NCCLError) Error() string {
	return fmt.Sprintf("%s: %s (%d): set NCCL_DEBUG=WARN to see more", e.Call, e.Text, e.Code)
}

// JoinError is the error of Device.Join, on all ranks alike, if a rank cannot take part in NCCL. The
// group still works. It wraps arena.ErrOption.
type JoinError struct {
	Ranks  []int  // that are to blame, ascending
	Reason string // what is wrong and what to do
	Own    error  // the cause, on the rank to blame; else nil
}

func (e *JoinError) Error() string {
	noun := "rank"
	if len(e.Ranks) > 1 {
		noun = "ranks"
	}
	return fmt.Sprintf("cuda: join: %s %s: %s", noun, strings.Trim(fmt.Sprint(e.Ranks), "[]"), e.Reason)
}

// Unwrap returns arena.ErrOption and, on the rank to blame, the cause.
func (e *JoinError) Unwrap() []error {
	if e.Own != nil {
		return []error{arena.ErrOption, e.Own}
	}
	return []error{arena.ErrOption}
}

// HangError is the cause with which a rank gives up (group.Group.Abort) because its device has not
// ended the collectives of a launch that all ranks made. It wraps group.ErrStuck.
type HangError struct {
	Op    string        // what was launched
	Limit time.Duration // that it was given
}

func (e *HangError) Error() string {
	return fmt.Sprintf("%s: NCCL has not ended it within %v, although all ranks have launched it: see NCCL_DEBUG=INFO, or raise Limit", e.Op, e.Limit)
}

// Unwrap returns group.ErrStuck.
func (e *HangError) Unwrap() error { return group.ErrStuck }

// leastNCCL is the first version with communicators that do not block, as ncclGetVersion codes it.
const leastNCCL = 21400

// ncclVersion is a version as people write it.
func ncclVersion(code int) string {
	if code < 10000 {
		return fmt.Sprintf("%d.%d.%d", code/1000, code/100%10, code%100)
	}
	return fmt.Sprintf("%d.%d.%d", code/10000, code/100%100, code%100)
}

// errOldNCCL is the error of a library that is too old.
func errOldNCCL(version int) error {
	return fmt.Errorf("NCCL is %s: it must be %s or newer: install it and add its folder to LD_LIBRARY_PATH", ncclVersion(version), ncclVersion(leastNCCL))
}

// introduction is what a rank tells the others before NCCL is used.
type introduction struct {
	Error   string // why it cannot take part
	GPU     string
	Version int
	ID      []byte // of the communicator, by rank 0
}

// compareIntroductions returns an error if the ranks cannot form a communicator, the same on each.
func compareIntroductions(all []introduction) *JoinError {
	for rank, x := range all {
		if x.Error != "" {
			return &JoinError{Ranks: []int{rank}, Reason: x.Error}
		}
	}
	for rank, x := range all {
		if v := all[0].Version; x.Version != v {
			return &JoinError{Ranks: []int{rank}, Reason: fmt.Sprintf("NCCL is %s, that of rank 0 %s: use one version on all ranks", ncclVersion(x.Version), ncclVersion(v))}
		}
		for other := range rank {
			if all[other].GPU == x.GPU {
				return &JoinError{Ranks: []int{other, rank}, Reason: "they share a GPU: open another one on each, by Options.Device or CUDA_VISIBLE_DEVICES"}
			}
		}
	}
	return nil
}
