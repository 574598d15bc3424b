package group

import (
	"fmt"
	"unsafe"

	"github.com/evenkeel/evenkeel/group/internal/reduce"
)

// Check returns an *OpError unless the operation is right for a group of size ranks: its kind, type,
// length, alignment and root. Engines call it in Prepare.
func (op Op) Check(size int) error {
	bad := func(format string, args ...any) error {
		return &OpError{Op: op.String(), Reason: fmt.Sprintf(format, args...)}
	}
	if op.Kind < Sum || op.Kind > Barrier {
		return bad("its kind is unknown: use Sum, Max, Broadcast, AllGather, ReduceScatter or Barrier")
	}
	if op.Kind == Barrier {
		if op.Type != 0 || len(op.Data) != 0 || op.Root != 0 {
			return bad("a barrier has no type, no data and no root: leave Type, Data and Root out")
		}
		return nil
	}
	width := int(op.Type.Size())
	switch {
	case width == 0:
		return bad("its type is unknown: set Type to one of arena's")
	case (op.Kind == Sum || op.Kind == ReduceScatter) && !reduce.Adds(op.Type):
		return bad("%s is not summed: use float32, float64, int32 or int64", op.Type)
	case op.Kind == Max && !reduce.Compares(op.Type):
		return bad("%s is not compared: use float64, int32 or int64", op.Type)
	case len(op.Data)%width != 0:
		return bad("%d bytes are not a multiple of the %d bytes of an element", len(op.Data), width)
	case op.Kind.parts() && len(op.Data)/width%size != 0:
		return bad("%d elements do not divide into %d equal parts: pad them to %d",
			len(op.Data)/width, size, (len(op.Data)/width+size-1)/size*size)
	case uintptr(unsafe.Pointer(unsafe.SliceData(op.Data)))%uintptr(width) != 0:
		return bad("its data are not aligned to the %d bytes of an element", width)
	case op.Kind == Broadcast && (op.Root < 0 || op.Root >= size):
		return bad("root %d is not a rank: use 0 to %d", op.Root, size-1)
	case op.Kind != Broadcast && op.Root != 0:
		return bad("only a broadcast has a root: leave Root out")
	}
	return nil
}

// Same reports whether two ranks' descriptions are the same operation.
func (op Op) Same(other Op) bool {
	return op.Kind == other.Kind && op.Type == other.Type && len(op.Data) == len(other.Data) && op.Root == other.Root &&
		op.Label == other.Label
}

// Mismatch returns the error of ranks that started different operations, in order of rank. It names
// the ranks that differ from most others; if no operation is that of most, those that differ from
// the first rank's. Engines call it.
func Mismatch(started []string) *RankError {
	count := map[string]int{}
	usual := started[0]
	for _, s := range started {
		count[s]++
	}
	for _, s := range started {
		if count[s] > count[usual] {
			usual = s
		}
	}
	e := &RankError{Op: usual, Err: ErrMismatch}
	for r, s := range started {
		if s != usual {
			e.Ranks = append(e.Ranks, r)
		}
	}
	if len(e.Ranks) > 0 {
		e.Rank = e.Ranks[0]
		e.Cause = "it started " + started[e.Rank]
	}
	return e
}

// overlap reports whether two pieces of memory share bytes.
func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	x, y := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return x < y+uintptr(len(b)) && y < x+uintptr(len(a))
}
