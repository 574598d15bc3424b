package layout

import (
	"fmt"

	humanize "github.com/dustin/go-humanize"

	"github.com/evenkeel/evenkeel/group"
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
		r.Labels = append(r.Labels, in.Label)
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
		if a.Kind == group.AllGather {
			count, bytes = &n.gathers, &n.gathered
		}
		*count++
		for _, v := range in.In {
			*bytes += p.Values[v].Spec.Bytes()
		}
	}
	return n
}
