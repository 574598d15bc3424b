package npy_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/npy"
	"github.com/evenkeel/evenkeel/dataloader/table"
)

// fetchAll reads all samples, and returns the first error.
func fetchAll(ds dataloader.Dataset) error {
	var dst [][]byte
	for _, f := range ds.Fields() {
		dst = append(dst, make([]byte, f.Bytes()))
	}
	for i := range ds.Len() {
		if err := ds.Fetch(context.Background(), dataloader.At{Index: i}, dst); err != nil {
			return err
		}
	}
	return nil
}

// array is a file of an array with a header and some bytes of elements.
func array(header string, data []byte) []byte {
	header += strings.Repeat(" ", 117-len(header)) + "\n"
	return append([]byte("\x93NUMPY\x01\x00\x76\x00"+header), data...)
}

// archive is a compressed archive of an array.
func archive(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range []string{"a.npy", "b.npy"} {
		if files[name] == nil {
			continue
		}
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A file that is cut anywhere is an error at Open.
func TestCutFilesAreErrors(t *testing.T) {
	for _, name := range []string{"v1.npy", "v2.npy", "labels.npy", "compressed.npz", "types.npz"} {
		whole, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		for cut := range len(whole) {
			ds, err := npy.OpenFS(fstest.MapFS{name: {Data: whole[:cut]}}, name, npy.Options{})
			if err == nil {
				ds.Close()
			}
			if !errors.Is(err, dataloader.ErrFormat) {
				t.Fatalf("%s cut at %d of %d: got %v, want ErrFormat", name, cut, len(whole), err)
			}
		}
	}
}

func TestAFileThatShrinksIsAnError(t *testing.T) {
	whole, err := os.ReadFile("testdata/labels.npy")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.npy")
	for _, unmapped := range []bool{false, true} {
		if !unmapped && runtime.GOOS == "windows" { // which keeps a mapped file as long as it is
			continue
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		ds, err := npy.Open(path, npy.Options{Unmapped: unmapped})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, int64(len(whole)-1)); err != nil {
			t.Fatal(err)
		}
		err = fetchAll(ds)
		if unmapped && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %v, want io.ErrUnexpectedEOF", err)
		}
		ds.Close()
	}
}

// Two arrays of the same type and shape are different data, also where they are in memory.
func TestFingerprintsTellCompressedArraysApart(t *testing.T) {
	header := "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"
	b := archive(t, map[string][]byte{"a.npy": array(header, make([]byte, 8)), "b.npy": array(header, bytes.Repeat([]byte{1}, 8))})
	seen := make(map[uint64]bool)
	for _, c := range []table.Column{{Name: "a", Field: "x"}, {Name: "b", Field: "x"}} {
		ds, err := npy.OpenFS(fstest.MapFS{"x.npz": {Data: b}}, "x.npz", npy.Options{Columns: []table.Column{c}})
		if err != nil {
			t.Fatal(err)
		}
		f := dataloader.Fingerprint(ds)
		if seen[f] {
			t.Errorf("array %q has the fingerprint of another", c.Name)
		}
		seen[f] = true
		ds.Close()
	}
}

// A header may claim any size.
func TestSizesThatLie(t *testing.T) {
	for _, shape := range []string{"(1000000000000,)", "(4611686018427387904, 4)", "(99999999999999999999999,)", "(-1,)", "(3,)", "(1, 3)", "(2, 0)", "(0, 2)", "(True,)", "(2.0,)"} {
		for _, order := range []string{"False", "True"} {
			b := array(fmt.Sprintf("{'descr': '<f4', 'fortran_order': %s, 'shape': %s, }", order, shape), make([]byte, 8))
			for name, data := range map[string][]byte{"a.npy": b, "a.npz": archive(t, map[string][]byte{"a.npy": b})} {
				ds, err := npy.OpenFS(fstest.MapFS{name: {Data: data}}, name, npy.Options{})
				if err == nil {
					ds.Close()
				}
				if !errors.Is(err, dataloader.ErrFormat) && !errors.Is(err, dataloader.ErrField) && !errors.Is(err, dataloader.ErrEmpty) {
					t.Errorf("%s, shape %s, Fortran %s: got %v", name, shape, order, err)
				}
			}
		}
	}
}

// A bomb is refused by Options.Memory before it is decompressed.
func TestABombIsRefused(t *testing.T) {
	const n = 1 << 20
	b := archive(t, map[string][]byte{"a.npy": array(fmt.Sprintf("{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }", n), make([]byte, n))})
	for memory, want := range map[int64]error{n - 1: dataloader.ErrOption, n: nil} {
		ds, err := npy.OpenFS(fstest.MapFS{"x.npz": {Data: b}}, "x.npz", npy.Options{Memory: memory})
		if !errors.Is(err, want) || want == nil && ds.Len() != n {
			t.Errorf("memory of %d bytes: got %v, want %v", memory, err, want)
		}
	}
}
