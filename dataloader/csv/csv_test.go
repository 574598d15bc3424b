package csv_test

import (
	"bytes"
	"context"
	stdcsv "encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"go.uber.org/goleak"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/csv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// parse opens a text as a file.
func parse(name, text string, opt csv.Options) (*csv.Dataset, error) {
	return csv.OpenFS(fstest.MapFS{name: {Data: []byte(text)}}, name, opt)
}

// rows returns the fields of all samples as numbers.
func rows(t testing.TB, ds dataloader.Dataset) (all [][]float64) {
	t.Helper()
	for i := range ds.Len() {
		var dst [][]byte
		for _, f := range ds.Fields() {
			dst = append(dst, make([]byte, f.Bytes()))
		}
		if err := ds.Fetch(t.Context(), dataloader.At{Index: i}, dst); err != nil {
			t.Fatalf("sample %d: %v", i, err)
		}
		var row []float64
		for k, f := range ds.Fields() {
			row = append(row, numbers(f.Type, dst[k])...)
		}
		all = append(all, row)
	}
	return all
}

func numbers(d arena.DType, b []byte) (xs []float64) {
	switch d {
	case arena.Float64:
		return dataloader.View[float64](b)
	case arena.Float32:
		for _, x := range dataloader.View[float32](b) {
			xs = append(xs, float64(x))
		}
	case arena.Uint8:
		for _, x := range b {
			xs = append(xs, float64(x))
		}
	case arena.Int32:
		for _, x := range dataloader.View[int32](b) {
			xs = append(xs, float64(x))
		}
	case arena.Int64:
		for _, x := range dataloader.View[int64](b) {
			xs = append(xs, float64(x))
		}
	}
	return xs
}

// equal compares rows; NaN equals NaN.
func equal(a, b [][]float64) bool {
	return slices.EqualFunc(a, b, func(a, b []float64) bool {
		return slices.EqualFunc(a, b, func(x, y float64) bool { return x == y || x != x && y != y })
	})
}

func TestRecordsAreRead(t *testing.T) {
	fill := -1.0
	ab := []csv.Field{{Name: "x", Columns: []string{"a", "b"}, Type: arena.Float64}}
	for name, c := range map[string]struct {
		text string
		opt  csv.Options
		want [][]float64
	}{
		"plain":           {"a,b\n1,2\n3.5,-4e2\n", csv.Options{}, [][]float64{{1, 2}, {3.5, -400}}},
		"no last line":    {"a,b\n1,2\n3,4", csv.Options{}, [][]float64{{1, 2}, {3, 4}}},
		"CR LF":           {"a,b\r\n1,2\r\n\r\n3,4\r\n", csv.Options{}, [][]float64{{1, 2}, {3, 4}}},
		"CR":              {"a,b\r1,2\r\r3,4\r", csv.Options{}, [][]float64{{1, 2}, {3, 4}}},
		"CR at the end":   {"a,b\n1,2\r", csv.Options{}, [][]float64{{1, 2}}},
		"blank lines":     {"\n\na,b\n\n1,2\n\n\n3,4\n\n", csv.Options{}, [][]float64{{1, 2}, {3, 4}}},
		"BOM":             {"\xef\xbb\xbfa,b\n1,2\n", csv.Options{Fields: ab}, [][]float64{{1, 2}}},
		"quotes":          {"\"a\",b\n\"1\",\"2\"\n3,\"4\"\n", csv.Options{}, [][]float64{{1, 2}, {3, 4}}},
		"no header":       {"1,2\n3,4\n", csv.Options{NoHeader: true}, [][]float64{{1, 2}, {3, 4}}},
		"chosen columns":  {"a,c,b\n1,\"x,\n\"\"y\",2\n3,z,4\n", csv.Options{Fields: ab}, [][]float64{{1, 2}, {3, 4}}},
		"comments":        {"# it's \"so\na,b\n1,2\n#\"\n3,4\n#", csv.Options{Comment: '#'}, [][]float64{{1, 2}, {3, 4}}},
		"semicolons":      {"a;b\n1;2\n", csv.Options{Comma: ';'}, [][]float64{{1, 2}}},
		"missing":         {"a,b\nNA,2\n,4\n\"\",6\n", csv.Options{Missing: []string{"NA"}, Fields: []csv.Field{{Name: "a", Fill: &fill}, {Name: "b", Type: arena.Uint8}}}, [][]float64{{-1, 2}, {-1, 4}, {-1, 6}}},
		"not finite":      {"a,b\nNaN,-inf\n+Infinity,nan\n", csv.Options{Fields: []csv.Field{{Name: "x", Columns: []string{"a", "b"}, NonFinite: true}}}, [][]float64{{math.NaN(), math.Inf(-1)}, {math.Inf(1), math.NaN()}}},
		"integers":        {"a,b\n9223372036854775807,255\n-9223372036854775808,+0\n", csv.Options{Fields: []csv.Field{{Name: "a", Type: arena.Int64}, {Name: "b", Type: arena.Uint8}}}, [][]float64{{math.MaxInt64, 255}, {math.MinInt64, 0}}},
		"classes":         {"a,b\ndog,2\ncat,4\n", csv.Options{Fields: []csv.Field{{Name: "a", Classes: []string{"dog", "cat"}}, {Name: "b"}}}, [][]float64{{0, 2}, {1, 4}}},
		"classes found":   {"a,b\ndog,2\n\"c,at\",4\ndog,1\n", csv.Options{Fields: []csv.Field{{Name: "a", FindClasses: true}, {Name: "b"}}}, [][]float64{{1, 2}, {0, 4}, {1, 1}}},
		"a column twice":  {"a,b\n1,2\n", csv.Options{Fields: []csv.Field{{Name: "x", Columns: []string{"a", "b", "a"}}, {Name: "a", Type: arena.Int32}}}, [][]float64{{1, 2, 1, 1}}},
		"one column":      {"a\n1\n\n2\n", csv.Options{}, [][]float64{{1}, {2}}},
		"an empty column": {"a,b\n1,\n3,\"\"\n", csv.Options{Fields: []csv.Field{{Name: "a"}}}, [][]float64{{1}, {3}}},
	} {
		for _, held := range []int{0, 2} {
			c.opt.Held = held
			ds, err := parse("t.csv", c.text, c.opt)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if got := rows(t, ds); !equal(got, c.want) {
				t.Errorf("%s, held %d: got %v, want %v", name, held, got, c.want)
			}
			if err := ds.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	ds, err := parse("t.tsv", "a\tb\n1\t2\n", csv.Options{})
	if err != nil || !equal(rows(t, ds), [][]float64{{1, 2}}) || !slices.Equal(ds.Columns(), []string{"a", "b"}) {
		t.Errorf("tabs: %v, %q", err, ds.Columns())
	}
	if ds, err = parse("t.csv", "a,b\nz,1\ny,2\n", csv.Options{Fields: []csv.Field{{Name: "a", FindClasses: true}}}); err != nil || !slices.Equal(ds.Classes("a"), []string{"y", "z"}) || ds.Classes("b") != nil {
		t.Errorf("classes: %v, %q", err, ds.Classes("a"))
	}
}

func TestMistakesNameTheLine(t *testing.T) {
	one := []csv.Field{{Name: "a"}}
	long := strings.Repeat("x", 200)
	for _, c := range []struct {
		text string
		opt  csv.Options
		is   error
		want string
	}{
		{"a,b\n1,2\n3\n", csv.Options{}, dataloader.ErrFormat, "t.csv: record in line 3 at byte 8: want 2 values, as in the first record, got 1"},
		{"a,b\n1,2,3\n", csv.Options{}, dataloader.ErrFormat, "line 2 at byte 4: want 2 values, as in the first record, got 3"},
		{"a,b\n1,2\n\n3,x\n", csv.Options{}, dataloader.ErrFormat, `value of column "b" in line 4 at byte 11: want a number that float32 holds, got "x", no number`},
		{"a\n1,5\n", csv.Options{}, dataloader.ErrFormat, "got 2"},
		{"a\nNA\n", csv.Options{}, dataloader.ErrFormat, `"NA", no number: for texts set Field.FindClasses, for a missing value Field.Fill and Options.Missing`},
		{"a\n1_000\n", csv.Options{}, dataloader.ErrFormat, `"1_000", no number`},
		{"a\n0x1p3\n", csv.Options{}, dataloader.ErrFormat, `"0x1p3", no number`},
		{"a\n 1\n", csv.Options{}, dataloader.ErrFormat, `" 1", no number`},
		{"a\n1e999\n", csv.Options{}, dataloader.ErrFormat, `"1e999", out of range`},
		{"a\n3.5e38\n", csv.Options{}, dataloader.ErrFormat, `out of range`},
		{"a\n-\n", csv.Options{}, dataloader.ErrFormat, `"-", no number`},
		{"a\n1e\n", csv.Options{}, dataloader.ErrFormat, `"1e", no number`},
		{"a\nNaN\n", csv.Options{}, dataloader.ErrFormat, `want a finite number, or Field.NonFinite, got "NaN"`},
		{"a,b\n,1\n", csv.Options{}, dataloader.ErrFormat, `want a value, or Field.Fill for missing ones, got ""`},
		{"a\nNA\n", csv.Options{Missing: []string{"NA"}}, dataloader.ErrFormat, `Field.Fill for missing ones, got "NA"`},
		{"a\n256\n", csv.Options{Fields: []csv.Field{{Name: "a", Type: arena.Uint8}}}, dataloader.ErrFormat, `"256", out of range`},
		{"a\n-1\n", csv.Options{Fields: []csv.Field{{Name: "a", Type: arena.Uint8}}}, dataloader.ErrFormat, `"-1", out of range`},
		{"a\n9223372036854775808\n", csv.Options{Fields: []csv.Field{{Name: "a", Type: arena.Int64}}}, dataloader.ErrFormat, `out of range`},
		{"a\n1.0\n", csv.Options{Fields: []csv.Field{{Name: "a", Type: arena.Int32}}}, dataloader.ErrFormat, `"1.0", no whole number`},
		{"a\n1e0\n", csv.Options{Fields: []csv.Field{{Name: "a", Type: arena.Int32}}}, dataloader.ErrFormat, `"1e0", no whole number`},
		{"a\n1.\n", csv.Options{Fields: []csv.Field{{Name: "a", Type: arena.Int32}}}, dataloader.ErrFormat, `"1.", no whole number`},
		{"a\nfish\n", csv.Options{Fields: []csv.Field{{Name: "a", Classes: []string{"dog"}}}}, dataloader.ErrFormat, `want one of 1 classes, got "fish"`},
		{"a,b\n1,2\n3,\"4\n5,6\n7,8\n", csv.Options{}, dataloader.ErrFormat, "quote in line 3 at byte 10: want a quote that closes it"},
		{"a,b\n1,\"2\"\"\n", csv.Options{}, dataloader.ErrFormat, "quote in line 2 at byte 6: want a quote that closes it"},
		{"a,b\n1,2\"3\n", csv.Options{}, dataloader.ErrFormat, "quote in line 2 at byte 7"},
		{"a,b\n1,2\"3\",\n", csv.Options{}, dataloader.ErrFormat, `quote in line 2 at byte 6: want quotes around the whole value, got one inside, after "2"`},
		{"a,b\n\"1\"2,3\n", csv.Options{}, dataloader.ErrFormat, `line 2 at byte 7: want a separator or the end of the line, got '2'`},
		{"a,b\n1,2\r3,4\n", csv.Options{}, dataloader.ErrFormat, `want a separator or the end of the line, got '\r'`},
		{"a,b\n1,2\x00\n", csv.Options{}, dataloader.ErrFormat, "zero byte in line 2 at byte 7"},
		{"\xff\xfea\x00", csv.Options{}, dataloader.ErrFormat, "want UTF-8: convert the file, got that of UTF-16"},
		{"a\n" + long + "\n", csv.Options{Record: 100}, dataloader.ErrFormat, "record in line 2 at byte 2: want at most 100 bytes (Options.Record)"},
		{long + "\n1\n", csv.Options{Record: 100}, dataloader.ErrFormat, "record in line 1 at byte 0"},
		{"a\n1\n\"" + strings.Repeat("\n", 200) + "\"\n", csv.Options{Record: 100}, dataloader.ErrFormat, "quote in line 3 at byte 4"},
		{"", csv.Options{}, dataloader.ErrEmpty, "t.csv has no record"},
		{"a,b\n", csv.Options{}, dataloader.ErrEmpty, "t.csv"},
		{"a,b\n1,2\n", csv.Options{Fields: []csv.Field{{Name: "c"}}}, dataloader.ErrField, `there is no column "c", the columns are ["a" "b"]`},
		{"a,a\n1,2\n", csv.Options{Fields: one}, dataloader.ErrField, `there are two columns "a"`},
		{"a\n1\n", csv.Options{Fields: []csv.Field{{Name: "a", Type: arena.Float16}}}, dataloader.ErrField, "type float16: must be"},
		{"a\n1\n", csv.Options{Fields: []csv.Field{{Name: "a", Classes: []string{"x", "x"}}}}, dataloader.ErrField, `class "x" occurs twice`},
		{"a,b\n1,2\n", csv.Options{Fields: []csv.Field{{Name: "x", Columns: []string{"a", "b"}, FindClasses: true}}}, dataloader.ErrField, "a field of text has one column"},
		{"a\n1\n", csv.Options{Comma: '"', Comment: '\n', Held: -1, Memory: -1, Record: -1, Workers: -1}, dataloader.ErrOption, "workers -1"},
		{"a\n1\n2\n3\n", csv.Options{Memory: 11}, dataloader.ErrOption, "the values of 3 records take more than 11 bytes (Options.Memory): set Options.Held"},
		{"a\n1\n2\n3\n", csv.Options{Memory: 12}, nil, ""},
	} {
		ds, err := parse("t.csv", c.text, c.opt)
		if c.is == nil {
			if err != nil {
				t.Errorf("%q: %v", c.text, err)
			}
			continue
		}
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) || ds != nil {
			t.Errorf("%q: got %v, want %q", c.text[:min(len(c.text), 40)], err, c.want)
		}
	}
	folder := fstest.MapFS{"a.csv": {Data: []byte("a,b\n1,2\n")}, "b.csv": {Data: []byte("a,c\n1,2\n")}}
	if _, err := csv.OpenFS(folder, ".", csv.Options{}); !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), `b.csv: header in line 1`) {
		t.Errorf("other columns in the second file: %v", err)
	}
}

func TestAMissingFileIsNamedWithItsFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.csv")
	if _, err := csv.Open(path, csv.Options{}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}

// random returns a table of several pieces, and its numbers.
func random(r *rand.Rand, n int) (string, [][]float64) {
	var b strings.Builder
	b.WriteString("a,note,b\n")
	var want [][]float64
	for range n {
		x, y := r.NormFloat64()*math.Exp2(float64(r.IntN(100)-50)), float64(r.IntN(1000))
		note := [...]string{"plain", `"quo""ted"`, "\"two\nlines\"", ""}[r.IntN(4)] + strings.Repeat("z", r.IntN(30))
		if strings.HasSuffix(note, `"z`) || strings.Contains(note, `"z`) {
			note = `""`
		}
		fmt.Fprintf(&b, "%v,%s,%v%s", x, note, y, [...]string{"\n", "\r\n", "\n\n"}[r.IntN(3)])
		want = append(want, []float64{x, y})
	}
	return b.String(), want
}

func TestLargeFilesAreTheSameForAnyPiecesAndWorkers(t *testing.T) {
	text, want := random(rand.New(rand.NewPCG(1, 2)), 90_000)
	if len(text) < 3<<20 {
		t.Fatalf("%d bytes are less than three pieces", len(text))
	}
	dir := t.TempDir()
	for i, part := range []string{"0.csv", "1.csv"} {
		if err := os.WriteFile(filepath.Join(dir, part), []byte(text), 0o666); err != nil {
			t.Fatal(i, err)
		}
	}
	want = append(want, want...)
	fields := []csv.Field{{Name: "a", Type: arena.Float64}, {Name: "b", Type: arena.Int32}}
	var prints []uint64
	for _, opt := range []csv.Options{{Workers: 1}, {Workers: 3}, {Held: 2}} {
		opt.Fields = fields
		ds, err := csv.Open(dir, opt)
		if err != nil {
			t.Fatal(err)
		}
		if got := rows(t, ds); !equal(got, want) {
			t.Errorf("%+v: the numbers differ", opt)
		}
		if blocks := ds.Blocks(); (opt.Held > 0) != (len(blocks.Starts) > 4) {
			t.Errorf("held %d: %d blocks", opt.Held, len(blocks.Starts))
		}
		prints = append(prints, dataloader.Fingerprint(ds))
		if err := ds.Close(); err != nil {
			t.Error(err)
		}
	}
	if prints[0] != prints[1] || prints[0] != prints[2] {
		t.Errorf("fingerprints %x", prints)
	}
}

