package npz_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/evenkeel/evenkeel/internal/atomicfile"
	"github.com/evenkeel/evenkeel/weights/npz"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/written.npz anew; then run testdata/reference.py, which reads it")

// parse opens a file in memory.
func parse(b []byte) (*npz.File, error) { return npz.NewFile(bytes.NewReader(b), int64(len(b))) }

// kinds are NumPy's names of types.
var kinds = map[string]safetensors.DType{"b1": "BOOL", "i1": "I8", "u1": "U8", "i2": "I16", "u2": "U16", "i4": "I32", "u4": "U32", "i8": "I64", "u8": "U64", "f2": "F16", "f4": "F32", "f8": "F64", "c8": "C64"}

// stricter are the files that NumPy reads and this package refuses, with the reason.
var stricter = map[string]string{
	"structured":             "it is no tensor",
	"bfloat16 as V2":         "its type is lost",
	"text":                   "no numbers",
	"bytes":                  "no numbers",
	"dates":                  "no numbers",
	"long double":            "no type of safetensors",
	"complex128":             "no type of safetensors",
	"header: key twice":      "readers differ in which of two values they take",
	"header: one":            "hidden bytes",
	"entry of one byte more": "hidden bytes",
	"header: magic":          noArray,
	"entry cut after 0":      noArray,
	"entry cut after 5":      noArray,
}

const noArray = "NumPy returns it as bytes"

// reasons are parts of errors that help users.
var reasons = map[string]string{"objects": "pickle", "bfloat16 as V2": "bfloat16: save it as float32", "structured": "save each of its fields", "header: type O": "pickle"}

// laxer are the files that this package reads and NumPy refuses.
var laxer = map[string]string{
	"archive: bytes in front": "unzip reads it, too",
}

// testdata/reference.py has made the files and what NumPy reads from them.
func TestArraysAreTheReferences(t *testing.T) {
	text, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name   string
		File   []byte
		Arrays map[string][3]any // type, shape, elements
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, c := range cases {
		f, err := parse(c.File)
		if err == nil {
			err = f.Verify(t.Context())
		}
		if err != nil && !errors.Is(err, npz.ErrFormat) {
			t.Errorf("%s: got %v, want a *FormatError", c.Name, err)
		}
		if reason := reasons[c.Name]; reason != "" && (err == nil || !strings.Contains(err.Error(), reason)) {
			t.Errorf("%s: got %v, want %q", c.Name, err, reason)
		}
		_, strict := stricter[c.Name]
		if strict && c.Arrays == nil {
			t.Errorf("%s: NumPy refuses it too: remove it from the list", c.Name)
		}
		_, lax := laxer[c.Name]
		if (err == nil) != (c.Arrays != nil && !strict || lax) {
			t.Errorf("%s: got %v, NumPy reads it: %v", c.Name, err, c.Arrays != nil)
		}
		if err != nil || lax {
			continue
		}
		read++
		for i, x := range f.Tensors() {
			want := c.Arrays[x.Name]
			shape := make([]any, len(x.Shape))
			for i, d := range x.Shape {
				shape[i] = float64(d)
			}
			var elements []byte
			if err := json.Unmarshal([]byte(`"`+want[2].(string)+`"`), &elements); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, x.Bytes())
			if err := f.Read(x.Name, got); err != nil || x.DType != kinds[want[0].(string)] || !reflect.DeepEqual(shape, want[1]) || !bytes.Equal(got, elements) {
				t.Errorf("%s: array %d is %v % x, %v; want %v", c.Name, i, x, got, err, want)
			}
			if len(got) > 3 {
				part := make([]byte, 2)
				if err := f.ReadAt(x.Name, part, 1); err != nil || !bytes.Equal(part, elements[1:3]) {
					t.Errorf("%s: bytes 1 and 2 of array %d are % x, %v; want % x", c.Name, i, part, err, elements[1:3])
				}
			}
		}
		if len(f.Tensors()) != len(c.Arrays) {
			t.Errorf("%s: %d arrays, NumPy has %d", c.Name, len(f.Tensors()), len(c.Arrays))
		}
	}
	if read < 40 || len(cases)-read < 40 {
		t.Errorf("%d of %d files are read: the table has become too small", read, len(cases))
	}
}

