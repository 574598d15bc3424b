package cuda

import (
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/kernels"
)

// Sums over the ranks of a Comm are collectives on the stream of the communicator, so that they run
// while the program's stream goes on:
//
//	program │ dw1 ─ record ─ dw2 ─ … ─ wait ─ update w1      AllReduce of dw1, and its Await
//	sums    │         wait ─ sum dw1 ─ record
//
// All collectives of a communicator are on one stream, so they come in the same order on all ranks.
// With a group of another kind they are functions of the host.

// collective is a collective operation in place on device memory, a step of a program.
type collective struct {
	comm        *Comm
	kind        group.Kind
	elem        arena.DType
	count       int64 // elements of all parts
	data        address
	root        int
	first, last bool // of the collectives that are enqueued as one
}

// String describes what must be the same on all ranks.
func (c *collective) String() string {
	return fmt.Sprintf("%v %v[%d] root %d", c.kind, c.elem, c.count, c.root)
}

// sums are the collectives of a program while it is bound.
type sums struct {
	events  int   // of the program
	comm    *Comm // nil: there are none
	what    []string
	pending []pendingSum
}

// pendingSum is a sum that has been enqueued, and that nothing waits for yet.
type pendingSum struct {
	label string
	event int // recorded when it is done
}

// commOf returns the communicator that an operation on a group uses, nil for none: then it is a
// function of the host.
func commOf(attrs any) *Comm {
	var g group.Group
	switch a := attrs.(type) {
	case kernels.AllReduceAttrs:
		g = a.Group
	case kernels.AgreeAttrs:
		g = a.Group
	}
	c, _ := g.(*Comm)
	return c
}

// join lets the call take part in the collectives of the program.
func (b *binding) join(c *Comm) error {
	if !c.owns(b.props) {
		return fmt.Errorf("the group was joined on another device: call Join of this one: %w", arena.ErrOption)
	}
	if b.sums.comm != nil && b.sums.comm != c {
		return fmt.Errorf("the program has sums over two groups: use one: %w", kernels.ErrUnsupported)
	}
	b.sums.comm = c
	return nil
}

// collect appends collectives on the stream for sums, after all that the program's stream has come
// to, and returns the event that is recorded after them.
func (b *binding) collect(all []collective) (event int) {
	all[0].first, all[len(all)-1].last = true, true
	before := b.sums.event()
	b.append(step{kind: stepRecord, event: before})
	b.append(step{kind: stepWait, stream: onSums, event: before})
	for i := range all {
		c := &all[i]
		b.sums.what = append(b.sums.what, c.String())
		b.append(step{kind: stepCollective, stream: onSums, collective: c})
	}
	after := b.sums.event()
	b.append(step{kind: stepRecord, stream: onSums, event: after})
	return after
}

// event returns a new event.
func (s *sums) event() int {
	s.events++
	return s.events - 1
}

// awaitAll returns the steps after which the program's stream has waited for all sums: before a
// function of the host, and at the end. call is the one that they belong to.
func (s *sums) awaitAll(call int) (steps []step) {
	if s == nil {
		return nil
	}
	for _, p := range s.pending {
		steps = append(steps, step{kind: stepWait, call: call, event: p.event})
	}
	s.pending = nil
	return steps
}

// bindAllReduce begins a sum, or the operation of another kind, of each tensor. They are not sent as one even where they lie one after
// another: that depends on the plan, and ranks may have different ones.
func bindAllReduce(b *binding) error {
	c := commOf(b.Attrs)
	if c == nil {
		return bindHost(b)
	}
	if err := b.join(c); err != nil {
		return err
	}
	var all []collective
	a := b.Attrs.(kernels.AllReduceAttrs)
	for k, o := range b.Out {
		b.copy(b.out(k), b.in(k), o.Bytes())
		if n := int64(o.Shape.Elems()); n > 0 {
			all = append(all, collective{comm: c, kind: max(a.Kind, group.Sum), elem: o.Type, count: n, data: b.out(k)})
		}
	}
	if len(all) > 0 {
		b.sums.pending = append(b.sums.pending, pendingSum{a.Label, b.collect(all)})
	}
	return nil
}

// bindAwait waits for a sum, unless that has been done.
func bindAwait(b *binding) error {
	if commOf(b.Attrs) == nil {
		return nil
	}
	label := b.Attrs.(kernels.AllReduceAttrs).Label
	i := slices.IndexFunc(b.sums.pending, func(p pendingSum) bool { return p.label == label })
	if i < 0 {
		return nil
	}
	b.append(step{kind: stepWait, event: b.sums.pending[i].event})
	b.sums.pending = slices.Delete(b.sums.pending, i, i+1)
	return nil
}

// bindAgree computes the rank's verdict, the maximum of all, and what follows from it.
func bindAgree(b *binding) error {
	c := commOf(b.Attrs)
	if c == nil {
		return bindHost(b)
	}
	if err := b.join(c); err != nil {
		return err
	}
	guard, verdict := b.out(0), b.out(1)
	b.copy(guard, b.in(0), b.Out[0].Bytes())
	b.launchText(agreePTX, "agree_begin", line(1), line(1), 0, guard, verdict)
	done := b.collect([]collective{{comm: c, kind: group.Max, elem: arena.Int32, count: 1, data: verdict}})
	b.append(step{kind: stepWait, event: done})
	b.launchText(agreePTX, "agree_end", line(1), line(1), 0, guard, verdict, b.Attrs.(kernels.AgreeAttrs).Peer)
	return nil
}

// agreePTX is the part of kernels.Agree before and after the maximum, for one thread.
const agreePTX = `.version 7.0
.target sm_70
.address_size 64
.visible .entry agree_begin(.param .u64 guard, .param .u64 verdict)
{
	.reg .b32 %r<3>;
	.reg .b64 %rd<3>;
	.reg .pred %p<3>;
	ld.param.u64 %rd1, [guard];
	ld.param.u64 %rd2, [verdict];
	cvta.to.global.u64 %rd1, %rd1;
	cvta.to.global.u64 %rd2, %rd2;
	ld.global.u32 %r1, [%rd1];
	setp.gt.s32 %p1, %r1, 0;
	setp.lt.s32 %p2, %r1, 0;
	selp.b32 %r2, 1, 0, %p1;
	selp.b32 %r2, 2, %r2, %p2;
	st.global.u32 [%rd2], %r2;
	ret;
}
.visible .entry agree_end(.param .u64 guard, .param .u64 verdict, .param .u32 peer)
{
	.reg .b32 %r<4>;
	.reg .b64 %rd<3>;
	.reg .pred %p<3>;
	ld.param.u64 %rd1, [guard];
	ld.param.u64 %rd2, [verdict];
	ld.param.u32 %r3, [peer];
	cvta.to.global.u64 %rd1, %rd1;
	cvta.to.global.u64 %rd2, %rd2;
	ld.global.u32 %r1, [%rd1];
	ld.global.u32 %r2, [%rd2];
	setp.eq.s32 %p1, %r1, 0;
	setp.ne.and.s32 %p2, %r2, 0, %p1;
	@%p2 st.global.u32 [%rd1], %r3;
	ret;
}
`
