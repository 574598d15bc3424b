package trainer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// slot is one of the two staging places of a batch, with the place of its step's results.
type slot struct {
	index    int
	host     map[string][]byte // by field: where the loader writes
	controls []float64         // host view, nil where nothing trains
	guard    []int32           // host view of the status word, as it was when the step ended
	results  []byte            // host view of region Results

	fields       []arena.Span // of host, where it is pinned
	controlsSpan arena.Span
	outcome      arena.Span // of guard and results

	copied arena.Event       // the upload is done: the host may write again
	free   dataloader.Waiter // copied, and a note of what is written then
	first  dataloader.Waiter // that note alone, for the first batch of a pass; nil where nobody asks
	ready  arena.Event       // the step is done, and its results are on the host: both places may be overwritten

	// The step on it.
	program *pair
	batch   dataloader.Batch
	indices []int32 // of the batch's samples
}

// pair is a program bound for each slot.
type pair struct {
	key
	ir    *ir.Program
	exec  [2]kernels.Program
	debug [2]*debugger
	early [2][]kernels.Copy // uploads before the step before is done, where its outcome decides what this one is told
	late  [2][]kernels.Copy // uploads right before the launch; nil on unified devices, as early
	bytes int64             // of samples that a step brings to the device
	loss  ir.Value
	right ir.Value
	guess bool // it counts right outputs

	updates bool // parameters, at the end of its step: not where all are frozen
}

// openSlots makes the pinned memory, where there is such, the events, and the host's views.
func (t *Trainer) openSlots() (err error) {
	if !t.unified {
		if t.pinned, err = t.device.Pin(t.beside()); err != nil {
			return fmt.Errorf("pinned memory: %w", err)
		}
	}
	for i := range t.slot {
		s := &slot{index: i, host: make(map[string][]byte), indices: make([]int32, 0, max(t.opt.Batch, t.opt.EvalBatch))}
		t.slot[i] = s
		for _, e := range []*arena.Event{&s.copied, &s.ready} {
			if *e, err = t.device.NewEvent(); err != nil {
				return fmt.Errorf("event: %w", err)
			}
		}
		for _, p := range t.homes.Parts(ir.Slot) {
			h := t.host(t.at(p.Ref, i), i)
			if p.Name == ir.ControlsName {
				s.controls, s.controlsSpan = dataloader.View[float64](view(h)), h
			} else {
				s.host[p.Name] = view(h)
				s.fields = append(s.fields, h)
			}
		}
		s.free = s.copied
		if t.touch != nil {
			s.free, s.first = &turn{t, s, s.copied}, &turn{t, s, nil}
		}
		if p, ok := t.homes.Find(ir.Guard, ir.GuardName); ok {
			s.guard = dataloader.View[int32](view(t.host(t.at(p.Ref, i), i)))
		}
		s.results = view(t.host(t.at(arena.Ref{Region: ir.Results, Size: t.homes.Bytes(ir.Results)}, i), i))
		s.outcome = t.host(t.outcome(i), i)
	}
	return nil
}

// turn is the event after which the host may write to a slot's fields. It tells a device that checks accesses that it does so.
type turn struct {
	t      *Trainer
	s      *slot
	copied arena.Event // nil: nothing is being uploaded
}

// Sync waits for the upload of what the fields hold.
func (w *turn) Sync() error {
	if w.copied != nil {
		if err := w.copied.Sync(); err != nil {
			return err
		}
	}
	for _, f := range w.s.fields {
		w.t.announce(f, true)
	}
	return nil
}

// announce tells a device that checks accesses what the host is about to read or write.
func (t *Trainer) announce(s arena.Span, write bool) {
	if t.touch != nil && s.Memory != nil {
		t.touch(s, write)
	}
}

// beside returns what is pinned beside the arena, in bytes: twins of what the host writes and reads, and what is offloaded.
func (b *build) beside() int64 {
	return 2*(b.homes.Bytes(ir.Slot)+b.outcome(0).Size) + b.offloadedBytes()
}

// offloadedBytes returns what is kept in pinned host memory in place of the arena, in bytes.
func (b *build) offloadedBytes() (n int64) {
	for _, r := range ir.Offloaded {
		n += b.homes.Bytes(r)
	}
	return n
}

