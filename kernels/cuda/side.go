//go:build gpu && cgo

package cuda

import (
	"errors"

	"gorgonia.org/cu"
)

// sideStream is the second stream of a program, for transfers, with the events that order all its
// streams. A program that is a graph needs it only while the graph is captured.
type sideStream struct {
	stream cu.Stream // NoStream: there are no transfers
	events []cu.Event
}

// open makes n events and, if there are transfers, a stream. After an error, close releases what was
// made.
func (s *sideStream) open(n int, transfers bool) (err error) {
	if transfers {
		if s.stream, err = cu.MakeStream(cu.NonBlocking); err != nil {
			return fromCu("cuStreamCreate", err)
		}
	}
	for range n {
		e, err := cu.MakeEvent(cu.DisableTiming)
		if err != nil {
			return fromCu("cuEventCreate", err)
		}
		s.events = append(s.events, e)
	}
	return nil
}

// wait waits for enqueued transfers after a launch that failed before the program's stream waited
// for them. Other calls return the device's errors.
func (s *sideStream) wait() {
	if s.stream != cu.NoStream {
		_ = s.stream.Synchronize()
	}
}

// close releases stream and events; work in flight continues. Safe to call twice.
func (s *sideStream) close() error {
	var errs []error
	for i := range s.events {
		errs = append(errs, fromCu("cuEventDestroy", cu.DestroyEvent(&s.events[i])))
	}
	s.events = nil
	if s.stream != cu.NoStream {
		errs = append(errs, fromCu("cuStreamDestroy", s.stream.Destroy()))
	}
	return errors.Join(errs...)
}
