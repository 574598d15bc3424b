// Package tabletest has what the tests of binary table formats share.
//
// The files of a format are in its folder testdata, and expect.json there has the values that they
// hold. [Compare] compares a dataset with such values. [Epochs], [AtOnce], [Images], [Distinct],
// [Faults] and [ReadAll] test promises that every format makes. All report to the test that calls
// them.
package tabletest

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/dataloader"
)

// Dataset is an open dataset of a table format.
type Dataset interface {
	dataloader.Dataset
	io.Closer
}

// Opened fails on an error of opening d, and else closes d at the end of the test.
func Opened[D Dataset](t testing.TB, d D, err error) D {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// File returns a file of testdata for a file system in memory.
func File(t testing.TB, name string) *fstest.MapFile {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return &fstest.MapFile{Data: b}
}

// Samples returns the files of testdata whose names match a pattern, by name. They must be n.
func Samples(t testing.TB, n int, patterns ...string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, pattern := range patterns {
		found, _ := filepath.Glob("testdata/" + pattern)
		for _, path := range found {
			name := filepath.Base(path)
			all[name] = File(t, name).Data
		}
	}
	if len(all) != n {
		t.Fatalf("%d files, want %d", len(all), n)
	}
	return all
}

// Slots returns memory for one sample.
func Slots(d dataloader.Dataset) [][]byte {
	var dst [][]byte
	for _, f := range d.Fields() {
		dst = append(dst, make([]byte, f.Bytes()))
	}
	return dst
}

// Fetch returns sample i.
func Fetch(t testing.TB, d dataloader.Dataset, i int) [][]byte {
	t.Helper()
	dst := Slots(d)
	if err := d.Fetch(context.Background(), dataloader.At{Index: i}, dst); err != nil {
		t.Fatalf("sample %d: %v", i, err)
	}
	return dst
}

// Allocated returns the bytes that f allocates.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
