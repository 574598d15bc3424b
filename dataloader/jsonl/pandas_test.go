package jsonl_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/jsonl"
)

// Files that pandas wrote have the numbers that Python's json reads in them, to the bit.
func TestLinesOfPandas(t *testing.T) {
	want, whole := read(t, "want.bin"), read(t, "whole.bin")
	opt := jsonl.Options{Held: 1, Fields: []jsonl.Field{
		{Name: "x", Type: arena.Float64},
		{Name: "v", Type: arena.Float64, Shape: []int{3}},
		{Name: "k", Type: arena.Int64},
		{Name: "text", Classes: []string{"ä 語", `a "quote"`, "two\nlines"}},
	}}
	for _, name := range []string{"plain.jsonl", "packed.jsonl.gz", "packed.jsonl.zst"} {
		ds, err := jsonl.Open(filepath.Join("testdata", name), opt)
		if err != nil {
			t.Fatal(err)
		}
		if ds.Len() != len(want)/32 {
			t.Errorf("%s: %d lines", name, ds.Len())
		}
		for i := range ds.Len() {
			dst := [][]byte{make([]byte, 8), make([]byte, 24), make([]byte, 8), make([]byte, 4)}
			if err := ds.Fetch(t.Context(), dataloader.At{Index: i}, dst); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(bytes.Join(dst[:2], nil), want[32*i:32*i+32]) || !bytes.Equal(dst[2], whole[8*i:8*i+8]) {
				t.Errorf("%s, line %d: got %v", name, i, dst)
			}
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
