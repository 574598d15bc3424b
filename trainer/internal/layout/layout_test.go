package layout_test

import (
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
)

// Results and the status word share a region of the arena here, as in a trainer.
func TestRegionsMapProgramsIntoTheArena(t *testing.T) {
	var l arena.Layout
	var r layout.Regions
	part := func(name string, elems int) ir.Part {
		return ir.Part{Name: name, Spec: kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{elems}}}
	}
	r[ir.Parameters].Region = layout.AddRegion(&l, "parameters", []ir.Part{part("w", 10), part("b", 100)})
	r[ir.Results].Region = layout.AddRegion(&l, "results", []ir.Part{part("loss", 1)})
	layout.AddParts(&l, r[ir.Results].Region, []ir.Part{part("status", 4)}, ", again")
	r[ir.Guard] = layout.Place{Region: r[ir.Results].Region, Offset: arena.Align}
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	// w takes one unit of 256 bytes, b two; loss and status one each.
	if got, want := l.Total(), int64(5*arena.Align); got != want {
		t.Errorf("the arena has %d bytes, want %d", got, want)
	}
	names := l.Regions()[1].Parts
	if len(names) != 2 || names[1].Name != "status, again" {
		t.Errorf("parts of the results: got %+v", names)
	}
	got := r.Ref(arena.Ref{Region: ir.Guard, Offset: 8, Size: 4})
	if want := (arena.Ref{Region: r[ir.Results].Region, Offset: arena.Align + 8, Size: 4}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	base := r.Bases(&l)
	if base[ir.Parameters] != 0 || base[ir.Results] != 3*arena.Align || base[ir.Guard] != 4*arena.Align {
		t.Errorf("bases %v", base)
	}
	for _, i := range ir.Offloaded {
		if base[i] != -1 {
			t.Errorf("region %d, in pinned memory: base %d, want -1", i, base[i])
		}
	}
}

func TestABadIndexIsDecodedFromTheStatusWord(t *testing.T) {
	indices := []ir.Indices{{Node: "first", Rows: 5}, {Node: "second", Rows: 7, Each: 3}}
	for _, c := range []struct {
		index int64
		lo    int32
		hi    int32
	}{{9, 9, 0}, {-1, -1, -1}, {1 << 40, 0, 1 << 8}} {
		got, found := layout.FindBadIndex(indices, []int32{ir.FirstIndices - 1, 4, c.lo, c.hi})
		if want := (layout.BadIndex{Indices: indices[1], Index: c.index, At: 4}); !found || got != want {
			t.Errorf("index %d: got %+v %v", c.index, got, found)
		}
	}
	for _, status := range [][]int32{nil, {0, 0, 0, 0}, {ir.FirstGradient, 0, 0, 0}} {
		if got, found := layout.FindBadIndex(indices, status); found {
			t.Errorf("status %v: got %+v, want none", status, got)
		}
	}
}

func TestSizesAreFormattedForPeople(t *testing.T) {
	got := []string{layout.FormatBytes(1), layout.FormatBytes(0), layout.FormatBytes(2048)}
	if want := []string{"1 byte", "0 bytes (0 B)", "2048 bytes (2.0 KiB)"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
