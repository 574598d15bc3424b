package trainer

import (
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// memory is the memory of a plan: the arena, and pinned host memory on a device with memory of its
// own.
//
//	pinned: | slot 0 | slot 1 | … | outcomes of slots 0, 2, … | outcomes of slots 1, 3, … | offloaded | mirror | copy of the state |
//
// There is an outcome for each objective. The mirror is that of a debugger.
type memory struct {
	plan    *planned
	device  kernels.Device
	unified bool // the device's memory is the host's
	arena   *arena.Arena
	pinned  arena.Memory // nil on unified devices

	// touch reports an access of the host to a device that checks accesses. It is nil for others.
	touch func(span arena.Span, writes bool)
}

// open allocates the memory. After an error, close releases what was allocated.
func (m *memory) open() (err error) {
	if d, ok := m.device.(kernels.HostAccessChecker); ok && !m.unified {
		m.touch = d.Touch
	}
	if m.arena, err = arena.New(m.device, &m.plan.layout, m.plan.opt.Memory); err != nil {
		return err
	}
	if m.unified {
		return nil
	}
	if m.pinned, err = m.device.Pin(m.plan.extraPinnedBytes()); err != nil {
		return fmt.Errorf("pinned memory: %w", err)
	}
	return nil
}

// close frees the memory. It is safe to call twice.
func (m *memory) close() error {
	var errs []error
	if m.pinned != nil {
		errs = append(errs, m.pinned.Free())
		m.pinned = nil
	}
	if m.arena != nil {
		errs = append(errs, m.arena.Close())
	}
	return errors.Join(errs...)
}

// extraPinnedBytes returns the bytes that are pinned now in addition to the arena's own.
func (m *memory) extraPinnedBytes() int64 {
	if m.pinned == nil {
		return 0
	}
	return m.pinned.Size() + m.plan.staging
}

// ref converts a program's reference into one to the arena, for a program on slot i.
func (m *memory) ref(ref arena.Ref, i int) arena.Ref { return m.plan.regions[i].Ref(ref) }

// span returns the device's place of a reference to the arena.
func (m *memory) span(ref arena.Ref) arena.Span {
	return arena.Span{Memory: m.arena.Memory(), Offset: m.arena.Base(ref.Region) + ref.Offset, Size: ref.Size}
}

// hostSpan returns the host's place of a part of slot i, or of its outcome of an objective, given
// as a reference to the arena: the device's place itself on unified devices, else the pinned copy.
func (m *memory) hostSpan(ref arena.Ref, i, objective int) arena.Span {
	if m.unified {
		return m.span(ref)
	}
	// Slots and outcomes have regions of their own in the arena; their pinned copies lie one after
	// another. The two outcomes overlap in the arena, where both end or start with the one status
	// word, and do not overlap here: each is a copy from the end of its own step.
	slotBytes, outcome := m.plan.homes.Bytes(ir.Slot), m.plan.outcome(i)
	off := int64(i)*slotBytes + ref.Offset
	if ref.Region == outcome.Region {
		nth := i%inFlight*m.plan.objectives(compile.Train) + objective
		off = m.plan.slotsBytes() + int64(nth)*outcome.Size + ref.Offset - outcome.Offset
	}
	return arena.Span{Memory: m.pinned, Offset: off, Size: ref.Size}
}

// offloadedSpan returns the place of a program's reference to offloaded memory. ok is false for a
// reference to the arena.
func (m *memory) offloadedSpan(ref arena.Ref) (s arena.Span, ok bool) {
	start := m.plan.slotsBytes() + m.plan.outcomesBytes()
	for _, r := range ir.Offloaded {
		if r == ref.Region {
			return arena.Span{Memory: m.pinned, Offset: start + ref.Offset, Size: ref.Size}, true
		}
		start += m.plan.homes.Bytes(r)
	}
	return arena.Span{}, false
}

// mirror returns the first bytes of the copy of the scratch region, for a debugger.
func (m *memory) mirror(bytes int64) arena.Span {
	p := m.plan
	return arena.Span{Memory: m.pinned, Offset: p.extraPinnedBytes() - p.captureBytes - p.mirrorBytes(), Size: bytes}
}

// place returns the place of a program's reference between steps, offloaded or in the arena.
func (m *memory) place(ref arena.Ref) arena.Span {
	if s, ok := m.offloadedSpan(ref); ok {
		return s
	}
	return m.span(m.ref(ref, 0))
}

// binding returns where the regions of programs on slot i start.
func (m *memory) binding(i int) kernels.Binding {
	b := kernels.Binding{Memory: m.arena.Memory(), Base: m.plan.regions[i].Bases(&m.plan.layout)}
	for _, r := range ir.Offloaded {
		if n := m.plan.homes.Bytes(r); n > 0 {
			if b.Pinned == nil {
				b.Pinned = make(map[arena.Region]arena.Span)
			}
			b.Pinned[r], _ = m.offloadedSpan(arena.Ref{Region: r, Size: n})
		}
	}
	return b
}

// copies returns the uploads from the host's places to the device's of parts of slot i, given as a
// program's references.
func (m *memory) copies(refs []arena.Ref, i int) []kernels.Copy {
	all := make([]kernels.Copy, len(refs))
	for k, r := range refs {
		at := m.ref(r, i)
		all[k] = kernels.Copy{Dst: m.span(at), Src: m.hostSpan(at, i, 0)}
	}
	return all
}

// willRead reports to a device that checks accesses that the host is about to read s.
func (m *memory) willRead(s arena.Span) { m.report(s, false) }

// willWrite reports to a device that checks accesses that the host is about to write s.
func (m *memory) willWrite(s arena.Span) { m.report(s, true) }

func (m *memory) report(s arena.Span, writes bool) {
	if m.touch != nil && s.Memory != nil {
		m.touch(s, writes)
	}
}

// clear sets the homes of a region to zero and waits for it. It enqueues the work on compute.
func (m *memory) clear(r arena.Region, compute arena.Stream) error {
	return m.clearBut(r, compute, func(ir.Part) bool { return false })
}

// clearBut is clear, but leaves the homes that keep selects as they are.
func (m *memory) clearBut(r arena.Region, compute arena.Stream, keep func(ir.Part) bool) error {
	for _, home := range m.plan.homes.Parts(r) {
		if keep(home) {
			continue
		}
		if err := compute.Fill(m.span(m.ref(home.Ref, 0)), 0); err != nil {
			return fmt.Errorf("clear %q: %w", home.Name, err)
		}
	}
	return compute.Sync()
}

// write lets fill set the bytes of a home: in place if the host can write there, else in Go memory,
// from which they are copied.
func (m *memory) write(home ir.Part, fill func(dst []byte) error) error {
	if s, ok := m.offloadedSpan(home.Ref); ok {
		m.willWrite(s)
		return fill(bytesOf(s))
	}
	h, err := m.arena.Handle(m.ref(home.Ref, 0), "initial value")
	if err != nil {
		return err
	}
	if m.unified {
		b, err := h.Bytes()
		if err != nil {
			return err
		}
		return fill(b)
	}
	b := make([]byte, home.Ref.Size)
	if err := fill(b); err != nil {
		return err
	}
	return h.Write(b)
}

// bytesOf returns the bytes of a place that the host can access.
func bytesOf(s arena.Span) []byte { return s.Memory.Bytes()[s.Offset : s.Offset+s.Size] }

// hostTensor is a program's value that the host can read and write between steps, on any device.
type hostTensor interface {
	Read(dst []byte) error
	Write(src []byte) error
}

// tensor returns the value that programs on slot i find at ref. name appears in its errors.
func (m *memory) tensor(ref arena.Ref, i int, name string) (hostTensor, error) {
	if s, ok := m.offloadedSpan(ref); ok {
		return offloaded{m, s, name}, nil
	}
	return m.arena.Handle(m.ref(ref, i), name)
}

// offloaded is a tensor in pinned host memory.
type offloaded struct {
	memory *memory
	span   arena.Span
	name   string
}

func (o offloaded) Read(dst []byte) error {
	if err := o.check(dst); err != nil {
		return err
	}
	o.memory.willRead(o.span)
	copy(dst, bytesOf(o.span))
	return nil
}

func (o offloaded) Write(src []byte) error {
	if err := o.check(src); err != nil {
		return err
	}
	o.memory.willWrite(o.span)
	copy(bytesOf(o.span), src)
	return nil
}

// check returns an error unless b has the size of the tensor.
func (o offloaded) check(b []byte) error {
	if int64(len(b)) != o.span.Size {
		return fmt.Errorf("%w size: %d bytes for %q, which has %d", arena.ErrInvalid, len(b), o.name, o.span.Size)
	}
	return nil
}
