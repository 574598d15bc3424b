package emu

import (
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/internal/devcheck"
)

// program is a list of calls whose places are checked.
type program struct {
	d      *Device
	memory *memory
	pinned *memory // where Pinned regions lie; nil: there are none
	calls  []bound
	pieces []piece
	events int                     // of pieces
	side   *stream                 // for transfers; nil: there are none
	after  []work                  // copies
	sums   map[string]*pendingSums // by label: of calls of groups
	queued int                     // launches that are not done
	closed bool
}

// piece is consecutive calls on one stream, or an event that is recorded or waited for between
// such.
type piece struct {
	kind     kernels.StreamOpKind
	transfer bool // on the stream for transfers
	from, to int  // Enqueue: calls
	event    int
	last     bool // the record after the last transfer
}

// bound is a call with the spans of its operands.
type bound struct {
	kernels.Call
	name    string  // for errors and races
	places  []place // the different places of its operands
	in, out []span
	work    span
}

// place is the span of one or more operands of a call.
type place struct {
	span
	key     kernels.Operand
	in, out bool
}

// Supports returns nil for every operation whose operands fit.
func (d *Device) Supports(op *kernels.Op, attrs any, in, out []kernels.Spec) error {
	if !d.opened() {
		return fmt.Errorf("emu: supports: not opened, use emu.Open: the device is %w", arena.ErrClosed)
	}
	if err := devcheck.Specs(op, attrs, in, out, 0); err != nil {
		return fmt.Errorf("emu: %w", err)
	}
	return nil
}

// Workspace returns 0: references need no workspace.
func (d *Device) Workspace(op *kernels.Op, attrs any, in, out []kernels.Spec) int64 { return 0 }

// Bind checks all calls and returns all mistakes: operands that do not fit their operation, places
// outside the memory, outputs that overlap other operands.
func (d *Device) Bind(calls []kernels.Call, at kernels.Binding) (kernels.Program, error) {
	if err := d.enter("bind"); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	m, ok := at.Memory.(*memory)
	switch {
	case !ok || m.d != d:
		return nil, fmt.Errorf("emu: bind: memory of type %T: %w", at.Memory, ErrForeign)
	case m.freed:
		return nil, fmt.Errorf("emu: bind: %v: %w", m, arena.ErrFreed)
	case m.pinned:
		return nil, fmt.Errorf("emu: bind: %v: %w: calls work on device memory", m, arena.ErrInvalid)
	}
	check := devcheck.Of(at)
	p := &program{d: d, memory: m, calls: make([]bound, len(calls))}
	var errs []error
	for i, c := range calls {
		b := &p.calls[i]
		b.Call = c
		if c.Op == nil {
			errs = append(errs, fmt.Errorf("emu: bind: call %d %q: %w: no operation", i, c.Label, kernels.ErrUnsupported))
			continue
		}
		b.name = fmt.Sprintf("call %d %q (%s)", i, c.Label, c.Op.Name)
		if err := b.bind(d, at, check); err != nil {
			errs = append(errs, fmt.Errorf("emu: bind: %s: %w", b.name, err))
		}
	}
	for _, s := range at.Pinned {
		in, err := d.span(s)
		if err == nil && (!in.m.pinned || p.pinned != nil && p.pinned != in.m) {
			err = fmt.Errorf("%v: %w: regions in pinned memory lie in one block of it", in, arena.ErrInvalid)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("emu: bind: %w", err))
		}
		p.pinned = in.m
	}
	errs = append(errs, p.bindSums()...)
	p.cut(at.StreamSchedule(calls))
	for _, c := range at.After {
		w, err := d.copying(c.Dst, c.Src)
		if err != nil {
			errs = append(errs, fmt.Errorf("emu: bind: copy: %w", err))
		}
		p.after = append(p.after, w)
	}
	if len(errs) > 0 {
		return nil, errors.Join(append(errs, p.closeSums())...)
	}
	if p.events > 0 {
		p.side = d.newStream("transfers")
	}
	d.live.programs[p] = true
	d.ledger.Programs.open()
	return p, nil
}

// cut makes pieces of a schedule: one of each run of calls on one stream.
func (p *program) cut(ops []kernels.StreamOp, events int) {
	p.events = events
	end := 0 // the record after the last transfer
	for _, o := range ops {
		if n := len(p.pieces) - 1; n >= 0 && o.Kind == kernels.Enqueue && p.pieces[n].extends(o) {
			p.pieces[n].to++
			continue
		}
		p.pieces = append(p.pieces, piece{kind: o.Kind, transfer: o.Transfer, from: o.Call, to: o.Call + 1, event: o.Event})
		if o.Transfer && o.Kind == kernels.Record {
			end = len(p.pieces) - 1
		}
	}
	if p.pieces == nil {
		p.pieces = []piece{{kind: kernels.Enqueue}}
	}
	p.pieces[end].last = p.pieces[end].kind == kernels.Record
}

