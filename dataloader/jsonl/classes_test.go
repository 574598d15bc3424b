package jsonl_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/jsonl"
)

func TestFoundClassesAreSortedByBytes(t *testing.T) {
	var text strings.Builder
	var want [][]float64
	for i := range 40_000 { // more than one piece
		fmt.Fprintf(&text, `{"m":{"kind":%q},"bad":1e999,"pair":["é","\u0065"]}`+"\n", string(rune('z'-i%3)))
		want = append(want, []float64{float64(2 - i%3), 1, 0})
	}
	fields := []jsonl.Field{{Name: "kind", Path: "m.kind", FindClasses: true}, {Name: "pair", Shape: []int{2}, Type: arena.Uint8, FindClasses: true}}
	for name, held := range map[string]int{"t.jsonl": 0, "t.jsonl.gz": 1, "t.jsonl.zst": 3} {
		file := text.String()
		if kind := strings.TrimPrefix(name, "t.jsonl"); kind != "" {
			file = packed(t, kind, file)
		}
		ds, err := parse(name, file, jsonl.Options{Held: held, Fields: fields})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := rows(ds); err != nil || !equal(got, want) {
			t.Errorf("%s: the samples differ: %v", name, err)
		}
		if got := ds.Classes("kind"); !slices.Equal(got, []string{"x", "y", "z"}) || !slices.Equal(ds.Classes("pair"), []string{"e", "é"}) || ds.Classes("bad") != nil {
			t.Errorf("%s: classes %q and %q", name, got, ds.Classes("pair"))
		}
		// The same fields with the list have the same samples, and so the same fingerprint.
		listed, err := parse(name, file, jsonl.Options{Fields: []jsonl.Field{
			{Name: "kind", Path: "m.kind", Classes: []string{"x", "y", "z"}}, {Name: "pair", Shape: []int{2}, Type: arena.Uint8, Classes: []string{"e", "é"}}}})
		if err != nil || listed.Fingerprint() != ds.Fingerprint() {
			t.Errorf("%s: with the list: %v", name, err)
		}
	}
}

func TestMissingLabels(t *testing.T) {
	const text = `{"k":"b"}` + "\n" + `{"k":null}` + "\n{}\n" + `{"k":"a"}`
	for _, c := range []struct {
		text  string
		field jsonl.Field
		want  string // of an error
		rows  [][]float64
	}{
		{text, jsonl.Field{FindClasses: true}, `want a value, or Field.Fill for missing ones in "k", got null`, nil},
		{text, jsonl.Field{FindClasses: true, Fill: new(-1.0)}, "", [][]float64{{1}, {-1}, {-1}, {0}}},
		{text, jsonl.Field{FindClasses: true, Fill: new(1.0)}, "t.jsonl: field 0 \"k\": fill 1: the labels of found classes depend on the data", nil},
		{text, jsonl.Field{Classes: []string{"a", "b"}, Fill: new(1.0)}, "", [][]float64{{1}, {1}, {1}, {0}}},
		{text, jsonl.Field{Classes: []string{"a", "b"}, Fill: new(2.0)}, "fill 2: must be a label of the 2 classes", nil},
		{text, jsonl.Field{Classes: []string{"a"}, FindClasses: true}, "set Classes or FindClasses", nil},
		{text, jsonl.Field{Classes: []string{}}, "no classes", nil},
		{text, jsonl.Field{FindClasses: true, Decoder: lengths{}}, "a Decoder decides alone", nil},
		{text, jsonl.Field{FindClasses: true, Type: arena.Float32}, "classes are whole numbers", nil},
		{`{"k":["a",null]}`, jsonl.Field{Shape: []int{2}, FindClasses: true, Fill: new(-1.0)}, "", [][]float64{{0, -1}}},
		{`{"k":["a",null]}`, jsonl.Field{Shape: []int{2}, FindClasses: true}, `want a string in "k", got null`, nil},
		{`{"k":1}`, jsonl.Field{FindClasses: true}, `want a string in "k", got 1`, nil},
		{`{"k":"` + strings.Repeat("x", 900_000) + `"}`, jsonl.Field{FindClasses: true}, "", [][]float64{{0}}},
	} {
		c.field.Name = "k"
		ds, err := parse("t.jsonl", c.text, jsonl.Options{Fields: []jsonl.Field{c.field}})
		var got [][]float64
		if err == nil {
			got, err = rows(ds)
		}
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: got %v, want %q", c.field, err, c.want)
		case c.want == "" && (err != nil || !equal(got, c.rows)):
			t.Errorf("%+v: got %v, %v, want %v", c.field, got, err, c.rows)
		}
	}
}

