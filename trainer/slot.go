package trainer

import (
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/ir"
)

// slot is the host's side of one of the two slots: where a batch waits for its step, and where the
// results of that step arrive.
type slot struct {
	index int

	// Views of host memory: the slot's bytes on unified devices, else their pinned copies.
	host     map[string][]byte // by field: where the loader writes
	controls []float64         // nil if nothing trains
	status   []int32           // the status word, as it was when the step ended
	results  []byte            // region Results

	// Places of the views, for devices that check accesses.
	fields       []arena.Span // of host
	controlsSpan arena.Span
	resultsSpan  arena.Span
	outcome      arena.Span // of results and status

	// copied passes when the upload is done: the host may write again. ready passes when the step
	// is done and its results are on the host: both may be overwritten.
	copied, ready arena.Event

	// writable waits for copied, and reports to a device that checks accesses that the host
	// writes. writableOnce only reports, for the first batch of a pass; it is nil if the device
	// does not check.
	writable, writableOnce dataloader.Waiter

	// The step that uses the slot.
	program  *boundProgram
	averages bool // the step moves the averages of parameters
	batch    dataloader.Batch
	indices  []int32 // of the batch's samples
	rate     float64 // learning rate of the update, after the schedule; set in training
}

// newSlot makes slot i, for batches of up to rows. After an error, close releases what was made.
func newSlot(m *memory, i, rows int) (s *slot, err error) {
	s = &slot{index: i, host: make(map[string][]byte), indices: make([]int32, 0, rows)}
	for _, e := range []*arena.Event{&s.copied, &s.ready} {
		if *e, err = m.device.NewEvent(); err != nil {
			return s, fmt.Errorf("event: %w", err)
		}
	}
	// The slot's region holds one field after another, and the controls vector among them, which the
	// loader does not fill.
	homes := &m.plan.homes
	for _, home := range homes.Parts(ir.Slot) {
		span := m.hostSpan(m.ref(home.Ref, i), i)
		if home.Name == ir.ControlsName {
			s.controls, s.controlsSpan = dataloader.View[float64](bytesOf(span)), span
		} else {
			s.host[home.Name] = bytesOf(span)
			s.fields = append(s.fields, span)
		}
	}
	s.writable = s.copied
	if m.touch != nil {
		s.writable, s.writableOnce = &slotWaiter{m, s, s.copied}, &slotWaiter{m, s, nil}
	}
	if home, ok := homes.Find(ir.Guard, ir.GuardName); ok {
		s.status = dataloader.View[int32](bytesOf(m.hostSpan(m.ref(home.Ref, i), i)))
	}
	s.resultsSpan = m.hostSpan(m.ref(arena.Ref{Region: ir.Results, Size: homes.Bytes(ir.Results)}, i), i)
	s.results = bytesOf(s.resultsSpan)
	s.outcome = m.hostSpan(m.plan.outcome(i), i)
	return s, nil
}

// close releases the slot's events, and drops the views of memory that is about to be freed.
func (s *slot) close() error {
	if s == nil {
		return nil
	}
	s.host, s.controls, s.status, s.results = nil, nil, nil, nil
	var errs []error
	for _, e := range []arena.Event{s.copied, s.ready} {
		if e != nil {
			errs = append(errs, e.Close())
		}
	}
	return errors.Join(errs...)
}

// number returns a result of one element, such as the loss. It is valid once ready has passed.
func (s *slot) number(v ir.Value) float64 {
	b := s.results[v.Ref.Offset : v.Ref.Offset+v.Ref.Size]
	if v.Spec.Type == arena.Float32 {
		return float64(dataloader.View[float32](b)[0])
	}
	return dataloader.View[float64](b)[0]
}

// slotWaiter waits until the host may write to a slot's fields, and reports to a device that checks
// accesses that it does.
type slotWaiter struct {
	memory *memory
	slot   *slot
	copied arena.Event // nil: nothing is being uploaded
}

// Sync waits for the upload of the fields' present contents.
func (w *slotWaiter) Sync() error {
	if w.copied != nil {
		if err := w.copied.Sync(); err != nil {
			return err
		}
	}
	for _, f := range w.slot.fields {
		w.memory.willWrite(f)
	}
	return nil
}

// loaderSlots returns the slots as a loader fills them, with fields in the dataset's order.
func loaderSlots(slots []*slot, fields []dataloader.Field) []dataloader.Slot {
	all := make([]dataloader.Slot, len(slots))
	for i, s := range slots {
		all[i].Ready = s.writableOnce
		for _, f := range fields {
			all[i].Fields = append(all[i].Fields, s.host[f.Name])
		}
	}
	return all
}
