//go:build gpu && cgo

package cuda

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
)

// Enqueue enqueues a collective on s, after the work so far. All ranks enqueue the same collectives,
// and launch the same programs, in the same order; the limit of Join counts from this call on. A
// collective that cannot be right is a *group.OpError. Call it from one goroutine at a time.
func (c *Comm) Enqueue(s arena.Stream, op Collective) error {
	st, ok := s.(*stream)
	if !ok || st.dev != c.dev {
		return fmt.Errorf("cuda: enqueue: the stream is not of this device")
	}
	if err := op.check(c.Size()); err != nil {
		return err
	}
	m, err := c.dev.span(op.Data)
	if err != nil {
		return fmt.Errorf("cuda: enqueue: %w", err)
	}
	if m.host != nil {
		return op.wrong("Data is pinned memory: use memory of the device")
	}
	ok, err = st.begin("enqueue")
	if !ok {
		return err
	}
	defer st.end()
	if op.Data.Size == 0 {
		return nil
	}
	x := collective{comm: c, kind: op.Kind, elem: op.Type, count: op.Data.Size / op.Type.Size(), data: m.at + address(op.Data.Offset), root: op.Root, first: true, last: true}
	if err := c.lock(); err != nil {
		return fmt.Errorf("cuda: enqueue: %w", err)
	}
	defer c.mu.Unlock()
	st.joins(c)
	if err := c.issue(&x, st.handle, x.String()); err != nil {
		return fmt.Errorf("cuda: enqueue: %w", err)
	}
	return nil
}

// check returns a *group.OpError for a collective that a group of ranks cannot run.
func (c Collective) check(ranks int) error {
	switch parts := int64(ranks) * c.Type.Size(); {
	case c.Kind < group.Sum || c.Kind > group.ReduceScatter:
		return c.wrong("NCCL has no %v: use Sum, Max, Broadcast, AllGather or ReduceScatter", c.Kind)
	case c.Type.Size() == 0:
		return c.wrong("NCCL has no type %v", c.Type)
	case c.Root < 0 || c.Root >= ranks:
		return c.wrong("Root is %d: use 0 to %d", c.Root, ranks-1)
	case c.Data.Offset%c.Type.Size() != 0 || c.Data.Size%c.Type.Size() != 0:
		return c.wrong("Data has %d bytes from byte %d on: both must be multiples of an element's %d", c.Data.Size, c.Data.Offset, c.Type.Size())
	case (c.Kind == group.AllGather || c.Kind == group.ReduceScatter) && c.Data.Size%parts != 0:
		return c.wrong("Data has %d bytes, which %d ranks cannot share equally: pad it to a multiple of %d", c.Data.Size, ranks, parts)
	}
	return nil
}

func (c Collective) wrong(format string, args ...any) error {
	return &group.OpError{Op: fmt.Sprintf("%v of %v", c.Kind, c.Type), Reason: fmt.Sprintf(format, args...)}
}
