package layout

import (
	"fmt"
	"strings"

	humanize "github.com/dustin/go-humanize"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// Describe returns the report of a program for a plan. dev is the device that will run it, nil if there is none.
//
// Three kinds of instruction cost more than a kernel, and the report names them: those that compute an activation again,
// fallbacks to Gorgonia's own code, and those that have no kernel on dev and run by their reference.
func Describe(p *ir.Program, dev kernels.Device) report.Program {
	r := report.Program{
		Name: p.Name, Batch: p.Batch, Instructions: len(p.Instrs), Time: p.Work().Time,
		Scratch: p.Plan.Bytes, Live: p.Plan.Live, Buffers: p.Problem.Buffers, Offsets: p.Plan.Offsets,
	}
	for i := range r.Buffers {
		r.Specs = append(r.Specs, bufferSpec(p, i))
	}
	note := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	note("placed by %s", p.Plan.Method)
	r.Recomputed, r.Extra = recomputed(p)
	if r.Recomputed > 0 {
		note("%d instructions compute activations again, in %.0f %% of the forward pass's time", r.Recomputed, 100*r.Extra)
	}
	n := collectives(p)
	if r.Network = n.bytes; n.sums > 0 {
		note("%s bytes in %d sums over %d ranks", humanize.Comma(n.bytes), n.sums, n.ranks)
	}
	if n.gathers > 0 {
		note("%s bytes in %d exchanges over %d ranks", humanize.Comma(n.gathered), n.gathers, n.ranks)
	}
	// A device without this capability has a kernel for every operation.
	slow, _ := dev.(kernels.ReferenceRunner)
	for _, in := range p.Instrs {
		r.Labels, r.Ops, r.Passes = append(r.Labels, in.Label), append(r.Ops, in.Op.Name), append(r.Passes, passOf(&in))
		switch {
		case in.Mark == ir.FallbackMark:
			r.Fallbacks = append(r.Fallbacks, in.Label)
		case in.Mark != "":
			note("%s: %s", in.Label, in.Mark)
		case slow != nil && slow.RunsByReference(in.Op):
			note("%s: %s has no kernel on %s and runs by its reference, slowly, and allocates on the Go heap",
				in.Label, in.Op.Name, dev.Name())
		}
	}
	// A program without buffers has no peak.
	if at := int(p.Plan.LiveAt); at >= 0 && at < len(r.Labels) {
		r.LiveAt = r.Labels[at]
	}
	return r
}

// bufferSpec returns the type and shape of the value in buffer i of scratch, "" if it is a workspace. The instruction at
// the start of the buffer makes the value.
func bufferSpec(p *ir.Program, i int) string {
	b := p.Problem.Buffers[i]
	if i >= len(p.Plan.Offsets) || int(b.Start) >= len(p.Instrs) {
		return ""
	}
	for _, o := range p.Instrs[b.Start].Out {
		v := &p.Values[o]
		if !v.Home && v.Of == kernels.None && v.Name == b.Name && v.Ref.Offset == p.Plan.Offsets[i] {
			return v.Spec.String()
		}
	}
	return ""
}

// passOf returns the pass of an instruction.
func passOf(in *ir.Instr) report.Pass {
	switch {
	case in.Recomputed:
		return report.Recompute
	case in.Backward:
		return report.Backward
	}
	return report.Forward
}

// Specs returns type and shape of each part of each region, as Plan.Specs has them. homes are those that the regions
// were made of. The name of a part may have a suffix, after a comma, that its home has not.
func Specs(regions []arena.RegionInfo, homes *ir.Homes) [][]string {
	type key struct {
		owner, name string
		bytes       int64
	}
	specs := make(map[key]string)
	for id := range arena.Region(ir.Regions) {
		for _, h := range homes.Parts(id) {
			specs[key{h.Owner, h.Name, h.Spec.Bytes()}] = h.Spec.String()
		}
	}
	all := make([][]string, len(regions))
	for i, r := range regions {
		for _, part := range r.Parts {
			spec, ok := specs[key{part.Owner, part.Name, part.Size}]
			if cut := strings.LastIndex(part.Name, ", "); !ok && cut >= 0 {
				spec = specs[key{part.Owner, part.Name[:cut], part.Size}]
			}
			all[i] = append(all[i], spec)
		}
	}
	return all
}

// recomputed returns how many instructions of p compute an activation again, and their time as a share of the forward
// pass's. Times are estimates of the cost model. Transfers of offloaded values count for neither.
func recomputed(p *ir.Program) (n int, share float64) {
	var forward, extra ir.Work
	for i := range p.Instrs {
		in := &p.Instrs[i]
		switch {
		case in.Op.IsTransfer():
		case in.Recomputed:
			n++
			extra = extra.Add(p.WorkOf(in))
		case !in.Backward:
			forward = forward.Add(p.WorkOf(in))
		}
	}
	return n, float64(extra.Time) / float64(max(forward.Time, 1))
}

// network counts what a program does with the ranks of its group.
type network struct {
	ranks           int
	sums, gathers   int
	bytes, gathered int64 // that each rank adds to the sums, and has of all ranks after the exchanges
}

func collectives(p *ir.Program) (n network) {
	for _, in := range p.Instrs {
		a, ok := in.Attrs.(kernels.AllReduceAttrs)
		if !ok || in.Op != kernels.AllReduce {
			continue
		}
		n.ranks = a.Group.Size()
		count, bytes := &n.sums, &n.bytes
		if !a.Sums() {
			count, bytes = &n.gathers, &n.gathered
		}
		*count++
		for _, v := range in.In {
			*bytes += p.Values[v].Spec.Bytes()
		}
	}
	return n
}
