package layout

import (
	"fmt"

	humanize "github.com/dustin/go-humanize"

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
	var sums, ranks int
	if r.Network, sums, ranks = summed(p); sums > 0 {
		note("%s bytes in %d sums over %d ranks", humanize.Comma(r.Network), sums, ranks)
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

// summed returns the bytes that a rank adds to sums over the ranks of its group, the number of these sums, and of ranks.
func summed(p *ir.Program) (bytes int64, sums, ranks int) {
	for _, in := range p.Instrs {
		a, ok := in.Attrs.(kernels.AllReduceAttrs)
		if !ok || in.Op != kernels.AllReduce {
			continue
		}
		sums, ranks = sums+1, a.Group.Size()
		for _, v := range in.In {
			bytes += p.Values[v].Spec.Bytes()
		}
	}
	return bytes, sums, ranks
}