// some are arrays to write, and their bytes.
var some = []safetensors.Tensor{{Name: "hidden/w", DType: "F32", Shape: []int{2, 3}}, {Name: "count", DType: "I64", Shape: []int{}}, {Name: "half", DType: "F16", Shape: []int{2}}, {Name: "é", DType: "BOOL", Shape: []int{0, 3}}}
var data = map[string][]byte{
	"hidden/w": {0, 0, 0, 0, 0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 64, 64, 0, 0, 128, 64, 0, 0, 160, 64},
	"count":    {7, 0, 0, 0, 0, 0, 0, 0},
	"half":     {0, 0x3c, 0, 0xc0},
}

func fill(t safetensors.Tensor, w io.Writer) error {
	for _, b := range data[t.Name] {
		if _, err := w.Write([]byte{b}); err != nil {
			return err
		}
	}
	return nil
}

func TestWhatIsWrittenIsReadHereAndByNumPy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npz")
	if err := npz.Create(t.Context(), path, some, npz.CreateOptions{}, fill); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/written.npz"
	if *rewrite {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the file differs from %s, which NumPy was tried on: run with -rewrite, then testdata/reference.py: %v", golden, err)
	}
	f, err := npz.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(f.Tensors(), some) {
		t.Errorf("got %v, want %v", f.Tensors(), some)
	}
	for _, x := range some {
		b := make([]byte, x.Bytes())
		if err := f.Read(x.Name, b); err != nil || !bytes.Equal(b, data[x.Name]) {
			t.Errorf("%q is % x, %v", x.Name, b, err)
		}
	}
	for _, c := range []struct {
		n      int
		offset int64
	}{{9, 0}, {1, 8}, {1, -1}, {0, 9}} {
		if err := f.ReadAt("count", make([]byte, c.n), c.offset); !errors.Is(err, npz.ErrOption) {
			t.Errorf("%d bytes from %d: got %v, want ErrOption", c.n, c.offset, err)
		}
	}
	if err := f.ReadAt("none", nil, 0); !errors.Is(err, npz.ErrOption) {
		t.Errorf("no such array: got %v", err)
	}
	if err := errors.Join(f.Verify(t.Context()), f.Close(), f.Close()); err != nil {
		t.Error(err)
	}
	for _, err := range []error{f.Read("half", make([]byte, 4)), f.Verify(t.Context())} {
		if !errors.Is(err, npz.ErrClosed) {
			t.Errorf("after Close: got %v, want ErrClosed", err)
		}
	}
}

func TestMistakesOfAWriterAreErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npz")
	bad := []safetensors.Tensor{{Name: "a", DType: "BF16"}, {Name: "b", DType: "F8_E4M3"}, {Name: "c", DType: "F32", Shape: []int{-1}}, {Name: "d", DType: "U8"}, {Name: "d", DType: "U8"},
		{Name: "\xff", DType: "U8"}, {Name: "e", DType: "F64", Shape: []int{1 << 40, 1 << 40}}}
	err := npz.Create(t.Context(), path, bad, npz.CreateOptions{}, fill)
	if !errors.Is(err, npz.ErrOption) {
		t.Fatalf("got %v, want ErrOption", err)
	}
	for _, part := range []string{`"a": NumPy has no type BF16`, `"b": NumPy has no type F8_E4M3`, "dimension -1", `"d" occurs twice`, `"\xff"`, `"e"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in\n%v", part, err)
		}
	}
	own := errors.New("own")
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for what, c := range map[string]struct {
		ctx  context.Context
		fill func(safetensors.Tensor, io.Writer) error
		want error
	}{
		"too many":  {t.Context(), func(_ safetensors.Tensor, w io.Writer) error { _, err := w.Write(make([]byte, 25)); return err }, npz.ErrOption},
		"too few":   {t.Context(), func(_ safetensors.Tensor, w io.Writer) error { return nil }, npz.ErrOption},
		"own":       {t.Context(), func(safetensors.Tensor, io.Writer) error { return own }, own},
		"cancelled": {done, fill, context.Canceled},
		"nil":       {t.Context(), nil, npz.ErrOption},
	} {
		if err := npz.Create(c.ctx, path, some, npz.CreateOptions{}, c.fill); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", what, err, c.want)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file is there: %v", err)
	}
}

// Every call of the file system fails in turn: the former file is there, or the whole new one.
func TestTheFormerFileSurvivesAnyFault(t *testing.T) {
	count := &atomicfile.Faults{NoSync: true}
	path := filepath.Join(t.TempDir(), "x.npz")
	if err := npz.Create(t.Context(), path, some, npz.CreateOptions{FS: count}, fill); err != nil {
		t.Fatal(err)
	}
	for n := range count.Calls() {
		path := filepath.Join(t.TempDir(), "x.npz")
		if err := npz.Create(t.Context(), path, some[:1], npz.CreateOptions{FS: &atomicfile.Faults{NoSync: true}}, fill); err != nil {
			t.Fatal(err)
		}
		faults := &atomicfile.Faults{NoSync: true, Short: 1, Fail: func(i int, _, _ string) error {
			if i == n {
				return syscall.ENOSPC
			}
			return nil
		}}
		if err := npz.Create(t.Context(), path, some, npz.CreateOptions{FS: faults}, fill); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("call %d: got %v", n, err)
		}
		f, err := npz.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(f.Tensors()); got != 1 && got != len(some) {
			t.Errorf("call %d: %d arrays", n, got)
		}
		if err := errors.Join(f.Verify(t.Context()), f.Close()); err != nil {
			t.Error(err)
		}
	}
}

// archive returns a zip archive of one array whose directory says other sizes than the entry has.
func archive(t *testing.T, method uint16, content []byte, size uint64) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.CreateRaw(&zip.FileHeader{Name: "a.npy", Method: method, CompressedSize64: uint64(len(content)), UncompressedSize64: size})
	if err == nil {
		_, err = w.Write(content)
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// deflated compresses bytes.
func deflated(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err == nil {
		_, err = w.Write(data)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// An archive cannot make the reader allocate more than deflate could have made of its bytes.
func TestSizesThatCannotBeAreRefused(t *testing.T) {
	header := []byte("\x93NUMPY\x01\x00\x76\x00{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }")
	header = append(header, bytes.Repeat([]byte{' '}, 128-len(header))...)
	for what, b := range map[string][]byte{
		"stored":   archive(t, zip.Store, header, 8e12+128),
		"deflated": archive(t, zip.Deflate, deflated(t, header), 8e12+128),
		"method":   archive(t, 12, header, 128),
	} {
		f, err := parse(b)
		if f != nil || !errors.Is(err, npz.ErrFormat) || what != "method" && !strings.Contains(err.Error(), "cannot be 8000000000128") {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

// What is read without an error is written again and is the same; every error of a file is a
// *FormatError.
func FuzzNewFile(f *testing.F) {
	for _, name := range []string{"testdata/written.npz"} {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := parse(b)
		if err == nil {
			err = in.Verify(t.Context())
		}
		if err != nil {
			if !errors.Is(err, npz.ErrFormat) {
				t.Fatalf("got %v", err)
			}
			return
		}
		total := int64(0)
		for _, x := range in.Tensors() {
			total += x.Bytes()
		}
		if total > 1<<26 {
			return
		}
		path := filepath.Join(t.TempDir(), "x.npz")
		err = npz.Create(t.Context(), path, in.Tensors(), npz.CreateOptions{FS: &atomicfile.Faults{NoSync: true}}, func(x safetensors.Tensor, w io.Writer) error {
			b := make([]byte, x.Bytes())
			if err := in.Read(x.Name, b); err != nil {
				return err
			}
			_, err := w.Write(b)
			return err
		})
		if errors.Is(err, npz.ErrOption) {
			return // a name that is not UTF-8
		}
		if err != nil {
			t.Fatal(err)
		}
		out, err := npz.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := out.Tensors(), in.Tensors(); len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