// A missing label is an error when it is read, not while classes are found, so that it can be skipped
// as any bad sample.
func TestAMissingLabelIsAnErrorWhenItIsRead(t *testing.T) {
	for text, shape := range map[string][]int{"{\"k\":\"b\"}\n{\"k\":null}\n{}": nil, `{"k":["b",null]}`: {2}} {
		ds, err := parse("t.jsonl", text, jsonl.Options{Fields: []jsonl.Field{{Name: "k", Shape: shape, FindClasses: true}}})
		if err != nil || !slices.Equal(ds.Classes("k"), []string{"b"}) {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if err := first(ds); !errors.Is(err, dataloader.ErrFormat) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

func TestTextsOfFoundClassesAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 1<<16 + 1 {
		fmt.Fprintf(&b, "{\"k\":\"%d\"}\n", i)
	}
	_, err := parse("t.jsonl", b.String(), jsonl.Options{Fields: []jsonl.Field{{Name: "k", FindClasses: true}}})
	if !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), "line 65537 at byte 906398: want at most 65536 different texts") {
		t.Errorf("one text too many: got %v", err)
	}
}

// late is files of which a.jsonl is read when all other goroutines have ended or wait.
type late struct{ fstest.MapFS }

func (l late) Open(name string) (fs.File, error) {
	f, err := l.MapFS.Open(name)
	if err != nil || name != "d/a.jsonl" {
		return f, err
	}
	return lateFile{f}, nil
}

type lateFile struct{ fs.File }

func (f lateFile) ReadAt(p []byte, off int64) (int, error) {
	synctest.Wait()
	return f.File.(io.ReaderAt).ReadAt(p, off)
}

// A line that is bad for another reason is not blamed for the texts that were too many in another file.
func TestOnlyALineWithOneTextTooManyIsBlamedForIt(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // so that two files are read at once
	var b strings.Builder
	for i := range 1<<16 + 1 {
		fmt.Fprintf(&b, "{\"k\":\"%d\"}\n", i)
	}
	files := late{fstest.MapFS{"d/a.jsonl": {Data: []byte("{\"k\":1}\n")}, "d/b.jsonl": {Data: []byte(b.String())}}}
	synctest.Test(t, func(t *testing.T) {
		_, err := jsonl.OpenFS(files, "d", jsonl.Options{Fields: []jsonl.Field{{Name: "k", FindClasses: true}}})
		if err == nil || !strings.Contains(err.Error(), "b.jsonl: line 65537 at byte 906398: want at most 65536 different texts") {
			t.Errorf("got %v", err)
		}
	})
}

func TestMistakesInOptionsNameTheFile(t *testing.T) {
	for _, c := range []struct {
		opt jsonl.Options
		is  error
	}{
		{jsonl.Options{}, dataloader.ErrOption},
		{jsonl.Options{Fields: []jsonl.Field{{Name: "k", Type: arena.Float16}}}, dataloader.ErrField},
		{jsonl.Options{Fields: []jsonl.Field{{Name: "k"}, {Name: "k"}}}, dataloader.ErrField},
	} {
		_, err := parse("t.jsonl", `{"k":1}`, c.opt)
		if !errors.Is(err, c.is) || !strings.HasPrefix(err.Error(), "t.jsonl: ") {
			t.Errorf("%+v: got %v, want %v that names the file", c.opt, err, c.is)
		}
	}
}
