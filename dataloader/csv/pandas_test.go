package csv_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/csv"
)

// Files that pandas wrote have its numbers to the bit.
func TestTablesOfPandas(t *testing.T) {
	want, whole := read(t, "want.bin"), read(t, "whole.bin")
	fill := math.Pi
	opt := csv.Options{Missing: []string{"NA"}, Fields: []csv.Field{
		{Name: "x", Type: arena.Float64},
		{Name: "k", Type: arena.Int64},
		{Name: "kind", FindClasses: true},
		{Name: "gap", Fill: &fill, Type: arena.Float64},
	}}
	var kinds [][]byte // of the first file
	for _, name := range []string{"plain.csv", "quoted.csv", "table.tsv"} {
		ds, err := csv.Open(filepath.Join("testdata", name), opt)
		if err != nil {
			t.Fatal(err)
		}
		if ds.Len() != len(want)/8 || len(ds.Classes("kind")) != 6 {
			t.Errorf("%s: %d records with %q", name, ds.Len(), ds.Classes("kind"))
		}
		filled := 0
		for i := range ds.Len() {
			dst := [][]byte{make([]byte, 8), make([]byte, 8), make([]byte, 4), make([]byte, 8)}
			if err := ds.Fetch(t.Context(), dataloader.At{Index: i}, dst); err != nil {
				t.Fatal(err)
			}
			if len(kinds) <= i {
				kinds = append(kinds, dst[2])
			}
			gap := dataloader.View[float64](dst[3])[0]
			if gap == fill {
				filled++
			}
			if !bytes.Equal(dst[0], want[8*i:8*i+8]) || !bytes.Equal(dst[1], whole[8*i:8*i+8]) || !bytes.Equal(dst[2], kinds[i]) || gap != fill && gap != 1.5 {
				t.Errorf("%s, record %d: got %v", name, i, dst)
			}
		}
		if filled < 40 || filled > 90 { // a third of 200
			t.Errorf("%s: %d values were filled", name, filled)
		}
		if err := ds.Close(); err != nil {
			t.Error(err)
		}
	}
}

// read returns a file of testdata: little-endian numbers, as the machines that run the tests store them.
func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