// The error is that of the first record that is wrong, whichever goroutine is first.
func TestTheFirstMistakeIsReported(t *testing.T) {
	text, _ := random(rand.New(rand.NewPCG(3, 2)), 60_000)
	text += "wrong,,1\n" + text[len("a,note,b\n"):] + "worse,,1\n"
	wrong := fmt.Sprintf("in line %d ", 1+strings.Count(text[:strings.Index(text, "wrong,,1")], "\n")) // in a piece after the first
	for range 5 {
		if _, err := parse("t.csv", text, csv.Options{Workers: 3, Fields: []csv.Field{{Name: "a"}}}); err == nil || !strings.Contains(err.Error(), `"wrong"`) || !strings.Contains(err.Error(), wrong) {
			t.Fatalf("got %v", err)
		}
	}
}

func TestFetchAllocatesNothing(t *testing.T) {
	text, _ := random(rand.New(rand.NewPCG(1, 3)), 1000)
	for _, held := range []int{0, 2} {
		ds, err := parse("t.csv", text, csv.Options{Held: held, Fields: []csv.Field{{Name: "x", Columns: []string{"a", "b"}}}})
		if err != nil {
			t.Fatal(err)
		}
		dst := [][]byte{make([]byte, 8)}
		i := 0
		if n := testing.AllocsPerRun(200, func() {
			i = (i + 7) % ds.Len()
			if err := ds.Fetch(t.Context(), dataloader.At{Index: i}, dst); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("held %d: %v allocations", held, n)
		}
	}
}

// lengths is a Decoder that stores the length of the text.
type lengths struct{}

func (lengths) Field(name string) dataloader.Field {
	return dataloader.Field{Name: name, Type: arena.Uint8}
}
func (lengths) Decode(_ dataloader.At, encoded, dst []byte) error {
	if len(encoded) > 255 {
		return fmt.Errorf("%d bytes: %w", len(encoded), dataloader.ErrFormat)
	}
	dst[0] = byte(len(encoded))
	return nil
}

func TestTextsAreDecoded(t *testing.T) {
	for _, held := range []int{0, 1} {
		ds, err := parse("t.csv", "a,b\nhello,1\n\"a \"\"b\"\"\",2\n,3\n", csv.Options{Held: held, Fields: []csv.Field{{Name: "a", Decoder: lengths{}}, {Name: "b"}}})
		if err != nil || !equal(rows(t, ds), [][]float64{{5, 1}, {5, 2}, {0, 3}}) {
			t.Errorf("held %d: %v, %v", held, err, ds)
		}
		if ds, err = parse("t.csv", "a\n"+strings.Repeat("x", 256)+"\n", csv.Options{Held: held, Fields: []csv.Field{{Name: "a", Decoder: lengths{}}}}); err != nil {
			t.Fatal(err)
		}
		if err := ds.Fetch(t.Context(), dataloader.At{}, [][]byte{{0}}); !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), `field "a"`) {
			t.Errorf("held %d: %v", held, err)
		}
	}
}

