package npy_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/npy"
	"github.com/evenkeel/evenkeel/dataloader/table"
	"github.com/evenkeel/evenkeel/internal/cputest"
)

// open opens a file of testdata.
func open(t testing.TB, name string, opt npy.Options) *npy.Dataset {
	t.Helper()
	ds, err := npy.Open(filepath.Join("testdata", name), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ds.Close(); err != nil {
			t.Error(err)
		}
	})
	return ds
}

// numbers returns all elements of all samples, by field.
func numbers(t testing.TB, ds dataloader.Dataset) map[string][]float64 {
	t.Helper()
	all := map[string][]float64{}
	for i := range ds.Len() {
		var dst [][]byte
		for _, f := range ds.Fields() {
			dst = append(dst, make([]byte, f.Bytes()))
		}
		if err := ds.Fetch(t.Context(), dataloader.At{Index: i}, dst); err != nil {
			t.Fatal(err)
		}
		for k, f := range ds.Fields() {
			all[f.Name] = append(all[f.Name], floats(f.Type, dst[k])...)
		}
	}
	return all
}

func floats(d arena.DType, b []byte) []float64 {
	switch d {
	case arena.Float64:
		return as[float64](b)
	case arena.Float32:
		return as[float32](b)
	case arena.Uint8:
		return as[uint8](b)
	case arena.Int32:
		return as[int32](b)
	case arena.Int64:
		return as[int64](b)
	case arena.Float16: // of numbers that are neither 0 nor tiny
		var xs []float64
		for i := 0; i < len(b); i += 2 {
			h := uint16(b[i]) | uint16(b[i+1])<<8
			xs = append(xs, math.Ldexp(float64(h&0x3ff|0x400), int(h>>10)-25))
		}
		return xs
	}
	return nil
}

func as[T dataloader.Element](b []byte) (xs []float64) {
	for _, x := range dataloader.View[T](b) {
		xs = append(xs, float64(x))
	}
	return xs
}

func TestEveryTypeIsReadByItsRule(t *testing.T) {
	want := map[string]arena.DType{"bool": arena.Uint8, "u1": arena.Uint8, "i1": arena.Int32, "u2": arena.Int32, "i2": arena.Int32, "u4": arena.Int64,
		"i4": arena.Int32, "u8": arena.Int64, "i8": arena.Int64, "f2": arena.Float16, "f4": arena.Float32, "f8": arena.Float64}
	for _, unmapped := range []bool{false, true} {
		ds := open(t, "types.npz", npy.Options{Unmapped: unmapped})
		if len(ds.Fields()) != len(want) {
			t.Fatalf("fields %v", ds.Fields())
		}
		all := numbers(t, ds)
		for _, f := range ds.Fields() {
			if f.Type != want[f.Name] || !slices.Equal(f.Shape, []int{2, 3}) {
				t.Errorf("%s is %v %v, want %v", f.Name, f.Type, f.Shape, want[f.Name])
			}
			var numbers []float64
			for i := range 30 {
				if f.Name == "bool" {
					numbers = append(numbers, float64(i%2))
				} else {
					numbers = append(numbers, float64(1+i*37%97))
				}
			}
			if !slices.Equal(all[f.Name], numbers) {
				t.Errorf("%s: got %v, want %v", f.Name, all[f.Name], numbers)
			}
		}
	}
}

func TestOrdersEndiansAndCompressionGiveTheSameNumbers(t *testing.T) {
	types := numbers(t, open(t, "types.npz", npy.Options{}))
	orders := numbers(t, open(t, "orders.npz", npy.Options{}))
	compressed := numbers(t, open(t, "compressed.npz", npy.Options{}))
	for name, pair := range map[string][2][]float64{
		"fortran": {orders["fortran"], types["f4"]}, "big": {orders["big"], types["i4"]}, "both": {orders["both"], types["f8"]},
		"plain": {orders["plain"], types["f4"]}, "compressed": {compressed["x"], types["f4"]}, "y": {compressed["y"], {0, 1, 2, 3, 4}},
	} {
		if !slices.Equal(pair[0], pair[1]) {
			t.Errorf("%s: got %v, want %v", name, pair[0], pair[1])
		}
	}
	for v := 1; v <= 3; v++ {
		name := fmt.Sprintf("v%d", v)
		if got := numbers(t, open(t, name+".npy", npy.Options{}))[name]; len(got) != 20 || got[19] != 19 || got[7] != 7 {
			t.Errorf("version %d: %v", v, got)
		}
	}
}

