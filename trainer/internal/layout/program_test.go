package layout_test

import (
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
)

// bare is a device without a kernel for Neg.
type bare struct{ kernels.Device }

func (bare) Name() string                                                        { return "bare" }
func (bare) RunsByReference(op *kernels.Op) bool                                 { return op == kernels.Neg }
func (bare) StagingBytes(*kernels.Op, any, []kernels.Spec, []kernels.Spec) int64 { return 7 }

func TestDescribeNamesInstructionsThatCostMore(t *testing.T) {
	p := &ir.Program{Name: "train 8", Batch: 8, Plan: arena.Plan{Method: "test", Live: 64, LiveAt: 1}}
	for _, n := range []int{1024, 1024, 1024, 4096} {
		p.Values = append(p.Values, ir.Value{Spec: kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{n}}})
	}
	p.Instrs = []ir.Instr{
		{Op: kernels.Neg, In: []kernels.Value{0}, Out: []kernels.Value{1}, Label: "forward"},
		{Op: kernels.Exp, In: []kernels.Value{0}, Out: []kernels.Value{2}, Label: "again", Recomputed: true, Backward: true, Mark: "unlike others"},
		{Op: kernels.Neg, In: []kernels.Value{2}, Out: []kernels.Value{3}, Label: "fallback", Backward: true, Mark: ir.FallbackMark},
	}
	r := layout.Describe(p, bare{})
	share := float64(p.WorkOf(&p.Instrs[1]).Time) / float64(p.WorkOf(&p.Instrs[0]).Time)
	if r.Instructions != 3 || r.Recomputed != 1 || r.Extra != share || r.LiveAt != "again" || !slices.Equal(r.Fallbacks, []string{"fallback"}) {
		t.Errorf("got %+v", r)
	}
	slow := "forward: neg has no kernel on bare and runs by its reference, slowly, and allocates on the Go heap"
	if !slices.Contains(r.Notes, slow) || !slices.Contains(r.Notes, "placed by test") || !slices.Contains(r.Notes, "again: unlike others") || len(r.Notes) != 4 {
		t.Errorf("notes %q, want four with %q", r.Notes, slow)
	}
	if notes := layout.Describe(p, nil).Notes; slices.Contains(notes, slow) || len(notes) != 3 {
		t.Errorf("without a device: notes %q", notes)
	}
	if n := layout.StagingBytes(bare{}, p); n != 7 {
		t.Errorf("staging of %d bytes, want 7, the most of any call", n)
	}
}
