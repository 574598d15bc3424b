package jsonl_test

import (
	"bytes"
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

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/jsonl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// parse opens a text as a file.
func parse(name, text string, opt jsonl.Options) (*jsonl.Dataset, error) {
	return jsonl.OpenFS(fstest.MapFS{name: {Data: []byte(text)}}, name, opt)
}

// first returns the error of the first sample that has one.
func first(ds dataloader.Dataset) error {
	_, err := rows(ds)
	return err
}

// rows returns the fields of all samples as numbers.
func rows(ds dataloader.Dataset) (all [][]float64, err error) {
	for i := range ds.Len() {
		var dst [][]byte
		for _, f := range ds.Fields() {
			dst = append(dst, make([]byte, f.Bytes()))
		}
		if err := ds.Fetch(context.Background(), dataloader.At{Index: i}, dst); err != nil {
			return all, err
		}
		var row []float64
		for k, f := range ds.Fields() {
			switch f.Type {
			case arena.Float32:
				row = appendAll(row, dataloader.View[float32](dst[k]))
			case arena.Float64:
				row = appendAll(row, dataloader.View[float64](dst[k]))
			case arena.Int32:
				row = appendAll(row, dataloader.View[int32](dst[k]))
			case arena.Int64:
				row = appendAll(row, dataloader.View[int64](dst[k]))
			default:
				row = appendAll(row, dst[k])
			}
		}
		all = append(all, row)
	}
	return all, nil
}

func appendAll[T dataloader.Element](row []float64, xs []T) []float64 {
	for _, x := range xs {
		row = append(row, float64(x))
	}
	return row
}

func equal(a, b [][]float64) bool { return slices.EqualFunc(a, b, slices.Equal[[]float64]) }

// lengths is a Decoder that stores the length of the text.
type lengths struct{}

func (lengths) Field(name string) dataloader.Field {
	return dataloader.Field{Name: name, Type: arena.Uint8}
}
func (lengths) Decode(_ dataloader.At, encoded, dst []byte) error {
	if len(encoded) > 20 {
		return fmt.Errorf("%d bytes: %w", len(encoded), dataloader.ErrFormat)
	}
	dst[0] = byte(len(encoded))
	return nil
}

func TestMembersBecomeFields(t *testing.T) {
	fill := 7.0
	for name, c := range map[string]struct {
		text   string
		fields []jsonl.Field
		want   [][]float64
	}{
		"scalars": {"{\"x\":1.5,\"y\":true}\n\n \t\r\n{\"y\":false,\"z\":[{}],\"x\":-2e3}", []jsonl.Field{{Name: "x"}, {Name: "y", Type: arena.Uint8}}, [][]float64{{1.5, 1}, {-2000, 0}}},
		"CR LF":   {"{\"x\":1}\r\n{\"x\":2}\r\n", []jsonl.Field{{Name: "x"}}, [][]float64{{1}, {2}}},
		"paths": {`{"a":{"b":{"c":3},"d":4},"e":{"b":9}}`, []jsonl.Field{{Name: "c", Path: "a.b.c"}, {Name: "d", Path: "a.d"}, {Name: "a.d", Type: arena.Int32}},
			[][]float64{{3, 4, 4}}},
		"lists":   {`{"x":[[1,2,3],[4,5,6]]}`, []jsonl.Field{{Name: "x", Shape: []int{2, 3}, Type: arena.Float64}}, [][]float64{{1, 2, 3, 4, 5, 6}}},
		"whole":   {`{"x":9007199254740993}`, []jsonl.Field{{Name: "x", Type: arena.Int64}}, [][]float64{{9007199254740993}}},
		"missing": {"{\"x\":null}\n{}\n{\"x\":[1,null]}", []jsonl.Field{{Name: "x", Shape: []int{2}, Fill: &fill}}, [][]float64{{7, 7}, {7, 7}, {1, 7}}},
		"classes": {"{\"x\":\"d\\u006fg\"}\n{\"x\":\"cat\"}", []jsonl.Field{{Name: "x", Classes: []string{"cat", "dog"}}}, [][]float64{{1}, {0}}},
		"texts":   {"{\"x\":\"a\\nb\"}\n{\"x\":[1, 2]}\n{\"x\":\"\"}", []jsonl.Field{{Name: "x", Decoder: lengths{}}}, [][]float64{{3}, {6}, {0}}},
	} {
		for _, held := range []int{0, 1} {
			ds, err := parse("t.jsonl", c.text, jsonl.Options{Fields: c.fields, Held: held})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if got, err := rows(ds); err != nil || !equal(got, c.want) {
				t.Errorf("%s: got %v, %v, want %v", name, got, err, c.want)
			}
		}
	}
	ds, _ := parse("t.jsonl", `{"x":9007199254740993}`, jsonl.Options{Fields: []jsonl.Field{{Name: "x", Type: arena.Int64}}})
	b := make([]byte, 8)
	if err := ds.Fetch(t.Context(), dataloader.At{}, [][]byte{b}); err != nil || dataloader.View[int64](b)[0] != 1<<53+1 {
		t.Errorf("2^53+1 is read as %d, %v", dataloader.View[int64](b)[0], err)
	}
}

func TestMistakesNameTheLine(t *testing.T) {
	x := []jsonl.Field{{Name: "x"}}
	good := "{\"x\":1}\n\n"
	for _, c := range []struct{ line, want string }{
		{`{"x":NaN}`, "t.jsonl: line 3 at byte 14: want JSON, got"},
		{`{"x":1}{"x":2}`, "line 3 at byte 16: want nothing after the object, got more text"},
		{`{"x":1`, "line 3 at byte 16: want JSON"},
		{`{"x":1,"x":2}`, "duplicate"},
		{`{"y":1,"y":2,"x":1}`, "duplicate"},
		{"{\"x\":1,\"y\":\"\xff\"}", "invalid UTF-8"},
		{`[1]`, "line 3 at byte 9: want an object, got another value"},
		{`{"x":"1"}`, `line 3 at byte 13: want a number in "x", got "1": for texts set Field.FindClasses, for a missing value write null and set Field.Fill`},
		{`{"x":1e99}`, `want a number that float32 holds in "x", got 1e99, out of range`},
		{`{"x":[1]}`, `want a number in "x", got [1]`},
		{`{"x":null}`, "want a value, or Field.Fill for missing ones in \"x\", got null"},
		{`{"y":1}`, `want a value, or Field.Fill for missing ones, got no member "x"`},
		{`{"x":1}` + strings.Repeat(" ", 494), "want at most 500 bytes (Options.Line), got 501"},
	} {
		ds, err := parse("t.jsonl", good+c.line+"\n"+good, jsonl.Options{Fields: x, Line: 500})
		if err == nil {
			err = first(ds)
		}
		if !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40s: got %v, want %q", c.line, err, c.want)
		}
	}
	for _, c := range []struct {
		line  string
		field jsonl.Field
		want  string
	}{
		{`{"x":[1,2,3]}`, jsonl.Field{Name: "x", Shape: []int{2}}, "want a list of 2"},
		{`{"x":[1]}`, jsonl.Field{Name: "x", Shape: []int{2}}, "want a list of 2 in \"x\", got 1"},
		{`{"x":[[1,2],[3]]}`, jsonl.Field{Name: "x", Shape: []int{2, 2}}, "want a list of 2 in \"x\", got 1"},
		{`{"x":[1,[2]]}`, jsonl.Field{Name: "x", Shape: []int{2}}, "want a number in \"x\", got [2]"},
		{`{"x":5}`, jsonl.Field{Name: "x", Shape: []int{2}}, "want a list of 2 in \"x\", got 5"},
		{`{"x":1.5}`, jsonl.Field{Name: "x", Type: arena.Int32}, "1.5, no whole number"},
		{`{"x":256}`, jsonl.Field{Name: "x", Type: arena.Uint8}, "256, out of range"},
		{`{"x":"cow"}`, jsonl.Field{Name: "x", Classes: []string{"dog"}}, `want one of 1 classes in "x", got "cow"`},
		{`{"x":1}`, jsonl.Field{Name: "x", Classes: []string{"dog"}}, `want a string in "x", got 1`},
		{`{"x":null}`, jsonl.Field{Name: "x", Decoder: lengths{}}, "got null"},
		{`{"x":"` + strings.Repeat("x", 21) + `"}`, jsonl.Field{Name: "x", Decoder: lengths{}}, `field "x": 21 bytes`},
	} {
		ds, err := parse("t.jsonl", c.line, jsonl.Options{Fields: []jsonl.Field{c.field}})
		if err != nil {
			t.Fatal(err)
		}
		if err := first(ds); !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.line, err, c.want)
		}
	}
}

func TestAFileThatChangesIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.jsonl")
	for _, text := range []string{"{}{}{}\n\n", "{}\n{}\n{}", "{}\n{}\n{}x", "\n\n\n\n\n\n\n", "{}"} {
		if err := os.WriteFile(path, []byte("{\"x\":1}"), 0o666); err != nil {
			t.Fatal(err)
		}
		fill := 1.0
		ds, err := jsonl.Open(path, jsonl.Options{Fields: []jsonl.Field{{Name: "x", Fill: &fill}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := first(ds); err == nil || errors.Is(err, dataloader.ErrPanic) || !strings.Contains(err.Error(), "t.jsonl") {
			t.Errorf("%q: got %v", text, err)
		}
		if err := ds.Close(); err != nil {
			t.Error(err)
		}
	}
	ds, err := parse("t.jsonl", `{"x":1}`+strings.Repeat(" ", 493)+"\n", jsonl.Options{Line: 500, Fields: []jsonl.Field{{Name: "x"}}})
	if err != nil || first(ds) != nil {
		t.Errorf("a line of 500 bytes: %v, %v", err, first(ds))
	}
}

func TestOptionsAreChecked(t *testing.T) {
	half := 0.5
	for _, c := range []struct {
		opt  jsonl.Options
		is   error
		want string
	}{
		{jsonl.Options{}, dataloader.ErrOption, "no fields"},
		{jsonl.Options{Fields: []jsonl.Field{{Name: "x"}}, Held: -1, Line: -1, Unpacked: -1}, dataloader.ErrOption, "held -1: must be 0 (all) or more: bad option\nline of -1 bytes"},
		{jsonl.Options{Fields: []jsonl.Field{{Name: "x", Type: arena.Float16}}}, dataloader.ErrField, "type float16"},
		{jsonl.Options{Fields: []jsonl.Field{{Name: "x", Shape: []int{0}}}}, dataloader.ErrField, "shape [0]"},
		{jsonl.Options{Fields: []jsonl.Field{{Name: "x", Shape: []int{math.MaxInt}}}}, dataloader.ErrField, "at most 2^30 bytes"},
		{jsonl.Options{Fields: []jsonl.Field{{Name: "x", Type: arena.Int32, Fill: &half}}}, dataloader.ErrField, "does not hold the fill 0.5"},
		{jsonl.Options{Fields: []jsonl.Field{{Name: "x", Classes: []string{"a", "a"}}}}, dataloader.ErrField, "occurs twice"},
		{jsonl.Options{Fields: []jsonl.Field{{Name: "x", Type: arena.Uint8, Classes: make([]string, 257)}}}, dataloader.ErrField, "257 classes"},
		{jsonl.Options{Fields: []jsonl.Field{{Name: "x", Decoder: lengths{}, Shape: []int{2}}}}, dataloader.ErrField, "a Decoder decides alone"},
		{jsonl.Options{Fields: []jsonl.Field{{Name: "x", Path: "a"}, {Name: "y", Path: "a.a"}}}, dataloader.ErrField, `field 1 "y": path "a.a" leads into another field`},
		{jsonl.Options{Fields: []jsonl.Field{{Name: "x", Path: "a.b"}, {Name: "y", Path: "a"}}}, dataloader.ErrField, `field 1 "y": path "a" is on the way to another field`},
	} {
		if _, err := parse("t.jsonl", "{}", c.opt); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.opt, err, c.want)
		}
	}
	if _, err := parse("t.jsonl", "\n \n", jsonl.Options{Fields: []jsonl.Field{{Name: "x"}}}); !errors.Is(err, dataloader.ErrEmpty) {
		t.Errorf("blank lines: %v", err)
	}
}

