package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/images"
	"github.com/evenkeel/evenkeel/dataloader/pack"
)

// numbers returns the elements of all samples of a pack, by field.
func numbers(t testing.TB, path string, opt pack.Options) map[string][]float64 {
	t.Helper()
	d, err := pack.Open(path, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	all := map[string][]float64{}
	for i := range d.Len() {
		var dst [][]byte
		for _, f := range d.Fields() {
			dst = append(dst, make([]byte, f.Bytes()))
		}
		if err := d.Fetch(t.Context(), dataloader.At{Index: i}, dst); err != nil {
			t.Fatal(err)
		}
		for k, f := range d.Fields() {
			all[f.Name] = append(all[f.Name], elements(f.Type, dst[k])...)
		}
	}
	return all
}

// elements returns the numbers of a field.
func elements(t arena.DType, b []byte) (all []float64) {
	switch t {
	case arena.Uint8:
		return convert(b)
	case arena.Int32:
		return convert(dataloader.View[int32](b))
	case arena.Int64:
		return convert(dataloader.View[int64](b))
	case arena.Float64:
		return convert(dataloader.View[float64](b))
	}
	return convert(dataloader.View[float32](b))
}

func convert[T uint8 | int32 | int64 | float32 | float64](xs []T) (all []float64) {
	for _, x := range xs {
		all = append(all, float64(x))
	}
	return all
}

// put writes a file and returns its path.
func put(t testing.TB, dir, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// compressed returns text in gzip or zstd.
func compressed(t testing.TB, kind, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&b)
	if kind == ".zst" {
		var err error
		if w, err = zstd.NewWriter(&b); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestTablesArePacked(t *testing.T) {
	dir := inputs(t)
	lines := `{"a":1.5,"m":{"k":"dog","v":[1,2]}}` + "\n" + `{"a":-1,"m":{"k":"cat","v":[3,4]}}` + "\n" + `{"m":{"v":[5,6]}}` + "\n"
	var tokens []byte
	for i := range 7 {
		tokens = binary.LittleEndian.AppendUint32(tokens, uint32(i*70_000))
	}
	csv := filepath.Join(dir, "table.csv")
	for name, c := range map[string]struct {
		args []string
		want map[string][]float64
	}{
		"csv": {[]string{"-columns", "b,y=kind:class?-1,a:float64?0.5", "-missing", "NA,null", csv},
			map[string][]float64{"b": {2, 4, 5}, "y": {1, 0, -1}, "a": {1.5, -1, 0.5}}},
		"a vector of csv": {[]string{"-columns", "x=b;b:uint8", csv}, map[string][]float64{"x": {2, 2, 4, 4, 5, 5}}},
		"all of csv":      {[]string{put(t, dir, "all.tsv", []byte("a\tb,c\n1\t2\n"))}, map[string][]float64{"a": {1}, "b,c": {2}}},
		"odd names":       {[]string{"-columns", `"x=b,c",a:b:int32`, put(t, dir, "odd.tsv", []byte("a:b\tb,c\n1\t2\n"))}, map[string][]float64{"a:b": {1}, "x": {2}}},
		"jsonl":           {[]string{"-columns", "a:?7,y=m.k:class?-1,v=m.v:uint8[2]", put(t, dir, "l.jsonl", []byte(lines))}, nil},
		"jsonl.gz":        {[]string{"-columns", "a:?7,y=m.k:class?-1,v=m.v:uint8[2]", put(t, dir, "l.jsonl.gz", compressed(t, ".gz", lines))}, nil},
		"ndjson.zst":      {[]string{"-columns", "a:?7,y=m.k:class?-1,v=m.v:uint8[2]", put(t, dir, "l.ndjson.zst", compressed(t, ".zst", lines))}, nil},
		"json, by -format": {[]string{"-format", "jsonl", "-columns", "v=m.v:[2]", put(t, dir, "l.json", []byte(lines))},
			map[string][]float64{"v": {1, 2, 3, 4, 5, 6}}},
		"tokens": {[]string{"-window", "3", "-bits", "32", put(t, dir, "t.bin", tokens)},
			map[string][]float64{"x": {0, 70_000, 140_000, 210_000, 280_000, 350_000}, "y": {70_000, 140_000, 210_000, 280_000, 350_000, 420_000}}},
	} {
		if c.want == nil {
			c.want = map[string][]float64{"a": {1.5, -1, 7}, "y": {1, 0, -1}, "v": {1, 2, 3, 4, 5, 6}}
		}
		out := filepath.Join(dir, "out.pack")
		do(t, append([]string{"-o", out}, c.args...)...)
		got := numbers(t, out, pack.Options{Verify: true})
		for field, want := range c.want {
			if !slices.Equal(got[field], want) || len(got) != len(c.want) {
				t.Errorf("%s: field %q is %v, want %v", name, field, got[field], want)
			}
		}
		if text := do(t, "-info", out); (c.want["y"] != nil && name != "tokens") != strings.Contains(text, `y            int32, 2 classes: ["cat" "dog"]`) {
			t.Errorf("%s: -info printed %q", name, text)
		}
	}
	out := filepath.Join(dir, "out.pack")
	do(t, "-q", "-o", out, "../../dataloader/npy/testdata/v1.npy")
	if text := do(t, "-q", "-info", out); text != "" {
		t.Errorf("-q printed %q", text)
	}
}

// Images of a Parquet file are decoded by the command, or stay as they are.
func TestImagesOfParquetArePacked(t *testing.T) {
	const file = "../../dataloader/parquet/testdata/images.parquet"
	out := filepath.Join(t.TempDir(), "out.pack")
	do(t, "-o", out, "-size", "4x3", "-columns", "x=image:image,label", file)
	want := numbers(t, out, pack.Options{})
	do(t, "-o", out, "-encoded", "-columns", "label,x=image:image", file)
	p, err := images.New(images.Options{Height: 4, Width: 3})
	if err != nil {
		t.Fatal(err)
	}
	got := numbers(t, out, pack.Options{Verify: true, Decoders: map[string]dataloader.Decoder{"x": p}})
	if len(want["x"]) != 12*3*4*3 || !slices.Equal(got["x"], want["x"]) || !slices.Equal(got["label"], want["label"]) {
		t.Errorf("%d numbers of images, %d encoded", len(want["x"]), len(got["x"]))
	}
}

func TestTextsOfParquetBecomeLabels(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.pack")
	do(t, "-o", out, "-columns", "y=label:class,coded:class", "../../dataloader/parquet/testdata/rules.parquet")
	info, err := pack.Stat(out)
	if want := []string{"cat", "dog", "ox"}; err != nil || !slices.Equal(info.Classes["y"], want) || !slices.Equal(info.Classes["coded"], want) {
		t.Errorf("got %q, %v", info.Classes, err)
	}
}

// The names of classes come from a pack or a text, for every format with labels.
func TestNamesOfClassesAreGiven(t *testing.T) {
	dir := inputs(t)
	names := put(t, dir, "names.txt", []byte("dog\r\nbird\ncat"))
	csv := put(t, dir, "kinds.csv", []byte("k,l\ncat,dog\ndog,dog\n"))
	lines := put(t, dir, "kinds.jsonl", []byte(`{"k":"cat"}`+"\n"+`{"k":"dog"}`))
	first := filepath.Join(dir, "first.pack")
	do(t, "-o", first, "-columns", "y=k:class", "-classes", names, csv)
	do(t, "-o", filepath.Join(dir, "letters.pack"), "-size", "2x2", filepath.Join(dir, "photos"))
	if err := os.RemoveAll(filepath.Join(dir, "photos", "a")); err != nil {
		t.Fatal(err)
	}
	listed := []string{"dog", "bird", "cat"}
	for name, c := range map[string]struct {
		args    []string
		labels  []float64
		classes []string
	}{
		"a text":            {[]string{"-columns", "y=k:class", "-classes", names, csv}, []float64{2, 0}, listed},
		"a pack":            {[]string{"-columns", "y=k:class", "-classes", first, csv}, []float64{2, 0}, listed},
		"jsonl":             {[]string{"-columns", "y=k:class", "-classes", first, lines}, []float64{2, 0}, listed},
		"one of two fields": {[]string{"-columns", "y=k:class,l:class", "-classes", "y=" + names, csv}, []float64{2, 0}, listed},
		"of a pack":         {[]string{"-columns", "y=k:class,l:class", "-classes", "y=" + first, csv}, []float64{2, 0}, listed},
		"a folder":          {[]string{"-size", "2x2", "-classes", filepath.Join(dir, "letters.pack"), filepath.Join(dir, "photos")}, []float64{1, 1, 1}, []string{"a", "b"}},
		"shards":            {[]string{"-size", "2x2", "-classes", names, dir + "/train-1.tar"}, []float64{1, 1, 1}, listed},
		"parquet": {[]string{"-columns", "y=label:class", "-classes", put(t, dir, "animals.txt", []byte("ox\ndog\ncat\n")), "../../dataloader/parquet/testdata/rules.parquet"},
			nil, []string{"ox", "dog", "cat"}},
	} {
		out := filepath.Join(dir, "out.pack")
		do(t, append([]string{"-o", out}, c.args...)...)
		info, err := pack.Stat(out)
		if err != nil || !slices.Equal(info.Classes["y"], c.classes) {
			t.Errorf("%s: classes %q, %v, want %q", name, info.Classes["y"], err, c.classes)
		}
		if got := numbers(t, out, pack.Options{})["y"]; c.labels != nil && !slices.Equal(got, c.labels) {
			t.Errorf("%s: labels %v, want %v", name, got, c.labels)
		}
	}
	for want, args := range map[string][]string{
		"one of 1 classes":                {"-columns", "y=k:class", "-classes", put(t, dir, "dog.txt", []byte("dog\n")), csv},
		"line 2 at byte 4: want the name": {"-columns", "y=k:class", "-classes", put(t, dir, "gap.txt", []byte("dog\n\ncat\n")), csv},
		"names of classes":                {"-columns", "y=k:class", "-classes", put(t, dir, "empty.txt", nil), csv},
		"at most 1048576 bytes":           {"-columns", "y=k:class", "-classes", put(t, dir, "long.txt", make([]byte, 1<<20+1)), csv},
		"2 fields with labels":            {"-columns", "y=k:class,l:class", "-classes", names, csv},
		"0 fields with labels":            {"-columns", "k", "-classes", names, csv},
		`no names for a field`:            {"-columns", "y=k:class", "-classes", "z=" + names, csv},
		`which are ["z"]`:                 {"-columns", "z=k:class", "-classes", first, csv},
		`field "y" has a list`:            {"-columns", "y=k:class", "-classes", first, "-classes", names, csv},
		`class "dog" occurs twice`:        {"-columns", "y=k:class", "-classes", put(t, dir, "twice.txt", []byte("dog\ncat\ndog")), csv},
		"want a regular file":             {"-columns", "y=k:class", "-classes", dir, csv},
		"-classes: format npy does not":   {"-classes", names, "../../dataloader/npy/testdata/v1.npy"},
		"\"\\xff\", must be UTF-8":        {"-columns", "y=k:class", "-classes", put(t, dir, "odd.txt", []byte("cat\ndog\n\xff")), csv},
		"the labels of found classes":     {"-columns", "y=k:class?0", csv},
		"must be a label of the 3 class":  {"-columns", "y=k:class?3", "-classes", names, csv},
	} {
		err := run(t.Context(), append([]string{"-o", filepath.Join(dir, "no.pack")}, args...), io.Discard, io.Discard)
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q: got %v, want %q", args, err, want)
		}
	}
	if err := run(t.Context(), []string{"-o", filepath.Join(dir, "no.pack"), "-columns", "y=k:class", "-classes", "missing.txt", csv}, io.Discard, io.Discard); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing list: got %v", err)
	}
}

func TestColumnsAreParsed(t *testing.T) {
	for _, spec := range []string{"", "a,", ",a", "a,,b", "a\nb", `"a`, "=a", "a=", "a:", "a:float33", "a:class[", "a:class[0]", "a:[1x]", "a:[-1]", "a:[1]2", "a:?", "a:?x", "a:image?b?c", ":class"} {
		if all, err := parseColumns(spec); (err == nil) != (spec == "") || spec != "" && !errors.Is(err, errUsage) {
			t.Errorf("%q: got %+v, %v", spec, all, err)
		}
	}
	all, err := parseColumns(`a,b=c.d:bfloat16[2x3]?-1.5,"e,f:image",g=h=i:class`)
	if err != nil || len(all) != 4 {
		t.Fatalf("%+v, %v", all, err)
	}
	b := all[1]
	if b.field != "b" || b.name != "c.d" || !b.renamed || b.dtype != arena.BFloat16 || !slices.Equal(b.shape, []int{2, 3}) || *b.fill != -1.5 || b.isClass || b.isImage {
		t.Errorf("%+v", b)
	}
	if a := all[0]; a.field != "a" || a.name != "a" || a.renamed || a.dtype != 0 || a.shape != nil || a.fill != nil {
		t.Errorf("%+v", a)
	}
	if e, g := all[2], all[3]; e.name != "e,f" || !e.isImage || g.field != "g" || g.name != "h=i" || !g.isClass {
		t.Errorf("%+v, %+v", e, g)
	}
}
