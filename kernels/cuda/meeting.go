//go:build gpu && cgo

package cuda

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/group"
)

// meeting lets all ranks launch the same programs: an operation of the carrying group, on the host,
// before each launch of a program with collectives. A rank that does not come, or that is about to
// launch another program, is found by the group, which knows who is busy, late or dead; once all have
// come, only the devices can hang.
type meeting struct {
	comm   *Comm
	all    group.Operation
	what   string
	closed atomic.Bool
}

// meeting prepares the launches of a program, nil without collectives.
func (s *sums) meeting() (*meeting, error) {
	if s.comm == nil || len(s.what) == 0 {
		return nil, nil
	}
	m := &meeting{comm: s.comm, what: s.label()}
	var err error
	if m.all, err = s.comm.Group.Prepare(group.Op{Kind: group.Barrier, Label: m.what}); err != nil {
		return nil, err
	}
	s.comm.bound.Add(1)
	return m, nil
}

// label identifies the collectives in errors: ranks that launch programs with others are named.
func (s *sums) label() string {
	h := fnv.New32a()
	for _, w := range s.what {
		fmt.Fprintln(h, w)
	}
	return fmt.Sprintf("launch of %d collectives %08x", len(s.what), h.Sum32())
}

// begin waits until all ranks are about to launch the program on a stream.
func (m *meeting) begin(st *stream) error {
	if m == nil {
		return nil
	}
	if err := group.Run(m.all); err != nil {
		return fmt.Errorf("cuda: %s: %w", m.what, err)
	}
	st.joins(m.comm)
	return nil
}

// end is called after the launch, with its error. After that the other ranks would wait for this one:
// it gives up.
func (m *meeting) end(st *stream, err error) error {
	if m == nil {
		return err
	}
	failed := cmp.Or(err, st.err)
	if failed == nil {
		m.comm.mu.Lock()
		failed = st.dev.note(m.comm.mark(st.handle, m.what))
		m.comm.mu.Unlock()
	}
	if failed != nil {
		m.comm.Abort(failed)
	}
	if st.err != nil {
		return nil // Sync returns it
	}
	return failed
}

// close releases what the launches need. Safe to call twice.
func (m *meeting) close() error {
	if m == nil || !m.closed.CompareAndSwap(false, true) {
		return nil
	}
	m.comm.bound.Add(-1)
	return m.all.Close()
}

// joins notes that work on the stream depends on a communicator. The mutex of the stream is held.
func (s *stream) joins(c *Comm) {
	var all []*Comm
	if p := s.comms.Load(); p != nil {
		all = *p
	}
	if !slices.Contains(all, c) {
		all = append(slices.Clip(all), c)
		s.comms.Store(&all)
	}
}

// brokenOf returns why one of the communicators does not work any more: what they were to write is
// undefined.
func brokenOf(comms *[]*Comm) error {
	if comms == nil {
		return nil
	}
	for _, c := range *comms {
		if err := c.broken(); err != nil {
			return err
		}
	}
	return nil
}
