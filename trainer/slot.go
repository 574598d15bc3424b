package trainer

import (
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
)

// slot is the host's side of one of the slots: where a batch waits for its step, and where the
// results of that step arrive. A model with several objectives has a slot for each, which share the
// batch: they have controls, results and steps of their own.
type slot struct {
	index     int
	objective int
	others    []*slot // of the objectives 1, 2, …; nil in these

	// Views of host memory: the slot's bytes on unified devices, else their pinned copies.
	host     map[string][]byte // by field: where the loader writes
	controls []float64         // nil if nothing trains
	groups   []groupStep       // controls of groups that have their own
	status   []int32           // the status word, as it was when the step ended
	verdict  []int32           // what all ranks agreed on; nil without a group
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
	averages bool     // the step moves the averages of parameters
	uploads  *uploads // of the step
	first    bool     // no other step of this batch comes before
	last     bool     // no other step of this batch follows
	batch    dataloader.Batch
	rows     int     // of the batch, those of all ranks in training
	indices  []int   // of the batch's samples
	rate     float64 // learning rate of the update, after the schedule; set in training
}

// newSlot makes slot i, for batches of up to rows. After an error, close releases what was made.
func newSlot(m *memory, i, rows int) (s *slot, err error) {
	s = &slot{index: i, host: make(map[string][]byte)}
	if s.copied, err = m.device.NewEvent(); err != nil {
		return s, fmt.Errorf("event: %w", err)
	}
	// The slot's region holds one field after another, and controls vectors among them, which the
	// loader does not fill.
	for _, home := range m.plan.homes.Parts(ir.Slot) {
		if !ir.IsControls(home.Name) {
			span := m.hostSpan(m.ref(home.Ref, i), i, 0)
			s.host[home.Name] = bytesOf(span)
			s.fields = append(s.fields, span)
		}
	}
	s.writable = s.copied
	if m.touch != nil {
		s.writable, s.writableOnce = &slotWaiter{m, s, s.copied}, &slotWaiter{m, s, nil}
	}
	for k := 1; k < m.plan.objectives(compile.Train); k++ {
		o := *s // with the same batch
		o.objective, o.others = k, nil
		s.others = append(s.others, &o)
		if err := o.openStep(m, rows); err != nil {
			return s, err
		}
	}
	return s, s.openStep(m, rows)
}

// openStep makes what the slot has for the steps of its objective.
func (s *slot) openStep(m *memory, rows int) (err error) {
	s.indices = make([]int, 0, rows)
	if s.ready, err = m.device.NewEvent(); err != nil {
		return fmt.Errorf("event: %w", err)
	}
	homes := &m.plan.homes
	at := func(ref arena.Ref) arena.Span { return m.hostSpan(m.ref(ref, s.index), s.index, s.objective) }
	if home, ok := homes.Find(ir.Slot, m.plan.controlsName(s.objective)); ok {
		s.controlsSpan = at(home.Ref)
		s.controls = dataloader.View[float64](bytesOf(s.controlsSpan))
	}
	for g := range m.plan.opt.Groups {
		if home, ok := homes.Find(ir.Slot, m.plan.groupControls(s.objective, g)); ok {
			span := at(home.Ref)
			s.groups = append(s.groups, groupStep{g, dataloader.View[float64](bytesOf(span)), span})
		}
	}
	if home, ok := homes.Find(ir.Guard, ir.GuardName); ok {
		s.status = dataloader.View[int32](bytesOf(at(home.Ref)))
	}
	if home, ok := homes.Find(ir.Guard, ir.VerdictName); ok {
		s.verdict = dataloader.View[int32](bytesOf(at(home.Ref)))
	}
	s.resultsSpan = at(arena.Ref{Region: ir.Results, Size: homes.Bytes(ir.Results)})
	s.results = bytesOf(s.resultsSpan)
	s.outcome = m.hostSpan(m.plan.outcome(s.index), s.index, s.objective)
	return nil
}

// of returns the slot of an objective that shares the batch of s, which is that of the first one.
func (s *slot) of(objective int) *slot {
	if objective == 0 {
		return s
	}
	return s.others[objective-1]
}

// close releases the slot's events, and drops the views of memory that is about to be freed.
func (s *slot) close() error {
	if s == nil {
		return nil
	}
	var errs []error
	for _, o := range append(s.others, s) {
		o.host, o.controls, o.groups, o.status, o.verdict, o.results = nil, nil, nil, nil, nil, nil
		if o.ready != nil {
			errs = append(errs, o.ready.Close())
		}
	}
	if s.copied != nil {
		errs = append(errs, s.copied.Close())
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
