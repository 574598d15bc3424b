package kernels

import "github.com/evenkeel/evenkeel/arena"

// StreamOpKind is what a device does in a StreamOp.
type StreamOpKind uint8

// The kinds of stream operation.
const (
	Enqueue StreamOpKind = iota // enqueue a call
	Record                      // record an event
	Wait                        // let the stream wait for an event of the other stream
)

// StreamOp is one step of launching a program whose transfers overlap its other calls. There are
// two streams: the one that the program is launched on, and a second one for transfers.
type StreamOp struct {
	Kind     StreamOpKind
	Transfer bool // on the stream for transfers
	Call     int  // the call to enqueue, the last one before a Record, or the one that a Wait is for
	Event    int  // of Record and Wait, from 0
}

// StreamSchedule returns how to launch calls on two streams with the results of calls in their
// order, and the number of events that this needs: none if no call refers to pinned memory. A call
// waits for an earlier call of the other stream only if both use the same bytes and one of the two
// writes them. So a transfer overlaps the calls between the previous use of its bytes and the next
// one; the plan decides which calls those are.
//
//	launched on  │ a ─ record ─ b ──────── wait ─ c ─ …      a uses the bytes of y before the transfer,
//	transfers    │       wait ─ x → y ─ record               c reads y, b uses neither x nor y
//
// Before a function of the host, and at the end, the program's stream waits for all transfers; the
// first transfer waits for what is in the program's stream before the launch. A device that runs
// calls one after another needs no schedule.
func (at Binding) StreamSchedule(calls []Call) (ops []StreamOp, events int) {
	s := scheduler{at: at, calls: calls}
	for from := 0; from < len(calls); {
		to := from
		for to < len(calls) && (calls[to].Op == nil || !calls[to].Op.OnHost) {
			to++
		}
		s.part(from, to)
		if to < len(calls) {
			s.add(Enqueue, false, to, 0)
			to++
		}
		from = to
	}
	return s.ops, s.events
}

// scheduler collects stream operations.
type scheduler struct {
	at     Binding
	calls  []Call
	ops    []StreamOp
	events int
}

func (s *scheduler) add(kind StreamOpKind, transfer bool, call, event int) {
	s.ops = append(s.ops, StreamOp{kind, transfer, call, event})
}

// part appends the operations for calls from to before to, none of which is a function of the host.
func (s *scheduler) part(from, to int) {
	n := to - from
	transfer, accesses := make([]bool, n), make([][]byteAccess, n)
	for i := range n {
		c := &s.calls[from+i]
		transfer[i], accesses[i] = s.at.UsesPinned(c), s.at.accesses(c)
	}
	waits := waitsOf(transfer, accesses)
	event := make([]int, n+1) // by call; n: the start
	for i := range event {
		event[i] = -1
	}
	for _, w := range waits {
		if w >= 0 && event[w] < 0 {
			event[w] = s.events
			s.events++
		}
	}
	if event[n] >= 0 {
		s.add(Record, false, from, event[n])
	}
	for i := range n {
		if w := waits[i]; w >= 0 {
			s.add(Wait, transfer[i], from+i, event[w])
		}
		s.add(Enqueue, transfer[i], from+i, 0)
		if event[i] >= 0 {
			s.add(Record, transfer[i], from+i, event[i])
		}
	}
	if w := waits[n]; w >= 0 {
		s.add(Wait, false, from+w, event[w])
	}
}

// waitsOf returns which call each call waits for: the last call of the other stream with which it
// conflicts, or -1 if there is none or its own stream has already waited for that or a later one.
// With n calls, n stands for the start of the part: the first transfer waits for it if it waits for
// no call. Element n is what the program's stream waits for at the end: the last transfer.
func waitsOf(transfer []bool, accesses [][]byteAccess) []int {
	n := len(transfer)
	waits := make([]int, n+1)
	known := map[bool]int{false: -1, true: -1} // by stream: the last call of the other one that it has waited for
	last := -1                                 // transfer
	for i := range n {
		waits[i] = -1
		for j := i - 1; j > known[transfer[i]]; j-- {
			if transfer[j] != transfer[i] && conflict(accesses[i], accesses[j]) {
				waits[i], known[transfer[i]] = j, j
				break
			}
		}
		if transfer[i] {
			if last < 0 && waits[i] < 0 {
				waits[i] = n
			}
			last = i
		}
	}
	waits[n] = -1
	if last > known[false] {
		waits[n] = last
	}
	return waits
}

// byteAccess is a range of bytes that a call reads or writes, in the program's memory or in pinned
// memory.
type byteAccess struct {
	pinned bool
	lo, hi int64
	write  bool
}

// accesses returns the bytes that a call reads and writes.
func (at Binding) accesses(c *Call) []byteAccess {
	var all []byteAccess
	add := func(r arena.Ref, bytes int64, write bool) {
		if bytes == 0 {
			return
		}
		a := byteAccess{write: write}
		if s, ok := at.Pinned[r.Region]; ok {
			a.pinned, a.lo = true, s.Offset+r.Offset
		} else if r.Region >= 0 && int(r.Region) < len(at.Base) { // the device refuses others
			a.lo = at.Base[r.Region] + r.Offset
		}
		a.hi = a.lo + bytes
		all = append(all, a)
	}
	for _, o := range c.In {
		add(o.Ref, o.Bytes(), false)
	}
	for _, o := range c.Out {
		add(o.Ref, o.Bytes(), true)
	}
	add(c.Work, c.Work.Size, true)
	return all
}

// conflict reports whether two calls share bytes that one of them writes.
func conflict(a, b []byteAccess) bool {
	for _, x := range a {
		for _, y := range b {
			if (x.write || y.write) && x.pinned == y.pinned && x.lo < y.hi && y.lo < x.hi {
				return true
			}
		}
	}
	return false
}
