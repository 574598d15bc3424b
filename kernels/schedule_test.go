package kernels_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// The regions of the programs below.
const (
	inMemory arena.Region = iota
	inPinned
)

var twoRegions = kernels.Binding{Base: []int64{0, -1}, Pinned: map[arena.Region]arena.Span{inPinned: {Offset: 512, Size: 1 << 20}}}

func bytesAt(r arena.Region, lo, hi int64) kernels.Operand {
	return kernels.Operand{Spec: kernels.Spec{Type: arena.Uint8, Shape: kernels.Shape{int(hi - lo)}}, Ref: arena.Ref{Region: r, Offset: lo, Size: hi - lo}}
}

// randomCalls are n calls on few bytes, so that they meet often.
func randomCalls(r *rand.Rand, n int) []kernels.Call {
	at := func(region arena.Region) kernels.Operand {
		lo := r.Int64N(24)
		return bytesAt(region, lo, lo+1+r.Int64N(6))
	}
	calls := make([]kernels.Call, n)
	for i := range calls {
		c := &calls[i]
		switch r.IntN(8) {
		case 0:
			c.Op, c.In, c.Out = kernels.Prefetch, []kernels.Operand{at(inPinned)}, []kernels.Operand{at(inMemory)}
		case 1:
			home := at(inPinned)
			c.Op, c.In, c.Out = kernels.Writeback, []kernels.Operand{at(inMemory), home}, []kernels.Operand{home}
		case 2:
			c.Op, c.In, c.Out = kernels.Host, []kernels.Operand{at(inMemory)}, []kernels.Operand{at(inMemory)}
		default:
			c.Op, c.In, c.Out = kernels.Add, []kernels.Operand{at(inMemory), at(inMemory)}, []kernels.Operand{at(inMemory)}
			c.Work = at(inMemory).Ref
		}
	}
	return calls
}

// meet reports whether two calls touch a common byte that one of them writes, byte by byte.
func meet(a, b kernels.Call) bool {
	type place struct {
		r arena.Region
		b int64
	}
	touched := func(c kernels.Call) map[place]bool { // true: written
		m := make(map[place]bool)
		add := func(r arena.Ref, write bool) {
			for i := range r.Size {
				m[place{r.Region, r.Offset + i}] = m[place{r.Region, r.Offset + i}] || write
			}
		}
		for _, o := range c.In {
			add(o.Ref, false)
		}
		for _, o := range c.Out {
			add(o.Ref, true)
		}
		add(c.Work, true)
		return m
	}
	x, y := touched(a), touched(b)
	for p, w := range x {
		if v, ok := y[p]; ok && (v || w) {
			return true
		}
	}
	return false
}

// before returns, by call, which calls ops order before it; at n those before the end of the
// program, on its stream. Call n is what was enqueued on that stream before. skip leaves an
// operation out.
func before(ops []kernels.StreamOp, n, events, skip int) [][]bool {
	known := map[bool][]bool{false: make([]bool, n+1), true: make([]bool, n+1)}
	known[false][n] = true
	at, order := make([][]bool, events), make([][]bool, n+1)
	for k, m := range ops {
		now := known[m.Transfer]
		switch {
		case k == skip:
		case m.Kind == kernels.Enqueue:
			order[m.Call] = slices.Clone(now)
			now[m.Call] = true
		case m.Kind == kernels.Record:
			at[m.Event] = slices.Clone(now)
		case at[m.Event] != nil:
			for i, v := range at[m.Event] {
				now[i] = now[i] || v
			}
		}
	}
	order[n] = known[false]
	return order
}

// ordered reports whether order is sufficient: for calls that conflict, for everything before and
// after a function of the host, for what was enqueued before the program, and for the end of the
// program.
func ordered(calls []kernels.Call, order [][]bool) bool {
	n := len(calls)
	for i, c := range calls {
		for j := range i {
			if (meet(c, calls[j]) || c.Op == kernels.Host || calls[j].Op == kernels.Host) && !order[i][j] {
				return false
			}
		}
		if !order[i][n] || !order[n][i] {
			return false
		}
	}
	return true
}

func TestAScheduleOrdersConflictingCallsAndNoOthers(t *testing.T) {
	r := random(t)
	for range 300 {
		calls := randomCalls(r, 1+r.IntN(30))
		ops, events := twoRegions.StreamSchedule(calls)
		var run []int
		for _, m := range ops {
			if m.Kind != kernels.Enqueue {
				continue
			}
			if m.Transfer != calls[m.Call].Op.IsTransfer() {
				t.Fatalf("%s is on the transfer stream: %v", calls[m.Call].Op.Name, m.Transfer)
			}
			run = append(run, m.Call)
		}
		if len(run) != len(calls) || !slices.IsSorted(run) {
			t.Fatalf("calls %v are enqueued of %d", run, len(calls))
		}
		if !ordered(calls, before(ops, len(calls), events, -1)) {
			t.Fatalf("conflicting calls are not ordered: %+v", ops)
		}
		for k, m := range ops {
			if m.Kind != kernels.Enqueue && ordered(calls, before(ops, len(calls), events, k)) {
				t.Fatalf("operation %d, %+v, is not needed: %+v", k, m, ops)
			}
		}
	}
}

func TestProgramsWithoutTransfersHaveOneStream(t *testing.T) {
	calls := randomCalls(random(t), 20)
	ops, events := kernels.Binding{Base: []int64{0, 4096}}.StreamSchedule(calls)
	if events != 0 || len(ops) != len(calls) || slices.ContainsFunc(ops, func(m kernels.StreamOp) bool { return m.Transfer || m.Kind != kernels.Enqueue }) {
		t.Errorf("%d events, ops %+v of calls that refer to no pinned memory", events, ops)
	}
}

// A transfer whose bytes no other call uses meanwhile waits for the start only, and only its reader
// waits for it.
func TestATransferOverlapsTheCallsThatDoNotUseItsBytes(t *testing.T) {
	add := func(lo int64) kernels.Call {
		return kernels.Call{Op: kernels.Add, In: []kernels.Operand{bytesAt(inMemory, lo, lo+8)}, Out: []kernels.Operand{bytesAt(inMemory, lo, lo+8)}}
	}
	fetch := kernels.Call{Op: kernels.Prefetch, In: []kernels.Operand{bytesAt(inPinned, 0, 8)}, Out: []kernels.Operand{bytesAt(inMemory, 64, 72)}}
	ops, _ := twoRegions.StreamSchedule([]kernels.Call{add(0), fetch, add(8), add(64), add(16)})
	want := []kernels.StreamOp{{kernels.Record, false, 0, 1}, {kernels.Enqueue, false, 0, 0}, {kernels.Wait, true, 1, 1}, {kernels.Enqueue, true, 1, 0},
		{kernels.Record, true, 1, 0}, {kernels.Enqueue, false, 2, 0}, {kernels.Wait, false, 3, 0}, {kernels.Enqueue, false, 3, 0}, {kernels.Enqueue, false, 4, 0}}
	for i, m := range want { // events have any numbers
		if i >= len(ops) || ops[i].Kind != m.Kind || ops[i].Transfer != m.Transfer || ops[i].Call != m.Call {
			t.Fatalf("got  %+v\nwant %+v", ops, want)
		}
	}
}
