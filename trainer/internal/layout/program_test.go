package layout_test

import (
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
	"github.com/evenkeel/evenkeel/trainer/report"
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

func TestDescribeNamesShapesAndPasses(t *testing.T) {
	spec := func(dims ...int) kernels.Spec { return kernels.Spec{Type: arena.Float32, Shape: dims} }
	p := &ir.Program{
		Values: []ir.Value{
			{Name: "x", Spec: spec(2, 3), Home: true, Of: kernels.None},
			{Name: "h", Spec: spec(2, 4), Ref: arena.Ref{Region: ir.Scratch, Offset: 256}, Of: kernels.None},
			{Name: "dh", Spec: spec(4, 2), Ref: arena.Ref{Region: ir.Scratch}, Of: kernels.None},
			{Name: "dh", Spec: spec(8), Ref: arena.Ref{Region: ir.Scratch, Offset: 1024}, Of: kernels.None}, // of the same name
		},
		Instrs: []ir.Instr{
			{Op: kernels.Neg, In: []kernels.Value{0}, Out: []kernels.Value{1}},
			{Op: kernels.Exp, In: []kernels.Value{1}, Out: []kernels.Value{3, 2}, Backward: true},
			{Op: kernels.Neg, In: []kernels.Value{1}, Out: []kernels.Value{2}, Backward: true, Recomputed: true},
		},
		Problem: arena.Problem{Buffers: []arena.Buffer{
			{Name: "h", Size: 32, Start: 0, End: 2}, {Name: "dh", Size: 32, Start: 1, End: 2}, {Name: "dh workspace", Size: 8, Start: 1, End: 2}}},
		Plan: arena.Plan{Offsets: []int64{256, 0, 512}},
	}
	r := layout.Describe(p, nil)
	if want := []string{"float32 (2, 4)", "float32 (4, 2)", ""}; !slices.Equal(r.Specs, want) {
		t.Errorf("shapes %q, want %q", r.Specs, want)
	}
	if want := []string{"neg", "exp", "neg"}; !slices.Equal(r.Ops, want) {
		t.Errorf("operations %q, want %q", r.Ops, want)
	}
	if want := []report.Pass{report.Forward, report.Backward, report.Recompute}; !slices.Equal(r.Passes, want) {
		t.Errorf("passes %q, want %q", r.Passes, want)
	}
}

func TestPartsOfRegionsHaveTheShapesOfTheirHomes(t *testing.T) {
	var homes ir.Homes
	for _, h := range []struct {
		region arena.Region
		name   string
		dims   kernels.Shape
	}{{ir.Parameters, "w", kernels.Shape{3, 4}}, {ir.Gradients, "w", kernels.Shape{3, 4}}, {ir.Results, "loss, mean", kernels.Shape{1}}} {
		if _, err := homes.Place(h.region, "layer", h.name, kernels.Spec{Type: arena.Float32, Shape: h.dims}); err != nil {
			t.Fatal(err)
		}
	}
	var l arena.Layout
	layout.AddRegion(&l, "parameters", homes.Parts(ir.Parameters))
	r := layout.AddRegion(&l, "results", homes.Parts(ir.Results))
	layout.AddParts(&l, r, homes.Parts(ir.Results), ", slot 1")
	l.Place(r, "", "other", 8)
	l.Region("scratch")
	want := [][]string{{"float32 (3, 4)"}, {"float32 (1)", "float32 (1)", ""}, nil}
	if got := layout.Specs(l.Regions(), &homes); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %q, want %q", got, want)
	}
}