// FuzzRecords compares with encoding/csv, which keeps blank lines of blanks and accepts less of CR.
func FuzzRecords(f *testing.F) {
	for _, s := range []string{"a,b\n1,2\n", "a\n\"1\"\n", "\"a\nb\",c\r\n1,2", "a,b\n\"1\"\"\",2\n", "x\ry\n1\r2\n", "a,b\n\n1,\"2\n\"\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ContainsAny(s, "\x00\r") || strings.HasPrefix(s, "\xef\xbb\xbf") || strings.HasPrefix(s, "\xff\xfe") || strings.HasPrefix(s, "\xfe\xff") {
			return
		}
		want, wantErr := stdcsv.NewReader(strings.NewReader(s)).ReadAll()
		var fields []csv.Field
		if len(want) > 0 {
			for i := range want[0] {
				fields = append(fields, csv.Field{Name: strconv.Itoa(i), Decoder: collect{}})
			}
		}
		ds, err := parse("t.csv", s, csv.Options{NoHeader: true, Fields: fields})
		if wantErr != nil {
			if err == nil {
				t.Fatalf("%q: no error, want %v", s, wantErr)
			}
			return
		}
		if len(want) == 0 {
			if !errors.Is(err, dataloader.ErrEmpty) {
				t.Fatalf("%q: got %v", s, err)
			}
			return
		}
		if err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		for i, record := range want {
			dst := make([][]byte, len(record))
			for k := range dst {
				dst[k] = make([]byte, 64)
			}
			if err := ds.Fetch(context.Background(), dataloader.At{Index: i}, dst); err != nil {
				t.Fatal(err)
			}
			for k, v := range record {
				if n := min(len(v), 63); int(dst[k][63]) != n || string(dst[k][:n]) != v[:n] {
					t.Fatalf("%q: record %d, value %d is %q, want %q", s, i, k, dst[k][:dst[k][63]], v)
				}
			}
		}
		if ds.Len() != len(want) {
			t.Fatalf("%q: %d records, want %d", s, ds.Len(), len(want))
		}
	})
}

