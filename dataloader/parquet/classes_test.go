package parquet_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	pq "github.com/parquet-go/parquet-go"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/tabletest"
	"github.com/evenkeel/evenkeel/dataloader/parquet"
)

// labelled is a row of a table with labels in text, of which some are missing.
type labelled struct {
	Kind *string `parquet:"kind,optional,dict"`
	Size string  `parquet:"size"`
	X    float32 `parquet:"x"`
}

// labels returns two files of row groups of 10 rows, and the texts of the column kind.
func labels(t *testing.T, rows int) (fsys fstest.MapFS, kinds []*string) {
	t.Helper()
	fsys = fstest.MapFS{}
	for part := range 2 {
		var b bytes.Buffer
		w := pq.NewGenericWriter[labelled](&b, pq.MaxRowsPerRowGroup(10))
		for i := range rows {
			r := labelled{Size: fmt.Sprint(i % 2), X: float32(i)}
			if i%5 != 3 {
				r.Kind = new(string(rune('z' - (i+part)%4)))
			}
			if _, err := w.Write([]labelled{r}); err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, r.Kind)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		fsys[fmt.Sprintf("%d.parquet", part)] = &fstest.MapFile{Data: b.Bytes()}
	}
	return fsys, kinds
}

func TestFoundClassesAreThoseOfAllFiles(t *testing.T) {
	t.Parallel()
	fsys, kinds := labels(t, 25)
	columns := []parquet.Column{{Name: "x"}, {Name: "kind", Field: "y", FindClasses: true, Fill: new(-1.0)}, {Name: "size", Type: arena.Uint8, FindClasses: true}}
	d, err := parquet.OpenFS(fsys, ".", parquet.Options{Columns: columns})
	if err != nil {
		t.Fatal(err)
	}
	classes := d.Classes("y")
	if !slices.Equal(classes, []string{"w", "x", "y", "z"}) || !slices.Equal(d.Classes("size"), []string{"0", "1"}) || d.Classes("x") != nil || d.Classes("kind") != nil {
		t.Errorf("classes %q and %q", classes, d.Classes("size"))
	}
	for i, kind := range kinds {
		want := int32(-1)
		if kind != nil {
			want = int32(slices.Index(classes, *kind))
		}
		if got := tabletest.Fetch(t, d, i); dataloader.View[int32](got[1])[0] != want || int(got[2][0]) != i%25%2 || dataloader.View[float32](got[0])[0] != float32(i%25) {
			t.Errorf("row %d: got %v, want label %d", i, got, want)
		}
	}
	columns[1].Fill = nil
	if d, err = parquet.OpenFS(fsys, ".", parquet.Options{Columns: columns}); err != nil {
		t.Fatal(err)
	}
	if err := d.Fetch(t.Context(), dataloader.At{Index: 3}, tabletest.Slots(d)); !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), "row 3 of the group") {
		t.Errorf("a missing label without a fill: got %v", err)
	}
	columns[2].Type = arena.Float32
	if _, err = parquet.OpenFS(fsys, ".", parquet.Options{Columns: columns}); !errors.Is(err, dataloader.ErrField) || !strings.Contains(err.Error(), "whole numbers") {
		t.Errorf("labels of float32: got %v", err)
	}
}

func TestFoundClassesAreBounded(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := pq.NewGenericWriter[labelled](&b)
	for i := range 1<<16 + 1 {
		if _, err := w.Write([]labelled{{Size: fmt.Sprint(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := parquet.OpenFS(fstest.MapFS{"t.parquet": {Data: b.Bytes()}}, "t.parquet",
		parquet.Options{Columns: []parquet.Column{{Name: "size", FindClasses: true}}})
	if !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), "row 65536 of the group at byte 283095: want at most 65536 different texts") {
		t.Errorf("one text too many: got %v", err)
	}
}
