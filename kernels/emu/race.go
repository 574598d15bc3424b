package emu

import (
	"errors"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
)

// ErrRace is wrapped by every error about a race: see [Race].
var ErrRace = errors.New("unordered accesses")

// Race is two accesses to the same bytes, at least one of them a write, that no event or Sync
// orders. It is found from the order of the calls alone, whatever the streams really did.
type Race struct {
	First, Second Access
	Memory        string // the block, such as "device memory 2"
	Offset, Size  int64  // bytes of Memory that both access
}

// Access is one side of a race.
type Access struct {
	Stream string // "host" for the host
	Index  int64  // of the work in its stream, from 1; 0 for the host
	Call   string // "copy", "fill", "touch", or a call of a program
	Write  bool
}

// String describes the access, for example: write by "copies" (work 3, copy).
func (a Access) String() string {
	verb := "read"
	if a.Write {
		verb = "write"
	}
	if a.Index == 0 {
		return verb + " by the host"
	}
	return fmt.Sprintf("%s by stream %q (work %d, %s)", verb, a.Stream, a.Index, a.Call)
}

func (r *Race) Error() string {
	return fmt.Sprintf("emu: %v [%d:%d]: %v and %v: %v: record an event after the first and wait for it before the second",
		r.Memory, r.Offset, r.Offset+r.Size, r.First, r.Second, ErrRace)
}

// Unwrap returns ErrRace.
func (r *Race) Unwrap() error { return ErrRace }

// Races returns the races found so far: one for each pair of calls and block of memory.
func (d *Device) Races() []error {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.check.races)
}

// Touch announces that the host is about to read or write a part of pinned memory. The checker
// compares the access with the work that was enqueued and that the host, in any goroutine, has not
// waited for. See [kernels.HostAccessChecker].
func (d *Device) Touch(s arena.Span, write bool) {
	if !d.opened() {
		return
	}
	d.mu.Lock()
	host := &d.check.host
	host.clock = host.clock.tick(0)
	a := access{d: d, clock: host.clock, at: at{stream: "host", time: host.clock[0]}}
	p, err := d.span(s)
	if err == nil && !p.m.pinned {
		err = fmt.Errorf("%v is not the host's: %w", p, ErrForeign)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("emu: touch: %w", err)
		d.check.races = append(d.check.races, err)
		a.found = append(a.found, err)
	case write:
		a.write(p, "touch")
	default:
		a.read(p, "touch")
	}
	d.mu.Unlock()
	a.reportRaces()
}

// clock is a vector clock: for the host (0) and each stream, the time up to which its work is known
// to be done before. The idea is that of Lamport and of Mattern; FastTrack (PLDI 2009) is the model
// for the shadow below.
type clock []uint64

func (c clock) copy() clock { return slices.Clone(c) }

func (c clock) at(who int32) uint64 {
	if int(who) < len(c) {
		return c[who]
	}
	return 0
}

func (c clock) tick(who int32) clock {
	c[who]++
	return c
}

// join merges o into c: what is ordered before either is ordered before c.
func (c *clock) join(o clock) {
	for len(*c) < len(o) {
		*c = append(*c, 0)
	}
	for i, t := range o {
		(*c)[i] = max((*c)[i], t)
	}
}

// at identifies an access in the shadow.
type at struct {
	who    int32
	time   uint64 // of who's clock
	index  int64
	stream string
	call   string
}

// before reports whether a is ordered before an access of who at clock c.
func (a at) before(who int32, c clock) bool { return a.who == who || a.time <= c.at(a.who) }

func (a at) side(write bool) Access {
	return Access{Stream: a.stream, Index: a.index, Call: a.call, Write: write}
}

// checker is the part of the race checker that belongs to the whole device.
type checker struct {
	host  struct{ clock clock }
	races []error
	seen  map[pair]bool
}

type pair struct {
	memory        int
	first, second Access
}

// access collects the accesses of one piece of work, or of the host.
type access struct {
	d     *Device
	clock clock
	at    at
	found []error
}

func (a *access) read(s span, call string) {
	a.at.call = call
	s.m.shadow.touch(s, a, false)
}

func (a *access) write(s span, call string) {
	a.at.call = call
	s.m.shadow.touch(s, a, true)
}

// against reports a race with an earlier access o if nothing orders it.
func (a *access) against(o at, wasWrite, write bool, s span) {
	if o.before(a.at.who, a.clock) {
		return
	}
	r := &Race{First: o.side(wasWrite), Second: a.at.side(write), Memory: s.m.String(), Offset: s.lo, Size: s.hi - s.lo}
	key := pair{s.m.id, r.First, r.Second}
	key.first.Index, key.second.Index = 0, 0
	c := &a.d.check
	if c.seen == nil {
		c.seen = make(map[pair]bool)
	}
	if c.seen[key] {
		return
	}
	c.seen[key] = true
	c.races = append(c.races, r)
	a.found = append(a.found, r)
}

// reportRaces calls Options.OnRace with the races found. It is called without the lock.
func (a *access) reportRaces() {
	if a.d.opts.OnRace == nil {
		return
	}
	for _, err := range a.found {
		a.d.opts.OnRace(err)
	}
}

// shadow keeps, for each byte of a block, the last write and the reads since.
//
// Invariant: segments are sorted by lo, the first starts at 0, and each ends where the next one
// starts.
type shadow struct {
	size     int64
	segments []segment
}

type segment struct {
	lo    int64
	wrote at
	reads []at // since wrote, none ordered before another
}

func newShadow(size int64) shadow { return shadow{size: size, segments: []segment{{}}} }

// cut makes a segment start at x and returns its index, the number of segments for the end.
func (h *shadow) cut(x int64) int {
	i, found := slices.BinarySearchFunc(h.segments, x, func(s segment, x int64) int {
		switch {
		case s.lo < x:
			return -1
		case s.lo > x:
			return 1
		}
		return 0
	})
	if found || x == h.size {
		return i
	}
	s := h.segments[i-1]
	s.lo = x
	s.reads = slices.Clone(s.reads)
	h.segments = slices.Insert(h.segments, i, s)
	return i
}

func (h *shadow) end(i int) int64 {
	if i+1 < len(h.segments) {
		return h.segments[i+1].lo
	}
	return h.size
}

// touch checks an access to s against earlier ones, and keeps it.
func (h *shadow) touch(s span, a *access, write bool) {
	if s.lo == s.hi {
		return
	}
	i := h.cut(s.lo)
	j := h.cut(s.hi)
	for k := i; k < j; k++ {
		g := &h.segments[k]
		part := span{s.m, g.lo, h.end(k)}
		a.against(g.wrote, true, write, part)
		if write {
			for _, r := range g.reads {
				a.against(r, false, true, part)
			}
			continue
		}
		g.reads = slices.DeleteFunc(g.reads, func(r at) bool { return r.before(a.at.who, a.clock) })
		g.reads = append(g.reads, a.at)
	}
	if write {
		h.segments[i] = segment{lo: s.lo, wrote: a.at}
		h.segments = slices.Delete(h.segments, i+1, j)
		return
	}
	h.merge(i, j)
}

// merge joins equal neighbours among segments i-1 to j.
func (h *shadow) merge(i, j int) {
	for k := min(j, len(h.segments)-1); k >= max(i, 1); k-- {
		p, q := &h.segments[k-1], &h.segments[k]
		if p.wrote == q.wrote && slices.Equal(p.reads, q.reads) {
			h.segments = slices.Delete(h.segments, k, k+1)
		}
	}
}
