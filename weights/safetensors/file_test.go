package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/weights/safetensors"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/written.safetensors anew; then run testdata/reference.py, which reads it")

// raw returns a file with the given header text and data.
func raw(header string, data ...byte) []byte {
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), data...)
}

// parse opens a file in memory.
func parse(b []byte) (*safetensors.File, error) {
	return safetensors.NewFile(bytes.NewReader(b), int64(len(b)))
}

// written returns the file of some tensors, with data that count upwards.
func written(t testing.TB, metadata map[string]string, tensors ...safetensors.Tensor) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := safetensors.NewWriter(&b, tensors, metadata)
	if err != nil {
		t.Fatal(err)
	}
	n := byte(0)
	for _, x := range w.Tensors() {
		for range x.Bytes() {
			if _, err := w.Write([]byte{n}); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if int64(b.Len()) != w.Bytes() {
		t.Fatalf("%d bytes, announced %d", b.Len(), w.Bytes())
	}
	file := b.Bytes()
	if digits, at := w.Checksum(); at > 0 {
		copy(file[at:], digits)
	}
	return file
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	tensors := []safetensors.Tensor{
		{Name: "half", DType: safetensors.BFloat16, Shape: []int{3}},
		{Name: "b", DType: safetensors.Float32, Shape: []int{2}},
		{Name: "a \"\x00é\U0001f600<", DType: safetensors.Float32, Shape: []int{}},
		{Name: "", DType: safetensors.Float64, Shape: []int{1, 1}},
		{Name: "none", DType: safetensors.Int64, Shape: []int{0, 1 << 40}},
		{Name: "small", DType: safetensors.F4, Shape: []int{2}},
	}
	f, err := parse(written(t, map[string]string{"format": "pt", "é\n": "\""}, tensors...))
	if err != nil {
		t.Fatal(err)
	}
	// By falling size of elements, then by name; empty tensors are where they are.
	want := []safetensors.Tensor{tensors[3], tensors[4], tensors[2], tensors[1], tensors[0], tensors[5]}
	if got := f.Tensors(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := f.Metadata(); !reflect.DeepEqual(got, map[string]string{"format": "pt", "é\n": "\""}) {
		t.Errorf("metadata %q", got)
	}
	got := make([]byte, 8)
	if err := f.Read("b", got); err != nil || !bytes.Equal(got, []byte{12, 13, 14, 15, 16, 17, 18, 19}) {
		t.Errorf("b is %v, %v", got, err)
	}
	if err := f.ReadAt("b", got[:2], 6); err != nil || !bytes.Equal(got[:2], []byte{18, 19}) {
		t.Errorf("the end of b is %v, %v", got[:2], err)
	}
	if x, ok := f.Find("small"); !ok || x.Bytes() != 1 || x.String() != "F4 [2]" {
		t.Errorf("small is %v, %v", x, ok)
	}
	if _, ok := f.Find("c"); ok {
		t.Error("c is found")
	}
}

// testdata/reference.py reads this file by Python's safetensors.
func TestTheWrittenFileIsTheOneThatPythonReads(t *testing.T) {
	got := written(t, map[string]string{"format": "pt", "note": "é\n\"", safetensors.ChecksumKey: ""},
		safetensors.Tensor{Name: "hidden/w", DType: safetensors.Float32, Shape: []int{2, 1}},
		safetensors.Tensor{Name: "é\x00\"<", DType: safetensors.BFloat16, Shape: []int{3}},
		safetensors.Tensor{Name: "count", DType: safetensors.Int64, Shape: []int{}},
		safetensors.Tensor{Name: "none", DType: safetensors.Float64, Shape: []int{0, 3}},
		safetensors.Tensor{Name: "flags", DType: safetensors.Bool, Shape: []int{1}})
	const golden = "testdata/written.safetensors"
	if *rewrite {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the file differs from %s: run with -rewrite, then testdata/reference.py: %v\n%q", golden, err, got)
	}
}

func TestReadsOutsideATensorAreRefused(t *testing.T) {
	f, err := parse(written(t, nil, safetensors.Tensor{Name: "a", DType: safetensors.Uint8, Shape: []int{4}}))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		n       int
		offset  int64
		refused bool
	}{{"a", 4, 0, false}, {"a", 0, 4, false}, {"a", 1, 3, false}, {"a", 2, 3, true}, {"a", 5, 0, true}, {"a", 0, 5, true}, {"a", 1, -1, true}, {"b", 0, 0, true}} {
		if err := f.ReadAt(c.name, make([]byte, c.n), c.offset); errors.Is(err, safetensors.ErrOption) != c.refused || !c.refused && err != nil {
			t.Errorf("%+v: got %v", c, err)
		}
	}
	for _, n := range []int{3, 5} {
		if err := f.Read("a", make([]byte, n)); !errors.Is(err, safetensors.ErrOption) {
			t.Errorf("%d bytes: got %v, want ErrOption", n, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := f.Read("a", make([]byte, 4)); !errors.Is(err, safetensors.ErrClosed) {
		t.Errorf("after Close: got %v, want ErrClosed", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func TestTheWriterRefusesAllMistakesAtOnce(t *testing.T) {
	var b bytes.Buffer
	_, err := safetensors.NewWriter(&b, []safetensors.Tensor{
		{Name: "a", DType: "f32"},
		{Name: "b", DType: safetensors.Uint8}, {Name: "b", DType: safetensors.Uint8},
		{Name: "c", DType: safetensors.Uint8, Shape: []int{-1}},
		{Name: "d", DType: safetensors.F4, Shape: []int{3}},
		{Name: "e", DType: safetensors.Float64, Shape: []int{1 << 40, 1 << 40}},
		{Name: "\xff", DType: safetensors.Uint8}, {Name: "__metadata__", DType: safetensors.Uint8},
	}, map[string]string{"\xfe": ""})
	if !errors.Is(err, safetensors.ErrOption) || b.Len() > 0 {
		t.Fatalf("got %v and %d bytes", err, b.Len())
	}
	for _, part := range []string{`"a": unknown type "f32"`, `"b" occurs twice`, "dimension -1", `F4 [3] does not end on a byte`, "2^64", `"\xff": the name is not UTF-8`, `"__metadata__"`, `metadata "\xfe"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in:\n%v", part, err)
		}
	}
}

func TestTheWriterCountsBytes(t *testing.T) {
	var b bytes.Buffer
	w, err := safetensors.NewWriter(&b, []safetensors.Tensor{{Name: "a", DType: safetensors.Uint8, Shape: []int{2}}, {Name: "b", DType: safetensors.Uint8, Shape: []int{2}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); !errors.Is(err, safetensors.ErrOption) || !strings.Contains(err.Error(), `"b": 1 of its bytes`) {
		t.Errorf("one byte is missing: got %v", err)
	}
	before := b.Len()
	if _, err := w.Write(make([]byte, 2)); !errors.Is(err, safetensors.ErrOption) || b.Len() != before {
		t.Errorf("one byte too many: got %v and %d bytes", err, b.Len()-before)
	}
	if _, err := w.Write(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func TestAFileOnDiskIsOpenedByItsFolder(t *testing.T) {
	dir := t.TempDir()
	if _, err := safetensors.Open(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty folder: got %v", err)
	}
	path := filepath.Join(dir, "x.safetensors")
	if _, err := safetensors.Open(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: got %v", err)
	}
	if err := os.WriteFile(path, written(t, nil, safetensors.Tensor{Name: "a", DType: safetensors.Uint8, Shape: []int{1}}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, dir} {
		f, err := safetensors.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Tensors()) != 1 {
			t.Errorf("%s: %v", p, f.Tensors())
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "y.safetensors"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := safetensors.Open(dir); !errors.Is(err, safetensors.ErrOption) {
		t.Errorf("two files: got %v", err)
	}
}