func TestColumnsBecomeTheFieldsThatTheySay(t *testing.T) {
	ds := open(t, "compressed.npz", npy.Options{Columns: []table.Column{{Name: "y", Field: "label", Type: arena.Int64}, {Name: "x", Shape: []int{6}, Scale: 2}}})
	f := ds.Fields()
	if len(f) != 2 || f[0].Name != "label" || f[0].Type != arena.Int64 || f[0].Shape != nil || f[1].Name != "x" || !slices.Equal(f[1].Shape, []int{6}) || f[1].Scale != 2 {
		t.Errorf("fields %+v", f)
	}
	if got := numbers(t, ds)["label"]; !slices.Equal(got, []float64{0, 1, 2, 3, 4}) {
		t.Errorf("labels %v", got)
	}
	pair := open(t, "[lv][a1]*.npy", npy.Options{}) // labels.npy and v1.npy
	if f := pair.Fields(); len(f) != 2 || f[0].Name != "labels" || f[1].Name != "v1" || pair.Len() != 5 {
		t.Errorf("two files: %+v, %d samples", pair.Fields(), pair.Len())
	}
	if got := numbers(t, pair); got["labels"][4] != 4 || got["v1"][19] != 19 {
		t.Errorf("two files: %v", got)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for _, c := range []struct {
		file string
		opt  npy.Options
		is   error
		text string
	}{
		{"scalar.npy", npy.Options{}, dataloader.ErrField, "is one number: its first dimension must be the samples"},
		{"empty.npy", npy.Options{}, dataloader.ErrEmpty, "empty.npy"},
		{"text.npy", npy.Options{}, dataloader.ErrFormat, `type "U2" is not supported`},
		{"date.npy", npy.Options{}, dataloader.ErrFormat, `type "M8[D]" is not supported`},
		{"complex.npy", npy.Options{}, dataloader.ErrField, "elements of type C64"},
		{"struct.npy", npy.Options{}, dataloader.ErrFormat, "a structured array: save each of its fields as an array"},
		{"object.npy", npy.Options{}, dataloader.ErrFormat, "an array of Python objects, a pickle: it can run code, so that it is refused"},
		{"none.npy", npy.Options{}, os.ErrNotExist, "none.npy"},
		{"make.py", npy.Options{}, dataloader.ErrFormat, "make.py"},
		{"types.npz", npy.Options{Columns: []table.Column{{Name: "z"}}}, dataloader.ErrField, "z"},
		{"compressed.npz", npy.Options{Memory: 100}, dataloader.ErrOption, `compressed.npz: array "x" is compressed`},
		{"compressed.npz", npy.Options{Memory: 139}, dataloader.ErrOption, `compressed.npz: array "y" is compressed`},
		{"compressed.npz", npy.Options{Memory: 140}, nil, ""},
		{"v1.npy", npy.Options{Memory: -1}, dataloader.ErrOption, "memory of -1 bytes"},
		{"[ln]*e*.npy", npy.Options{}, dataloader.ErrField, `"negative": the array has 1 samples, and "labels" has 5`},
		{"[ln]*e*.npy", npy.Options{Columns: []table.Column{{Name: "negative"}, {Name: "labels"}}}, dataloader.ErrField, "the array has 5 samples"},
		{"v1.npy", npy.Options{Columns: []table.Column{{Name: "v1", Shape: []int{3}}}}, dataloader.ErrField, "3"},
	} {
		ds, err := npy.Open(filepath.Join("testdata", c.file), c.opt)
		if c.is == nil {
			if err != nil {
				t.Errorf("%s: %v", c.file, err)
			} else {
				ds.Close()
			}
			continue
		}
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) || ds != nil {
			t.Errorf("%s: got %v, want %q", c.file, err, c.text)
		}
	}
	ds := open(t, "negative.npy", npy.Options{Columns: []table.Column{{Name: "negative", Type: arena.Uint8}}})
	err := ds.Fetch(t.Context(), dataloader.At{}, [][]byte{make([]byte, 2)})
	var bad *dataloader.FormatError
	if !errors.As(err, &bad) || bad.Offset != 128+8 || !strings.Contains(err.Error(), `element 1 of sample 0 of field "negative" at byte 136`) {
		t.Errorf("a value below 0 as uint8: %v", err)
	}
	for _, i := range []int{-1, 1} {
		if err := ds.Fetch(t.Context(), dataloader.At{Index: i}, [][]byte{make([]byte, 2)}); !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("sample %d: got %v", i, err)
		}
	}
}