// host returns the host's place of a part of slot i, or of its outcome: that itself on unified devices, else its pinned twin.
//
//	pinned: | slot 0 | slot 1 | outcome 0 | outcome 1 | offloaded parameters | offloaded state |
func (t *Trainer) host(ref arena.Ref, i int) arena.Span {
	if t.unified {
		return t.span(ref)
	}
	slotBytes, outcome := t.homes.Bytes(ir.Slot), t.outcome(i)
	off := int64(i)*slotBytes + ref.Offset
	if ref.Region == outcome.Region {
		off = 2*slotBytes + int64(i)*outcome.Size + ref.Offset - outcome.Offset
	}
	return arena.Span{Memory: t.pinned, Offset: off, Size: ref.Size}
}

// offloaded returns the place of a reference to pinned host memory, and false for one to the arena.
func (t *Trainer) offloaded(ref arena.Ref) (arena.Span, bool) {
	at := 2 * (t.homes.Bytes(ir.Slot) + t.outcome(0).Size)
	for _, r := range ir.Offloaded {
		if r == ref.Region {
			return arena.Span{Memory: t.pinned, Offset: at + ref.Offset, Size: ref.Size}, true
		}
		at += t.homes.Bytes(r)
	}
	return arena.Span{}, false
}

// view returns the bytes of a place of the host.
func view(s arena.Span) []byte { return s.Memory.Bytes()[s.Offset : s.Offset+s.Size] }

// span returns the place of a reference of the layout in the arena.
func (t *Trainer) span(ref arena.Ref) arena.Span {
	return arena.Span{Memory: t.arena.Memory(), Offset: t.arena.Base(ref.Region) + ref.Offset, Size: ref.Size}
}

// pinnedBytes returns what is pinned beside the arena.
func (t *Trainer) pinnedBytes() int64 {
	if t.pinned == nil {
		return 0
	}
	return t.pinned.Size() + t.staged
}

// bind makes the program that k names ready to launch on either slot.
func (t *Trainer) bind(k key) error {
	p := &pair{key: k, ir: t.programs[k]}
	if err := t.bindSlots(p); err != nil {
		return errors.Join(fmt.Errorf("bind %s: %w", p.ir.Name, err), p.close())
	}
	t.bound[k] = p
	p.loss, _ = p.ir.Result(compile.LossName)
	p.right, p.guess = p.ir.Result(compile.CorrectName)
	p.updates = k.mode == compile.Train && k.window.Updates() && len(p.ir.Trained) > 0
	for _, v := range slotValues(p.ir) {
		if v.Name != ir.ControlsName && v.Name != ir.IndexField {
			p.bytes += v.Ref.Size
		}
	}
	return nil
}

// bindSlots binds p for each slot that it runs on.
func (t *Trainer) bindSlots(p *pair) (err error) {
	for i := range p.exec {
		if i > 0 && p.key.mode == compile.Predict { // which waits for each batch
			break
		}
		at := t.binding(i)
		if t.opt.Debug {
			p.debug[i], err = t.newDebugger(p.ir, at)
		} else {
			if !t.unified {
				at.After = []kernels.Copy{{Dst: t.slot[i].outcome, Src: t.span(t.outcome(i))}}
			}
			p.exec[i], err = t.device.Bind(p.ir.Calls(), at)
		}
		if err != nil {
			return err
		}
		if !t.unified {
			p.early[i], p.late[i] = t.transfers(p, i)
		}
	}
	return nil
}

// transfers prepares the upload of what a program reads of slot i: all of it late, but for training with a scaled loss, where only the controls
// are.
func (t *Trainer) transfers(p *pair, i int) (early, late []kernels.Copy) {
	before, after := t.places(p.key, p.ir)
	return t.copiesOf(before, i), t.copiesOf(after, i)
}

// places returns the places that transfers are of.
func (b *build) places(k key, p *ir.Program) (early, late []arena.Ref) {
	vs := slotValues(p)
	if k.mode != compile.Train || !b.opt.scaled() {
		return nil, together(vs)
	}
	told := slices.IndexFunc(vs, func(v ir.Value) bool { return v.Name == ir.ControlsName })
	return together(slices.Concat(vs[:told], vs[told+1:])), together(vs[told : told+1])
}

// binding returns where the regions of programs lie on slot i.
func (t *Trainer) binding(i int) kernels.Binding {
	at := kernels.Binding{Memory: t.arena.Memory(), Base: t.regions[i].Bases(&t.layout)}
	for _, r := range ir.Offloaded {
		if n := t.homes.Bytes(r); n > 0 {
			if at.Pinned == nil {
				at.Pinned = make(map[arena.Region]arena.Span)
			}
			at.Pinned[r], _ = t.offloaded(arena.Ref{Region: r, Size: n})
		}
	}
	return at
}