// extends reports whether the call of o follows those of c on the same stream.
func (c piece) extends(o kernels.StreamOp) bool {
	return c.kind == o.Kind && c.transfer == o.Transfer && c.to == o.Call
}

// bind checks b and finds the spans of its operands.
func (b *bound) bind(d *Device, at kernels.Binding, check devcheck.Memory) error {
	if err := d.Supports(b.Op, b.Attrs, kernels.Specs(b.In), kernels.Specs(b.Out)); err != nil {
		return err
	}
	if err := check.Call(&b.Call, 0); err != nil {
		return err
	}
	var err error
	find := func(what string, i int, o kernels.Operand) span {
		s, e := locate(d, at, o.Ref, o.Bytes())
		if e != nil && err == nil {
			err = fmt.Errorf("%s %d, %v: %w", what, i, o.Spec, e)
		}
		return s
	}
	for i, o := range b.In {
		s := find("input", i, o)
		b.in = append(b.in, s)
		b.place(o, s).in = true
	}
	for i, o := range b.Out {
		s := find("output", i, o)
		b.out = append(b.out, s)
		b.place(o, s).out = true
	}
	if err == nil && b.Work.Size > 0 {
		b.work, err = locate(d, at, b.Work, b.Work.Size)
	}
	if err != nil {
		return err
	}
	return b.overlaps()
}

// locate returns the span of a checked reference, of the given length.
func locate(d *Device, at kernels.Binding, r arena.Ref, bytes int64) (span, error) {
	if bytes == 0 { // it has no place
		return d.span(arena.Span{Memory: at.Memory})
	}
	if pinned, ok := at.Pinned[r.Region]; ok {
		return d.span(arena.Span{Memory: pinned.Memory, Offset: pinned.Offset + r.Offset, Size: bytes})
	}
	return d.span(arena.Span{Memory: at.Memory, Offset: at.Base[r.Region] + r.Offset, Size: bytes})
}

// place returns the place of o, a new one if no other operand has it.
func (b *bound) place(o kernels.Operand, s span) *place {
	i := b.find(o)
	if i < 0 {
		i = len(b.places)
		b.places = append(b.places, place{span: s, key: o})
	}
	return &b.places[i]
}

// find returns the index of the place of o, -1 if it has none.
func (b *bound) find(o kernels.Operand) int {
	return slices.IndexFunc(b.places, func(p place) bool {
		return p.key.Ref.Region == o.Ref.Region && p.key.Ref.Offset == o.Ref.Offset && p.key.Bytes() == o.Bytes()
	})
}

// overlaps returns an error for outputs that share bytes with each other, with the workspace, or
// with inputs that the op may not overwrite.
func (b *bound) overlaps() error {
	var errs []error
	for i, o := range b.out {
		for k, p := range b.out[:i] {
			if o.meets(p) {
				errs = append(errs, fmt.Errorf("output %d %v overlaps output %d %v: %w", i, o, k, p, arena.ErrInvalid))
			}
		}
		for k, p := range b.in {
			if o.meets(p) && !b.mayAlias(i, p) {
				errs = append(errs, fmt.Errorf("output %d %v overlaps input %d %v: %w", i, o, k, p, arena.ErrInvalid))
			}
		}
		if o.meets(b.work) {
			errs = append(errs, fmt.Errorf("output %d %v overlaps the workspace %v: %w", i, o, b.work, arena.ErrInvalid))
		}
	}
	for k, p := range b.in {
		if p.meets(b.work) {
			errs = append(errs, fmt.Errorf("input %d %v overlaps the workspace %v: %w", k, p, b.work, arena.ErrInvalid))
		}
	}
	return errors.Join(errs...)
}

// mayAlias reports whether output i may occupy exactly the bytes p of an input.
func (b *bound) mayAlias(i int, p span) bool {
	if u := b.Op.UpdatesFor(b.Attrs); i < len(u) {
		return b.in[u[i]] == p && b.out[i] == p
	}
	if i > 0 {
		return false
	}
	if b.Op.View != nil && p == b.in[0] {
		if delta, ok := b.Op.View(b.Attrs, kernels.Specs(b.In)); ok && b.out[0].lo == p.lo+delta {
			return true
		}
	}
	if b.out[0] != p {
		return false
	}
	for _, k := range b.Op.InPlaceFor(b.Attrs) {
		if int(k) < len(b.in) && b.in[k] == p {
			return true
		}
	}
	return false
}

func (s span) meets(o span) bool {
	return s.m == o.m && s.lo < s.hi && o.lo < o.hi && s.lo < o.hi && o.lo < s.hi
}

// Launch enqueues all calls.
func (p *program) Launch(to arena.Stream) error {
	s, ok := to.(*stream)
	if !ok || s.d != p.d {
		return fmt.Errorf("emu: launch: stream of type %T: %w", to, ErrForeign)
	}
	if err := s.enter("launch"); err != nil {
		return err
	}
	freed := p.freed()
	if p.closed || freed != nil {
		err := fmt.Errorf("emu: stream %q: launch: program: %w", s.name, arena.ErrClosed)
		if !p.closed {
			err = fmt.Errorf("emu: stream %q: launch: %v: %w", s.name, freed, arena.ErrFreed)
		}
		p.d.mu.Unlock()
		return err
	}
	a := p.push(s)
	for _, w := range p.after {
		if s.tl != nil {
			w.timer = newTimer(s, p, kernels.StreamTrack)
		}
		c := s.pushCopy(w)
		a.found = append(a.found, c.found...)
	}
	return s.leave(a)
}