// A header may state any shape: nothing is allocated for one that the file does not have.
func TestAShapeIsComparedWithTheFile(t *testing.T) {
	for _, shape := range []string{"(10000000000000000000000,)", "(100000, 100000, 100000)", "(3,)", "(1,)", "(4294967296, 4294967296)"} {
		header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': True, 'shape': %s, }", shape)
		b := fmt.Appendf(nil, "\x93NUMPY\x01\x00v\x00%-117s\n12345678", header)
		_, err := npy.OpenFS(fstest.MapFS{"a.npy": {Data: b}}, "a.npy", npy.Options{})
		if !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), "a.npy: byte") {
			t.Errorf("%s: got %v", shape, err)
		}
	}
}

func TestFetchAllocatesNothing(t *testing.T) {
	if cputest.Race {
		t.Skip("with the race detector a sync.Pool forgets some of what it gets: run without -race")
	}
	for _, name := range []string{"types.npz", "orders.npz", "v1.npy"} {
		for _, unmapped := range []bool{false, true} {
			ds := open(t, name, npy.Options{Unmapped: unmapped})
			var dst [][]byte
			for _, f := range ds.Fields() {
				dst = append(dst, make([]byte, f.Bytes()))
			}
			if n := testing.AllocsPerRun(100, func() {
				if err := ds.Fetch(t.Context(), dataloader.At{Index: 3}, dst); err != nil {
					t.Fatal(err)
				}
			}); n != 0 {
				t.Errorf("%s, unmapped %v: %v allocations", name, unmapped, n)
			}
		}
	}
}

func TestFingerprintsTellFilesAndColumnsApart(t *testing.T) {
	a, b := dataloader.Fingerprint(open(t, "types.npz", npy.Options{})), dataloader.Fingerprint(open(t, "types.npz", npy.Options{Unmapped: true}))
	c := dataloader.Fingerprint(open(t, "types.npz", npy.Options{Columns: []table.Column{{Name: "f4"}}}))
	d := dataloader.Fingerprint(open(t, "types.npz", npy.Options{Columns: []table.Column{{Name: "i4", Field: "f4", Type: arena.Float32}}}))
	if a != b || a == c || c == d {
		t.Errorf("%x %x %x %x", a, b, c, d)
	}
}

// FuzzOpen reads files of any bytes, as one array and as an archive.
func FuzzOpen(f *testing.F) {
	for _, name := range []string{"v1.npy", "types.npz", "orders.npz", "compressed.npz", "object.npy"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, name := range []string{"a.npy", "a.npz"} {
			ds, err := npy.OpenFS(fstest.MapFS{name: {Data: b}}, name, npy.Options{Memory: 1 << 20})
			if err != nil {
				continue
			}
			var dst [][]byte
			for _, f := range ds.Fields() {
				dst = append(dst, make([]byte, f.Bytes()))
			}
			ds.Fetch(t.Context(), dataloader.At{Index: ds.Len() - 1}, dst)
			ds.Close()
		}
	})
}

func ExampleOpen() {
	ds, err := npy.Open("testdata/labels.npy", npy.Options{})
	if err != nil {
		panic(err)
	}
	defer ds.Close()
	label := make([]byte, 1)
	if err := ds.Fetch(context.Background(), dataloader.At{Index: 3}, [][]byte{label}); err != nil {
		panic(err)
	}
	fmt.Println(ds.Len(), ds.Fields()[0].Name, label[0])
	// Output: 5 labels 3
}
