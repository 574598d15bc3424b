package compile

import (
	"cmp"
	"slices"

	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/compile/schedule"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Sums over the ranks run one after the other, in the order of the program. The builder appends the
// buckets of gradients after the backward pass; with synchronised batch normalization they would wait
// for its last sum. So each bucket moves to the place where its gradients are ready:
//
//	built     dw3 │ sum of norm 2 │ dw2 │ sum of norm 1 │ dw1 │ bucket w3 │ bucket w2, w1
//	placed    dw3 │ bucket w3 │ sum of norm 2 │ dw2 │ sum of norm 1 │ dw1 │ bucket w2, w1
//
// The places follow from the gradients of the backward pass, also where a rank has no samples and
// adds zeros: so all ranks have the same order.

// placedBucket is the sum of a bucket.
type placedBucket struct {
	sum   int // index of the instruction that begins it
	after int // index of the instruction after which its gradients are ready
}

// recordReady records, for each trained parameter, the last instruction so far that makes or reads its
// gradient: the sum overwrites it.
func (c *compiler) recordReady(ps []frontend.Param, grads []kernels.Value) {
	if len(c.norms) == 0 {
		return
	}
	d := c.CloneValues()
	schedule.Alias(d, true)
	last := schedule.LastUses(d)
	c.ready = make(map[string]int)
	for _, p := range ps {
		root, _ := d.Root(grads[p.Value])
		c.ready[p.Name] = int(last[root])
	}
}

// recordBucket records the place of the bucket whose sum the builder has just appended.
func (c *compiler) recordBucket(names []string) {
	if len(c.norms) == 0 {
		return
	}
	b := placedBucket{}
	for _, name := range names {
		b.after = max(b.after, c.ready[name])
	}
	b.sum = len(c.Instrs) - 1
	for c.Instrs[b.sum].Op != kernels.AllReduce {
		b.sum--
	}
	c.buckets = append(c.buckets, b)
}

// placeBuckets moves the buckets, and what makes their operands after the backward pass.
func (c *compiler) placeBuckets() {
	if len(c.buckets) == 0 {
		return
	}
	maker := make(map[kernels.Value]int)
	after := make([]int, len(c.Instrs)) // by instruction: its index, or the one that it moves behind
	for i, in := range c.Instrs {
		after[i] = i
		for _, o := range in.Out {
			maker[o] = i
		}
	}
	var move func(i, to int)
	move = func(i, to int) {
		if after[i] <= to {
			return
		}
		after[i] = to
		for _, v := range c.Instrs[i].In {
			if m, ok := maker[v]; ok {
				move(m, to)
			}
		}
	}
	for _, b := range c.buckets {
		move(b.sum, b.after)
	}
	order := make([]int, len(c.Instrs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(after[a], after[b]) })
	moved := make([]ir.Instr, len(order))
	for i, k := range order {
		moved[i] = c.Instrs[k]
	}
	copy(c.Instrs, moved)
}

// orderSums makes the order of sums over the ranks that of the program.
func (c *compiler) orderSums() {
	last := kernels.None
	for _, in := range c.Instrs {
		if in.Op != kernels.AllReduce && in.Op != kernels.Agree {
			continue
		}
		if last != kernels.None {
			if c.Follows == nil {
				c.Follows = make(map[kernels.Value]kernels.Value)
			}
			c.Follows[in.Out[0]] = last
		}
		last = in.Out[0]
	}
}
