package trainer

import (
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// streams are the queues of a trainer's work on its device. Events order their work on the device:
//
//	upload    copy batch 0 ─ record ─ copy batch 1 ─ record ─ …
//	compute                   wait ─ step 0         wait ─ step 1 ─ …
type streams struct {
	upload  arena.Stream // copies of batches to the slots
	compute arena.Stream // programs
}

// uploadStream is the name of the stream of uploads.
const uploadStream = "copy"

// open makes the streams. After an error, close releases what was made.
func (s *streams) open(dev kernels.Device) (err error) {
	if s.upload, err = dev.NewStream(uploadStream); err != nil {
		return fmt.Errorf("copy stream: %w", err)
	}
	if s.compute, err = dev.NewStream("compute"); err != nil {
		return fmt.Errorf("compute stream: %w", err)
	}
	return nil
}

// enqueueCopies enqueues uploads. Their destinations are free: the host has waited for the step
// before last, which read them.
func (s *streams) enqueueCopies(copies []kernels.Copy) error {
	for _, c := range copies {
		if err := s.upload.Copy(c.Dst, c.Src); err != nil {
			return err
		}
	}
	return nil
}

// drain waits for everything that is enqueued. Afterwards the events of slots are free of errors.
func (s *streams) drain(slots []*slot) error {
	var errs []error
	for _, stream := range [...]arena.Stream{s.upload, s.compute} {
		if err := stream.Sync(); err != nil {
			errs = append(errs, err)
			_ = stream.Sync() // if the call failed and not the work, the work is still in flight
		}
	}
	if errs == nil {
		return nil
	}
	// An event keeps the errors of the work before it. Recorded again, it does not pass them on to
	// later steps.
	for _, slot := range slots {
		_ = errors.Join(s.upload.Record(slot.copied), s.compute.Record(slot.ready))
		for _, o := range slot.others {
			_ = s.compute.Record(o.ready)
		}
	}
	return errors.Join(errs...)
}

// close releases the streams.
func (s *streams) close() error {
	var errs []error
	for _, stream := range []arena.Stream{s.upload, s.compute} {
		if stream != nil {
			errs = append(errs, stream.Close())
		}
	}
	return errors.Join(errs...)
}
