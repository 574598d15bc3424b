package arena

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// GuardBytes is the least number of bytes between a buffer's payload and its neighbour, where [Guarded] has asked for them.
const GuardBytes = 64

const (
	poisonByte = 0xFF // four of them are a NaN in float32, eight in float64
	guardByte  = 0xA5
)

var (
	poison = bytes.Repeat([]byte{poisonByte}, 4096)
	guards = bytes.Repeat([]byte{guardByte}, 4096)
)

// Guarded returns p with every buffer longer by GuardBytes: the problem to solve, and to give to NewSentry, where
// writes outside of buffers are to be found. Payloads stay at the start of their buffers.
func Guarded(p Problem) Problem {
	p.Buffers = slices.Clone(p.Buffers)
	for i := range p.Buffers {
		if p.Buffers[i].Size >= 0 { // what is wrong stays so, for Solve to say
			p.Buffers[i].Size += GuardBytes
		}
	}
	return p
}

// Sentry watches scratch memory while a program runs, call by call, and names the call that writes where it must not.
// It is for debugging: every call costs a look at all bytes that are not payload of live buffers.
//
//	│ payload │ guard │ payload  │ guard │ poison: nobody's now │
//	╰ live: anything ╯╰ live ───────────╯╰ whoever reads it gets NaN, whoever writes is found ╯
//
// Begin a step, then run a call, ask After, run the next, ask After. It is not for several goroutines at once.
type Sentry struct {
	memory  []byte
	buffers []watched // that are live at some time, by offset, then start
	next    int32     // the instruction that runs next
	begun   bool
	live    []*watched // scratch of After: by offset
}

// watched is a buffer under watch.
type watched struct {
	name       string
	start, end int32
	off        int64 // bytes
	guard      int64 // where the guard starts
	top        int64 // where the next buffer may start
}

// NewSentry watches memory, of which plan has given the buffers of p their places. p comes from Guarded, and the plan is checked.
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
			return nil, fmt.Errorf("sentry: %w buffer %q: %d bytes have no room for a guard: use Guarded", ErrInvalid, b.Name, b.Size)
		}
		if b.Start == b.End {
			continue
		}
		off := plan.Offsets[i]
		s.buffers = append(s.buffers, watched{
			name: Part{Owner: b.Owner, Name: b.Name}.label(), start: b.Start, end: b.End,
			off: off, guard: off + b.Size - GuardBytes, top: off + alignUp(b.Size, b.align()),
		})
	}
	slices.SortFunc(s.buffers, func(a, b watched) int {
		return cmp.Or(cmp.Compare(a.off, b.off), cmp.Compare(a.start, b.start))
	})
	s.live = make([]*watched, 0, len(s.buffers))
	return s, nil
}

// Begin starts a step: it poisons everything and arms the guards of what is live at instruction 0.
func (s *Sentry) Begin() {
	fill(s.memory, poison)
	s.next, s.begun = 0, true
	s.arm(0)
}

// After looks at memory when the call of instruction i is done: guards of live buffers must be whole, and memory that is
// nobody's must still be poison, or else it returns an [OverrunError]. Then it poisons what has died with i and arms
// what is born with i+1. Instructions are asked about in order, each once.
func (s *Sentry) After(i int32, call string) error {
	if !s.begun || i != s.next {
		return fmt.Errorf("sentry: %w order: after instruction %d (%q), where %d is next: begin every step, leave out none",
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

// arm writes the guards of buffers whose life starts at instruction i.
func (s *Sentry) arm(i int32) {
	for _, b := range s.buffers {
		if b.start == i {
			fill(s.memory[b.guard:b.top], guards)
		}
	}
}

// stray describes a write at byte at, which is nobody's: it names who had it last, or else whose end is next below.
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

// fill writes a repeated pattern.
func fill(b, pattern []byte) {
	for len(b) > 0 {
		b = b[copy(b, pattern):]
	}
}

// mismatch returns the first index where b is not the repeated pattern, -1 where there is none.
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