// copiesOf returns the uploads to places of slot i.
func (t *Trainer) copiesOf(refs []arena.Ref, i int) []kernels.Copy {
	ts := make([]kernels.Copy, len(refs))
	for k, r := range refs {
		at := t.at(r, i)
		ts[k] = kernels.Copy{Dst: t.span(at), Src: t.host(at, i)}
	}
	return ts
}

// together returns the places of values of a slot. Those with nothing but padding between them, as of full batches, are one.
func together(vs []ir.Value) []arena.Ref {
	slices.SortFunc(vs, func(a, b ir.Value) int { return cmp.Compare(a.Ref.Offset, b.Ref.Offset) })
	var refs []arena.Ref
	for _, v := range vs {
		if n := len(refs) - 1; n >= 0 && v.Ref.Offset-(refs[n].Offset+refs[n].Size) < arena.Align {
			refs[n].Size = v.Ref.Offset + v.Ref.Size - refs[n].Offset
		} else {
			refs = append(refs, v.Ref)
		}
	}
	return refs
}

// slotValues returns what a program reads of the slot, each place once: several of its values may name the same one.
func slotValues(p *ir.Program) []ir.Value {
	var vs []ir.Value
	for _, v := range p.Values {
		if v.Home && v.Ref.Region == ir.Slot && !slices.ContainsFunc(vs, func(o ir.Value) bool { return o.Ref == v.Ref }) {
			vs = append(vs, v)
		}
	}
	return vs
}

func (p *pair) close() error {
	var errs []error
	for i := range p.exec {
		if p.exec[i] != nil {
			errs = append(errs, p.exec[i].Close())
		}
		if p.debug[i] != nil {
			errs = append(errs, p.debug[i].close())
		}
	}
	return errors.Join(errs...)
}

func (s *slot) close() error {
	if s == nil {
		return nil
	}
	var errs []error
	for _, e := range []arena.Event{s.copied, s.ready} {
		if e != nil {
			errs = append(errs, e.Close())
		}
	}
	return errors.Join(errs...)
}

// number returns a result of one element.
func (s *slot) number(v ir.Value) float64 {
	b := s.results[v.Ref.Offset : v.Ref.Offset+v.Ref.Size]
	if v.Spec.Type == arena.Float32 {
		return float64(dataloader.View[float32](b)[0])
	}
	return dataloader.View[float64](b)[0]
}

// enqueue uploads what is left of the slot where it has a twin, and launches the program, which ends with copies of what the host reads.
func (t *Trainer) enqueue(s *slot, p *pair) error {
	if !t.unified {
		if err := errors.Join(t.bring(p.late[s.index]), t.copies.Record(s.copied)); err != nil {
			return fmt.Errorf("upload: %w", err)
		}
		if err := t.compute.Wait(s.copied); err != nil {
			return err
		}
	}
	return t.launch(p, s.index)
}

// bring enqueues copies of a batch: the rows of each field, and the controls. The device's slot is free: the host has waited for
// the step before last, which read it.
func (t *Trainer) bring(copies []kernels.Copy) error {
	for _, c := range copies {
		if err := t.copies.Copy(c.Dst, c.Src); err != nil {
			return err
		}
	}
	return nil
}

// launch enqueues the program of p on slot i.
func (t *Trainer) launch(p *pair, i int) error {
	if t.opt.Debug {
		return p.debug[i].launch(t.compute)
	}
	return p.exec[i].Launch(t.compute)
}

// drain waits for everything that is enqueued, after which no step is in flight.
func (t *Trainer) drain() error {
	t.inFlight = 0
	var errs []error
	for _, s := range [...]arena.Stream{t.copies, t.compute} {
		if err := s.Sync(); err != nil {
			errs = append(errs, err)
			_ = s.Sync() // where the call failed rather than the work, that is still under way
		}
	}
	if errs == nil {
		return nil
	}
	// Events keep the errors of the work before them: recorded anew, they do not pass them on to later steps.
	for _, s := range t.slot {
		_ = errors.Join(t.copies.Record(s.copied), t.compute.Record(s.ready))
	}
	return errors.Join(errs...)
}

// finish counts a step that succeeded, or whose update was skipped.
func (t *Trainer) finish(s *slot, skipped bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.uploaded.Add(s.program.bytes)
	if p := s.program; p.mode == compile.Train {
		t.trained++
		if p.updates && !skipped {
			t.updates++
		}
		if p.updates && t.opt.scaled() {
			t.scaling = t.opt.LossScale.Next(t.scaling, skipped)
		}
	}
	t.last = kept{program: s.program, slot: s.index}
}