// push enqueues all pieces, and returns their accesses.
func (p *program) push(s *stream) (all access) {
	all.d = p.d
	tokens := make([]*token, p.events)
	for _, c := range p.pieces {
		on := s
		if c.transfer {
			on = p.side
		}
		switch c.kind {
		case kernels.Record:
			tokens[c.event] = on.record(c.last)
		case kernels.Wait:
			on.waitFor(tokens[c.event])
		default:
			w := work{kind: doLaunch, program: p, from: c.from, to: c.to}
			if c.transfer && s.tl != nil {
				w.timer = newTimer(s, p, kernels.TransferTrack)
			}
			a := on.push(w)
			for i := range p.calls[c.from:c.to] {
				p.calls[c.from+i].addTo(&a)
			}
			all.found = append(all.found, a.found...)
		}
	}
	return all
}

// addTo adds the accesses of the call to a.
func (b *bound) addTo(a *access) {
	for _, in := range b.in {
		a.read(in, b.name)
	}
	for _, out := range b.out {
		a.write(out, b.name)
	}
	if b.work.m != nil {
		a.write(b.work, b.name)
	}
}

// freed returns a block that the program uses and that was freed, nil if there is none.
func (p *program) freed() *memory {
	if p.memory.freed {
		return p.memory
	}
	if p.pinned != nil && p.pinned.freed {
		return p.pinned
	}
	for _, w := range p.after {
		for _, m := range []*memory{w.dst.m, w.src.m} {
			if m.freed {
				return m
			}
		}
	}
	return nil
}

// Close releases the program. If a launch of it is still queued, the program stays and the error
// wraps ErrInUse.
func (p *program) Close() error {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	if p.queued > 0 && !p.closed {
		return fmt.Errorf("emu: close program: %w: sync its streams first", ErrInUse)
	}
	p.release()
	return p.closeSums()
}

func (p *program) release() {
	if !p.closed {
		p.closed = true
		delete(p.d.live.programs, p)
		p.d.ledger.Programs.Live--
		if p.side != nil {
			_ = p.side.close() // its errors are those of the streams that waited for it
		}
	}
}

// execute runs some of the calls. No lock is held.
func (p *program) execute(s *stream, w *work) error {
	for i := w.from; i < w.to; i++ {
		b := &p.calls[i]
		begin := w.timer.now()
		s.pause()
		err := p.d.fault("run call")
		if err == nil {
			err = p.runCall(s, i, w.timer)
		}
		w.timer.add(i, begin, 0)
		if err != nil {
			return &CallError{Stream: s.name, Index: w.index, Call: b.name, Err: err}
		}
	}
	p.d.mu.Lock()
	if w.to == len(p.calls) {
		p.d.traffic.Launches++
	}
	p.d.traffic.Calls += int64(w.to - w.from)
	for _, b := range p.calls[w.from:w.to] {
		switch {
		case b.Op == kernels.Prefetch && b.in[0].m.pinned:
			p.d.traffic.Prefetched += b.Out[0].Bytes()
		case b.Op == kernels.Writeback && b.out[0].m.pinned:
			p.d.traffic.WrittenBack += b.Out[0].Bytes()
		}
	}
	p.d.mu.Unlock()
	return nil
}

// run executes one call on private copies of its operands, so that it can access no other memory.
func (b *bound) run(s *stream) error {
	sums := make([]uint32, len(b.places))
	for i, p := range b.places {
		data := s.private(i, p.hi-p.lo)
		if p.in {
			s.d.transfer(data, p.bytes())
			sums[i] = crc32.ChecksumIEEE(data)
		} else {
			set(data, poisonByte)
		}
	}
	err := kernels.Run(b.Call, func(o kernels.Operand) []byte {
		i := b.find(o)
		return s.private(i, b.places[i].hi-b.places[i].lo)
	})
	if err != nil {
		return err
	}
	for i, p := range b.places {
		data := s.private(i, p.hi-p.lo)
		if p.out {
			s.d.transfer(p.bytes(), data)
		} else if crc32.ChecksumIEEE(data) != sums[i] {
			return fmt.Errorf("wrote into its input %v: %w", p.span, arena.ErrInvalid)
		}
	}
	return nil
}

// private returns the stream's buffer number i with the given length.
func (s *stream) private(i int, bytes int64) []byte {
	for len(s.copies) <= i {
		s.copies = append(s.copies, nil)
	}
	if int64(cap(s.copies[i])) < bytes {
		s.copies[i] = make([]byte, bytes)
	}
	return s.copies[i][:bytes:bytes]
}
