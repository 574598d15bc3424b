package compile

import (
	"context"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// alias lets results share the bytes of operands: updates always, views where the pass is on.
func (c *compiler) alias() {
	for i := range c.Instrs {
		in := &c.Instrs[i]
		for k, u := range in.Op.UpdatesFor(in.Attrs) {
			c.over(in.Out[k], in.In[u])
		}
		if in.Op.View == nil || c.Off&Views != 0 || c.Values[in.Out[0]].Home {
			continue
		}
		if delta, ok := in.Op.View(in.Attrs, c.Specs(in.In)); ok {
			c.share(in.Out[0], in.In[0], delta)
		}
	}
}

func (c *compiler) share(v, of kernels.Value, delta int64) {
	c.Values[v].Of, c.Values[v].Delta = of, delta
}

// over lets v lie on the bytes of w, through no chain of values: the status word passes through every check.
func (c *compiler) over(v, w kernels.Value) {
	root, delta := c.Root(w)
	c.share(v, root, delta)
}

// inPlace lets a result take over an operand that nobody reads later, once the order is known.
func (c *compiler) inPlace() {
	last := c.lastUses()
	for i := range c.Instrs {
		in := &c.Instrs[i]
		if len(in.Op.InPlace) == 0 || c.Values[in.Out[0]].Home || c.Values[in.Out[0]].Of != kernels.None {
			continue
		}
		for _, k := range in.Op.InPlaceFor(in.Attrs) {
			if int(k) >= len(in.In) || !c.takes(in, int(k), int32(i), last) {
				continue
			}
			c.over(in.Out[0], in.In[k])
			root, _ := c.Root(in.In[k])
			last[root] = max(last[root], last[in.Out[0]])
			break
		}
	}
}

// takes reports whether the output of in, the i-th instruction, may lie on its operand k.
func (c *compiler) takes(in *ir.Instr, k int, i int32, last []int32) bool {
	v := in.In[k]
	root, delta := c.Root(v)
	if c.Values[root].Home || last[root] != i || delta != 0 || !c.Spec(v).Equal(c.Spec(in.Out[0])) ||
		c.Values[root].Spec.Bytes() != c.Spec(v).Bytes() {
		return false
	}
	for j, w := range in.In {
		if r, _ := c.Root(w); j != k && r == root {
			return false
		}
	}
	return true
}

// lastUses returns, by root value, the instruction that last makes or reads its bytes.
func (c *compiler) lastUses() []int32 {
	last := make([]int32, len(c.Values))
	for i := range c.Instrs {
		for _, vs := range [2][]kernels.Value{c.Instrs[i].In, c.Instrs[i].Out} {
			for _, v := range vs {
				root, _ := c.Root(v)
				last[root] = int32(i)
			}
		}
	}
	return last
}

// lives are the buffers of scratch and who has them.
type lives struct {
	buffers []arena.Buffer
	value   []kernels.Value // by buffer: the root value, or None for a workspace
	instr   []int           // by buffer: the instruction of a workspace
}

// lifetimes returns the buffers that scratch must hold. Time is counted in instructions.
func (c *compiler) lifetimes() lives {
	var l lives
	of := make([]int, len(c.Values))
	for i := range of {
		of[i] = -1
	}
	for i := range c.Instrs {
		in, t := &c.Instrs[i], int32(i)
		for _, o := range in.Out {
			if root, _ := c.Root(o); root == o && !c.Values[o].Home {
				of[o] = len(l.buffers)
				l.add(arena.Buffer{Name: c.Values[o].Name, Owner: c.Values[o].Owner,
					Size: c.Values[o].Spec.Bytes(), Start: t, End: t + 1}, o, -1)
			}
		}
		if bytes := c.workspace(in); bytes > 0 {
			l.add(arena.Buffer{Name: in.Label + " workspace", Owner: in.Owner, Size: bytes, Start: t, End: t + 1}, kernels.None, i)
		}
	}
	for i := range c.Instrs {
		for _, vs := range [2][]kernels.Value{c.Instrs[i].In, c.Instrs[i].Out} {
			for _, v := range vs {
				if root, _ := c.Root(v); of[root] >= 0 {
					b := &l.buffers[of[root]]
					b.End = max(b.End, int32(i)+1)
				}
			}
		}
	}
	return l
}

func (l *lives) add(b arena.Buffer, v kernels.Value, instr int) {
	l.buffers = append(l.buffers, b)
	l.value = append(l.value, v)
	l.instr = append(l.instr, instr)
}

// workspace returns the scratch bytes that the device wants for an instruction.
func (c *compiler) workspace(in *ir.Instr) int64 {
	if c.Device == nil || c.IsView(in) {
		return 0
	}
	return c.Device.Workspace(in.Op, in.Attrs, c.Specs(in.In), c.Specs(in.Out))
}

// place gives every value its address and proves that no two live ones touch.
func (c *compiler) place() error {
	l := c.lifetimes()
	if err := arena.Check(c.Problem, c.Plan); err != nil {
		return fmt.Errorf("place %s: %w", c.Name, err)
	}
	for b, v := range l.value {
		ref := arena.Ref{Region: ir.Scratch, Offset: c.Plan.Offsets[b], Size: l.buffers[b].Size}
		if v == kernels.None {
			c.Instrs[l.instr[b]].Work = ref
		} else {
			c.Values[v].Ref = ref
		}
	}
	for v := range c.Values {
		if root, delta := c.Root(kernels.Value(v)); int(root) != v {
			r := c.Values[root].Ref
			c.Values[v].Ref = arena.Ref{Region: r.Region, Offset: r.Offset + delta, Size: c.Values[v].Spec.Bytes()}
		}
	}
	return nil
}

// solve finds the offsets: those of the larger batch where the instructions are the same, so that a smaller batch fits wherever
// the larger one does; else by search.
func (c *compiler) solve(ctx context.Context) (err error) {
	c.Problem = arena.Problem{Buffers: c.lifetimes().buffers}
	if c.Debug {
		c.Problem = arena.Guarded(c.Problem)
	}
	if c.alike && len(c.Like.Plan.Offsets) == len(c.Problem.Buffers) {
		plan := c.Like.Plan
		plan.Offsets = slices.Clone(plan.Offsets)
		plan.Live, plan.LiveAt = arena.Bound(c.Problem)
		if arena.Check(c.Problem, plan) == nil {
			c.Plan = plan
			return nil
		}
	}
	c.Plan, err = arena.Solve(ctx, c.Problem)
	return err
}
