package arena

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// GuardBytes is the number of bytes that [Guarded] adds after each buffer, so that a [Sentry] can
// find writes past its end.
const GuardBytes = 64

const (
	poisonByte = 0xFF // repeated, it is a NaN in float32 and float64
	guardByte  = 0xA5
)

var (
	poison = bytes.Repeat([]byte{poisonByte}, 4096)
	guards = bytes.Repeat([]byte{guardByte}, 4096)
)

// Guarded returns a copy of p in which every buffer is longer by GuardBytes: solve this problem,
// and pass it to NewSentry. The values stay at the start of their buffers; guard bytes follow them.
func Guarded(p Problem) Problem {
	p.Buffers = slices.Clone(p.Buffers)
	for i := range p.Buffers {
		if p.Buffers[i].Size >= 0 { // Solve reports a negative size
			p.Buffers[i].Size += GuardBytes
		}
	}
	return p
}

// Sentry checks scratch memory while a program runs and names the instruction that writes outside
// its buffers. It is for debugging: after every instruction it reads all bytes that do not belong
// to the values of live buffers.
//
//	│ value   │ guard │ value    │ guard │ poison: no live buffer      │
//	╰ live buffer ────╯╰ live buffer ────╯╰ reads give NaN, writes are found ╯
//
// Call Begin at the start of a step, and After when each instruction is done. A Sentry is not safe
// for concurrent use.
type Sentry struct {
	memory  []byte
	buffers []watched // with a live range, sorted by offset, then start
	next    int32     // the instruction that runs next
	begun   bool
	live    []*watched // scratch of After: the live buffers, sorted by offset
}

// watched is a buffer and its guard.
type watched struct {
	name       string
	start, end int32
	off        int64 // bytes
	guard      int64 // where the guard starts
	top        int64 // where the next buffer may start
}

// NewSentry returns a sentry for memory, in which plan places the buffers of p. p must come from
// Guarded. NewSentry checks the plan.
func NewSentry(p Problem, plan Plan, memory []byte) (*Sentry, error) {
	if err := Check(p, plan); err != nil {
		return nil, fmt.Errorf("sentry: %w", err)
	}
	if int64(len(memory)) < plan.Bytes {
		return nil, fmt.Errorf("sentry: %w memory: %d bytes for a plan of %d", ErrInvalid, len(memory), plan.Bytes)
	}
	s := &Sentry{memory: memory}
	for i, b := range p.Buffers {
		if b.Size < GuardBytes {
			return nil, fmt.Errorf("sentry: %w buffer %q: %d bytes are too few for a guard: use Guarded", ErrInvalid, b.Name, b.Size)
		}
		if b.Start == b.End {
			continue
		}
		off := plan.Offsets[i]
		s.buffers = append(s.buffers, watched{
			name: Part{Owner: b.Owner, Name: b.Name}.label(), start: b.Start, end: b.End,
			off: off, guard: off + b.Size - GuardBytes, top: off + b.Reserved(),
		})
	}
	slices.SortFunc(s.buffers, func(a, b watched) int {
		return cmp.Or(cmp.Compare(a.off, b.off), cmp.Compare(a.start, b.start))
	})
	s.live = make([]*watched, 0, len(s.buffers))
	return s, nil
}

// Begin starts a step: it poisons all memory and writes the guards of the buffers that are live at
// instruction 0.
func (s *Sentry) Begin() {
	fill(s.memory, poison)
	s.next, s.begun = 0, true
	s.arm(0)
}

// After checks the memory when instruction i, labelled call, is done. It returns an [*OverrunError]
// unless the guards of live buffers and the poison between them are unchanged. Then it poisons the
// buffers whose live range ends with i and writes the guards of those that start at i+1. Call it
// once for each instruction, in order.
func (s *Sentry) After(i int32, call string) error {
	if !s.begun || i != s.next {
		return fmt.Errorf("sentry: %w order: After of instruction %d (%q), want %d: call Begin for each step and After for each instruction",
			ErrInvalid, i, call, s.next)
	}
	s.live = s.live[:0]
	for k := range s.buffers {
		if b := &s.buffers[k]; b.start <= i && i < b.end {
			s.live = append(s.live, b)
		}
	}
	var free int64
	for _, b := range s.live {
		if at := mismatch(s.memory[b.guard:b.top], guards); at >= 0 {
			return &OverrunError{Call: call, Instruction: i, Buffer: b.name, Offset: b.guard + at - b.off, Size: b.guard - b.off}
		}
		if at := mismatch(s.memory[free:b.off], poison); at >= 0 {
			return s.stray(i, call, free+at)
		}
		free = b.top
	}
	if at := mismatch(s.memory[free:], poison); at >= 0 {
		return s.stray(i, call, free+at)
	}
	for _, b := range s.live {
		if b.end == i+1 {
			fill(s.memory[b.off:b.top], poison)
		}
	}
	s.next++
	s.arm(s.next)
	return nil
}

// arm writes the guards of the buffers that start at instruction i.
func (s *Sentry) arm(i int32) {
	for _, b := range s.buffers {
		if b.start == i {
			fill(s.memory[b.guard:b.top], guards)
		}
	}
}

// stray returns the error of a write to byte at, which is in no live buffer. It names the last
// buffer that used the byte, else the live buffer below it.
func (s *Sentry) stray(i int32, call string, at int64) error {
	e := &OverrunError{Call: call, Instruction: i, Offset: at, Dead: true}
	var owner *watched
	for k := range s.buffers {
		b := &s.buffers[k]
		if b.off <= at && at < b.top && b.end <= i && (owner == nil || b.end > owner.end) {
			owner = b
		}
	}
	if owner == nil {
		for _, b := range s.live {
			if b.top <= at {
				owner, e.Dead = b, false
			}
		}
	}
	if owner != nil {
		e.Buffer, e.Offset, e.Size = owner.name, at-owner.off, owner.guard-owner.off
	}
	return e
}

// fill fills b with a repeated pattern.
func fill(b, pattern []byte) {
	for len(b) > 0 {
		b = b[copy(b, pattern):]
	}
}

// mismatch returns the first index at which b differs from the repeated pattern, -1 if there is
// none.
func mismatch(b, pattern []byte) int64 {
	for at := 0; at < len(b); at += len(pattern) {
		part := b[at:min(at+len(pattern), len(b))]
		if bytes.Equal(part, pattern[:len(part)]) {
			continue
		}
		for k := range part {
			if part[k] != pattern[k] {
				return int64(at + k)
			}
		}
	}
	return -1
}