// many returns n lines, and their numbers.
func many(n int) (string, [][]float64) {
	var b strings.Builder
	var want [][]float64
	for i := range n {
		fmt.Fprintf(&b, "{\"text\":%q,\"x\":%d}\n", strings.Repeat("é", i%50), i)
		want = append(want, []float64{float64(i)})
	}
	return b.String(), want
}

func packed(t testing.TB, kind string, parts ...string) string {
	var b bytes.Buffer
	for _, p := range parts {
		switch kind {
		case ".gz":
			w := gzip.NewWriter(&b)
			w.Write([]byte(p))
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		case ".zst":
			w, err := zstd.NewWriter(&b)
			if err != nil {
				t.Fatal(err)
			}
			w.Write([]byte(p))
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return b.String()
}

func TestLargeAndCompressedFilesAreReadInPieces(t *testing.T) {
	text, want := many(50_000)
	if len(text) < 3<<20 {
		t.Fatalf("%d bytes are less than three pieces", len(text))
	}
	half := strings.LastIndexByte(text[:len(text)/2], '\n') + 1
	opt := jsonl.Options{Fields: []jsonl.Field{{Name: "x"}}}
	for name, data := range map[string]string{
		"t.jsonl": text, "t.jsonl.gz": packed(t, ".gz", text[:half], text[half:]), "t.jsonl.zst": packed(t, ".zst", text[:half], text[half:]),
		"zeros.jsonl.gz": packed(t, ".gz", text) + "\x00\x00\x00",
	} {
		for _, held := range []int{0, 2} {
			opt.Held = held
			ds, err := parse(name, data, opt)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := rows(ds); err != nil || !equal(got, want) {
				t.Errorf("%s: %d rows, %v", name, len(got), err)
			}
			if blocks := len(ds.Blocks().Starts); (blocks > 2) != (name == "t.jsonl") {
				t.Errorf("%s: %d blocks", name, blocks)
			}
		}
	}
	for name, data := range map[string]string{
		"cut.jsonl.gz": packed(t, ".gz", text)[:1000], "cut.jsonl.zst": packed(t, ".zst", text)[:1000], "x.jsonl.gz": "no gzip", "x.jsonl.zst": "no zstd",
		"junk.jsonl.gz": packed(t, ".gz", text) + "\x00\x00junk", "flip.jsonl.gz": flipped(packed(t, ".gz", text)),
	} {
		if _, err := parse(name, data, opt); !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), name+": compressed text at byte") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	opt.Unpacked = int64(len(text))
	if _, err := parse("t.jsonl.gz", packed(t, ".gz", text), opt); err != nil {
		t.Error(err)
	}
	opt.Unpacked--
	for _, kind := range []string{".gz", ".zst"} {
		if _, err := parse("t.jsonl"+kind, packed(t, kind, text), opt); !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), "(Options.Unpacked): split the file") {
			t.Errorf("%s: got %v", kind, err)
		}
	}
}