// collect is a Decoder that stores the first 63 bytes, and how many.
type collect struct{}

func (collect) Field(name string) dataloader.Field {
	return dataloader.Field{Name: name, Type: arena.Uint8, Shape: []int{64}}
}
func (collect) Decode(_ dataloader.At, encoded, dst []byte) error {
	dst[63] = byte(copy(dst[:63], encoded))
	return nil
}

// FuzzNumbers compares with strconv.
func FuzzNumbers(f *testing.F) {
	for _, s := range []string{"1", "-0.1", "1e-45", "16777217", "9007199254740993", "123456.789e-3", "1.00000017881393432617187499", "1.00000017881393421514957253748434595763683319091796875001", "3.4028235677973366e38", "2.2250738585072011e-308"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { checkNumber(t, s) })
}

func checkNumber(t *testing.T, s string) {
	if s == "" || strings.ContainsAny(s, ",\"\r\n\x00") || len(s) > 1000 {
		return
	}
	x32, err32 := strconv.ParseFloat(s, 32)
	x64, err64 := strconv.ParseFloat(s, 64)
	for _, c := range []struct {
		d    arena.DType
		want float64
		err  error
	}{{arena.Float32, x32, err32}, {arena.Float64, x64, err64}} {
		bad := c.err != nil || strings.ContainsAny(s, "_xXnNiIpP") // hexadecimal, NaN, Inf
		ds, err := parse("t.csv", "a\n"+s+"\n", csv.Options{Fields: []csv.Field{{Name: "a", Type: c.d}}})
		if bad {
			if err == nil {
				t.Fatalf("%q as %v: no error", s, c.d)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%q as %v: %v", s, c.d, err)
		}
		if got := rows(t, ds)[0][0]; got != c.want || math.Signbit(got) != math.Signbit(c.want) {
			t.Fatalf("%q as %v: got %v, want %v", s, c.d, got, c.want)
		}
	}
}

func TestNumbersAreRoundedOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	for range 3000 {
		var s string
		switch r.IntN(4) {
		case 0:
			s = strconv.FormatFloat(r.NormFloat64(), 'g', 1+r.IntN(20), 64)
		case 1: // near the middle of two float32
			x := math.Float32frombits(r.Uint32() &^ (1 << 30))
			middle := (float64(x) + float64(math.Nextafter32(x, 9))) / 2
			s = strconv.FormatFloat(middle, 'f', -1, 64) + [...]string{"", "0000000001", "1"}[r.IntN(3)]
			if len(s) > 900 || strings.ContainsAny(s, "NI") {
				continue
			}
			if !strings.Contains(s, ".") {
				continue
			}
		case 2:
			s = fmt.Sprintf("%de%d", r.Uint64(), r.IntN(600)-330)
		default:
			s = fmt.Sprintf("%d.%d", r.IntN(1000000), r.IntN(1000000))
		}
		checkNumber(t, s)
	}
}

