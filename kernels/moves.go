package kernels

import "github.com/evenkeel/evenkeel/arena"

// Doing is what a device does in a Move.
type Doing uint8

// The doings.
const (
	Enqueue Doing = iota // a call
	Mark                 // the place that the stream has come to
	Await                // a mark of the other stream
)

// Move is what a device does next to launch a program whose transfers run beside its other calls. There are two streams: the one that the
// program is launched on, and one beside it, for transfers.
type Move struct {
	Do     Doing
	Beside bool // on the stream for transfers
	Call   int  // that is enqueued, has just been, or waits
	Mark   int  // of Mark and Await, from 0
}

// Moves returns how to launch calls on two streams with the results of calls in their order, and how many marks that takes: none where no call refers to
// pinned memory. A call waits for those of the other stream with which it shares bytes that one of both writes, and for no others. So what a
// transfer is late or early for is decided by who has its bytes before and after it, that is, by the plan.
//
//	launched on   │ a ─ mark ─ b ──────── await ─ c ─ …      a has had the bytes of y before,
//	beside        │       await ─ x → y ─ mark               c reads y, b has nothing to do with it
//
// Before a function of the host, and at the end, the program's stream has waited for all transfers; the first transfer waits for what the program's
// stream has come to before. A device that runs calls one after the other has no use for moves.
func (at Binding) Moves(calls []Call) (moves []Move, marks int) {
	m := mover{at: at, calls: calls}
	for from := 0; from < len(calls); {
		to := from
		for to < len(calls) && calls[to].Op != Host {
			to++
		}
		m.part(from, to)
		if to < len(calls) {
			m.add(Enqueue, false, to, 0)
			to++
		}
		from = to
	}
	return m.moves, m.marks
}

// Beside reports whether a call refers to pinned memory, which only transfers may.
func (at Binding) Beside(c *Call) bool {
	for _, operands := range [][]Operand{c.In, c.Out} {
		for _, o := range operands {
			if _, ok := at.Pinned[o.Ref.Region]; ok {
				return true
			}
		}
	}
	return false
}

// mover collects moves.
type mover struct {
	at    Binding
	calls []Call
	moves []Move
	marks int
}

func (m *mover) add(do Doing, beside bool, call, mark int) {
	m.moves = append(m.moves, Move{do, beside, call, mark})
}

// part appends the moves of calls from to before to, none of which is a function of the host.
func (m *mover) part(from, to int) {
	n := to - from
	beside, uses := make([]bool, n), make([][]use, n)
	for i := range n {
		c := &m.calls[from+i]
		beside[i], uses[i] = m.at.Beside(c), m.at.uses(c)
	}
	waits := waitsOf(beside, uses)
	mark := make([]int, n+1) // by call, n: the start
	for i := range mark {
		mark[i] = -1
	}
	for _, w := range waits {
		if w >= 0 && mark[w] < 0 {
			mark[w] = m.marks
			m.marks++
		}
	}
	if mark[n] >= 0 {
		m.add(Mark, false, from, mark[n])
	}
	for i := range n {
		if w := waits[i]; w >= 0 {
			m.add(Await, beside[i], from+i, mark[w])
		}
		m.add(Enqueue, beside[i], from+i, 0)
		if mark[i] >= 0 {
			m.add(Mark, beside[i], from+i, mark[i])
		}
	}
	if w := waits[n]; w >= 0 {
		m.add(Await, false, from+w, mark[w])
	}
}

// waitsOf returns whom each call waits for: the last call of the other stream with which it has a conflict, unless its own stream has waited for that or a
// later one before; -1: nobody. n, their number, is the start: the first transfer waits for it, if for nothing else. What stands at n waits for the
// last transfer.
func waitsOf(beside []bool, uses [][]use) []int {
	n := len(beside)
	waits := make([]int, n+1)
	known := map[bool]int{false: -1, true: -1} // by stream: the last call of the other one that it has waited for
	transfer := -1                             // the last one
	for i := range n {
		waits[i] = -1
		for j := i - 1; j > known[beside[i]]; j-- {
			if beside[j] != beside[i] && conflict(uses[i], uses[j]) {
				waits[i], known[beside[i]] = j, j
				break
			}
		}
		if beside[i] {
			if transfer < 0 && waits[i] < 0 {
				waits[i] = n
			}
			transfer = i
		}
	}
	waits[n] = -1
	if transfer > known[false] {
		waits[n] = transfer
	}
	return waits
}

// use is a range of bytes that a call reads or writes, in the program's memory or in pinned memory.
type use struct {
	pinned bool
	lo, hi int64
	write  bool
}

// uses returns what a call touches.
func (at Binding) uses(c *Call) []use {
	var us []use
	add := func(r arena.Ref, bytes int64, write bool) {
		if bytes == 0 {
			return
		}
		u := use{write: write}
		if s, ok := at.Pinned[r.Region]; ok {
			u.pinned, u.lo = true, s.Offset+r.Offset
		} else if r.Region >= 0 && int(r.Region) < len(at.Base) { // others are refused by the device
			u.lo = at.Base[r.Region] + r.Offset
		}
		u.hi = u.lo + bytes
		us = append(us, u)
	}
	for _, o := range c.In {
		add(o.Ref, o.Bytes(), false)
	}
	for _, o := range c.Out {
		add(o.Ref, o.Bytes(), true)
	}
	add(c.Work, c.Work.Size, true)
	return us
}

// conflict reports whether two calls share bytes that one of them writes.
func conflict(a, b []use) bool {
	for _, x := range a {
		for _, y := range b {
			if (x.write || y.write) && x.pinned == y.pinned && x.lo < y.hi && y.lo < x.hi {
				return true
			}
		}
	}
	return false
}