// flipped changes a bit of the checksum.
func flipped(s string) string {
	b := []byte(s)
	b[len(b)-6] ^= 1
	return string(b)
}

func TestALongLineIsReadOrRefused(t *testing.T) {
	line := `{"x":1,"y":"` + strings.Repeat("z", 3<<20) + `"}` + "\n"
	opt := jsonl.Options{Fields: []jsonl.Field{{Name: "x"}}}
	if _, err := parse("t.jsonl", line+line, opt); !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), "line 1 at byte 0: want at most 1048576 bytes (Options.Line)") {
		t.Errorf("got %v", err)
	}
	opt.Line = 4 << 20
	ds, err := parse("t.jsonl", line+line, opt)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := rows(ds); err != nil || !equal(got, [][]float64{{1}, {1}}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestFingerprintsTellFieldsAndFilesApart(t *testing.T) {
	seen := map[uint64]bool{}
	for _, text := range []string{`{"x":1}`, `{"x": 1}`} {
		for _, f := range []jsonl.Field{{Name: "x"}, {Name: "x", Path: "y"}, {Name: "x", Type: arena.Int32}, {Name: "x", Classes: []string{"a"}}} {
			ds, err := parse("t.jsonl", text, jsonl.Options{Fields: []jsonl.Field{f}})
			if err != nil {
				t.Fatal(err)
			}
			seen[dataloader.Fingerprint(ds)] = true
		}
	}
	if len(seen) != 8 {
		t.Errorf("%d fingerprints, want 8", len(seen))
	}
}

// FuzzLines reads any text: an error names the file, and memory is that of the file.
func FuzzLines(f *testing.F) {
	for _, s := range []string{`{"x":[1,2],"y":{"z":"a"}}`, "{\"x\":null}\n{}", "{\"x\":1}{\"x\":2}", "\x1f\x8b", "[[[[", "{\"y\":{\"z\":{\"z\":1}}}\n\n"} {
		f.Add(s)
	}
	fill := 0.0
	f.Fuzz(func(t *testing.T, s string) {
		for _, name := range []string{"t.jsonl", "t.jsonl.gz", "t.jsonl.zst"} {
			ds, err := parse(name, s, jsonl.Options{Unpacked: 1 << 20, Fields: []jsonl.Field{{Name: "x", Shape: []int{2}, Fill: &fill}, {Name: "z", Path: "y.z", Decoder: lengths{}}}})
			if err != nil {
				continue
			}
			if err := first(ds); err != nil && !errors.Is(err, dataloader.ErrFormat) {
				t.Errorf("%q: %v", s, err)
			}
		}
	})
}

func ExampleOpen() {
	text := `{"review":"good","stars":5}` + "\n" + `{"review":"so so","stars":3}` + "\n"
	ds, err := jsonl.OpenFS(fstest.MapFS{"reviews.jsonl": {Data: []byte(text)}}, "reviews.jsonl", jsonl.Options{
		Fields: []jsonl.Field{{Name: "y", Path: "stars", Type: arena.Uint8}},
	})
	if err != nil {
		panic(err)
	}
	defer ds.Close()
	y := make([]byte, 1)
	for i := range ds.Len() {
		if err := ds.Fetch(context.Background(), dataloader.At{Index: i}, [][]byte{y}); err != nil {
			panic(err)
		}
		fmt.Println(y[0])
	}
	// Output:
	// 5
	// 3
}