func BenchmarkOpen(b *testing.B) {
	var text bytes.Buffer
	r := rand.New(rand.NewPCG(2, 7))
	for range 50_000 {
		for c := range 20 {
			if c > 0 {
				text.WriteByte(',')
			}
			text.Write(strconv.AppendFloat(nil, r.NormFloat64()*100, 'f', 6, 64))
		}
		text.WriteByte('\n')
	}
	files := fstest.MapFS{"t.csv": {Data: text.Bytes()}}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		ds, err := csv.OpenFS(files, "t.csv", csv.Options{NoHeader: true})
		if err != nil {
			b.Fatal(err)
		}
		ds.Close()
	}
	b.ReportMetric(50_000*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

func ExampleOpen() {
	table := "sepal,petal,kind\n5.1,1.4,setosa\n7.0,4.7,versicolor\n"
	ds, err := csv.OpenFS(fstest.MapFS{"iris.csv": {Data: []byte(table)}}, "iris.csv", csv.Options{Fields: []csv.Field{
		{Name: "x", Columns: []string{"sepal", "petal"}},
		{Name: "y", Columns: []string{"kind"}, FindClasses: true},
	}})
	if err != nil {
		panic(err)
	}
	defer ds.Close()
	x, y := make([]byte, 8), make([]byte, 4)
	for i := range ds.Len() {
		if err := ds.Fetch(context.Background(), dataloader.At{Index: i}, [][]byte{x, y}); err != nil {
			panic(err)
		}
		fmt.Println(dataloader.View[float32](x), ds.Classes("y")[dataloader.View[int32](y)[0]])
	}
	// Output:
	// [5.1 1.4] setosa
	// [7 4.7] versicolor
}

var _ io.Closer = (*csv.Dataset)(nil)
