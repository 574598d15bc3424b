package schedule

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Ranges are the buffers of scratch and the values that they hold.
type Ranges struct {
	Buffers []arena.Buffer
	Value   []kernels.Value // by buffer: the root value, None for a workspace
	Instr   []int           // by buffer: the instruction of a workspace, -1 for a value
}

// LiveRanges returns the buffers that scratch must hold: values without a home, by the roots of
// their bytes, and workspaces of dev, which may be nil. Time is counted in instructions; a buffer
// is live from Start to before End.
//
//	instruction    0   1   2   3
//	h = xw         ├───────────┤      made by 0, read by 1 and 2
//	workspace      ├───┤              of 0
//	y = tanh h         ├───────────┤  made by 1, read by 3
//
// Readers of an alias extend the live range of its root.
func LiveRanges(p *ir.Program, dev kernels.Device) Ranges {
	var l Ranges
	buffer := make([]int, len(p.Values)) // by root value, -1 for none
	for i := range buffer {
		buffer[i] = -1
	}
	for i := range p.Instrs {
		in, t := &p.Instrs[i], int32(i)
		for _, o := range in.Out {
			if root, _ := p.Root(o); root == o && !p.Values[o].Home {
				val := &p.Values[o]
				buffer[o] = len(l.Buffers)
				l.add(arena.Buffer{Name: val.Name, Owner: val.Owner, Size: val.Spec.Bytes(), Start: t, End: t + 1}, o, -1)
			}
		}
		if bytes := Workspace(p, in, dev); bytes > 0 {
			b := arena.Buffer{Name: in.Label + " workspace", Owner: in.Owner, Size: bytes, Start: t, End: t + 1}
			l.add(b, kernels.None, i)
		}
	}
	for i := range p.Instrs {
		for _, vs := range [2][]kernels.Value{p.Instrs[i].In, p.Instrs[i].Out} {
			for _, v := range vs {
				if root, _ := p.Root(v); buffer[root] >= 0 {
					b := &l.Buffers[buffer[root]]
					b.End = max(b.End, int32(i)+1)
				}
			}
		}
	}
	return l
}

func (l *Ranges) add(b arena.Buffer, v kernels.Value, instr int) {
	l.Buffers = append(l.Buffers, b)
	l.Value = append(l.Value, v)
	l.Instr = append(l.Instr, instr)
}

// Workspace returns the bytes of scratch that dev needs for an instruction while it runs. A view
// runs nothing.
func Workspace(p *ir.Program, in *ir.Instr, dev kernels.Device) int64 {
	if dev == nil || p.IsView(in) {
		return 0
	}
	return dev.Workspace(in.Op, in.Attrs, p.Specs(in.In), p.Specs(in.Out))
}

// Peak returns the most bytes of scratch that are live at one instruction of p, which is aliased
// and in its order.
func Peak(p *ir.Program, dev kernels.Device) int64 {
	_, peak := liveBytes(p, func(i int) int64 { return Workspace(p, &p.Instrs[i], dev) })
	return peak
}

// Workspaces returns the bytes of the workspace of each instruction that is no view.
func Workspaces(p *ir.Program, dev kernels.Device) []int64 {
	all := make([]int64, len(p.Instrs))
	for i := range p.Instrs {
		if in := &p.Instrs[i]; in.Op.View == nil {
			all[i] = Workspace(p, in, dev)
		}
	}
	return all
}

// Live makes values share bytes where they can in the present order of p, and returns how many
// bytes are live at each instruction, and the peak. workspaces are those of Workspaces. It sets Of
// and Delta of p's values: callers that only measure pass a clone.
func Live(p *ir.Program, o Options, workspaces []int64) (bytes []int64, peak int64) {
	Alias(p, o.Views)
	if o.InPlace {
		InPlace(p)
	}
	return liveBytes(p, func(i int) int64 {
		if in := &p.Instrs[i]; in.Op.View != nil { // whether it runs depends on what it aliases
			return Workspace(p, in, o.Device)
		}
		return workspaces[i]
	})
}

// liveBytes returns how many bytes of scratch are live at each instruction of p, after the last one
// too, and the peak: the sums of LiveRanges, at less cost. workspace returns the bytes of the
// workspace of instruction i.
func liveBytes(p *ir.Program, workspace func(i int) int64) (bytes []int64, peak int64) {
	// At first, bytes[i] is the size of what becomes live at i, and ends[i] of what died before i;
	// then bytes becomes the running sum.
	n := len(p.Instrs)
	bytes, ends := make([]int64, n+1), make([]int64, n+1)
	last := make([]int32, len(p.Values)) // by root value: the last instruction that uses it, plus 1; 0: not in scratch
	for i := range p.Instrs {
		in := &p.Instrs[i]
		for _, o := range in.Out {
			if v := &p.Values[o]; v.Of == kernels.None && !v.Home {
				bytes[i] += arena.Round(v.Spec.Bytes())
				last[o] = int32(i) + 1
			}
		}
		w := arena.Round(workspace(i))
		bytes[i], ends[i+1] = bytes[i]+w, ends[i+1]+w
		for _, vs := range [2][]kernels.Value{in.In, in.Out} {
			for _, v := range vs {
				if root, _ := p.Root(v); last[root] > 0 {
					last[root] = int32(i) + 1
				}
			}
		}
	}
	for v, end := range last {
		if end > 0 {
			ends[end] += arena.Round(p.Values[v].Spec.Bytes())
		}
	}
	var live int64
	for i := range bytes {
		live += bytes[i] - ends[i]
		bytes[i], peak = live, max(peak, live)
	}
	return bytes, peak
}
