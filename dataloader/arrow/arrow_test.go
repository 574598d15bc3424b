package arrow_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/arrow"
	"github.com/evenkeel/evenkeel/dataloader/internal/tabletest"
)

// ways are the ways to read a file: mapped or not.
var ways = []arrow.Options{{}, {NoMapping: true}}

func TestNumbersOfEveryFormat(t *testing.T) {
	t.Parallel()
	want := tabletest.Expect(t, "numbers")
	for name, plain := range map[string]bool{"numbers.arrow": true, "numbers-stream.arrows": true, "numbers-lz4.arrow": false,
		"numbers-zstd.arrow": false, "numbers-zstd.arrows": false, "numbers-lz4.feather": false} {
		for _, opt := range ways {
			t.Run(fmt.Sprintf("%s/%v", name, opt.NoMapping), func(t *testing.T) {
				d := open(t, name, opt)
				if len(d.Fields()) != len(want) || d.Random != (plain && !opt.NoMapping) {
					t.Errorf("%d fields, random access %v", len(d.Fields()), d.Random)
				}
				if err := dataloader.Check(d); err != nil {
					t.Error(err)
				}
				tabletest.Compare(t, d, want, "")
			})
		}
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"lists.arrow", "lists-zstd.arrow"} {
		d := open(t, name, arrow.Options{})
		tabletest.Compare(t, d, tabletest.Expect(t, "lists"), "")
		var shapes []string
		for _, f := range d.Fields() {
			shapes = append(shapes, fmt.Sprint(f.Shape))
		}
		if got := fmt.Sprint(shapes); got != "[[6] [6] [6] [2 3] [6]]" {
			t.Errorf("%s: shapes %s", name, got)
		}
		d = open(t, name, arrow.Options{Columns: []arrow.Column{{Name: "fixed", Shape: []int{3, 2}, Type: arena.Float32}, {Name: "nested", Shape: []int{2, 3}}}})
		tabletest.Compare(t, d, tabletest.Expect(t, "lists"), "")
		if got := fmt.Sprint(d.Fields()[0].Shape, d.Fields()[1].Shape); got != "[3 2] [2 3]" {
			t.Errorf("%s: shapes %s", name, got)
		}
	}
}

func TestListsOfOtherLengthsAreErrors(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ragged.arrow", "hollow.arrow", "holes.arrow"} {
		for _, opt := range ways {
			opt.Columns = []arrow.Column{{Name: "l"}}
			d := open(t, name, opt)
			err := d.Fetch(t.Context(), dataloader.At{Index: 1}, tabletest.Slots(d))
			var f *dataloader.FormatError
			if !errors.As(err, &f) || !strings.Contains(f.What, "row 1") || filepath.Base(f.File) != name || f.Offset == 0 {
				t.Errorf("%s: got %v, want a FormatError with row 1", name, err)
			}
			tabletest.Fetch(t, d, 0) // the other rows are as they were
		}
	}
}

func TestNullsAreErrorsUnlessFilled(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"n", "flag", "coded"} {
		d := open(t, "holes.arrow", arrow.Options{Columns: []arrow.Column{{Name: name}}})
		err := d.Fetch(t.Context(), dataloader.At{Index: []int{1, 0, 0}[i]}, tabletest.Slots(d))
		if !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), "Column.Fill") {
			t.Errorf("%s: got %v, want an error that says what to do", name, err)
		}
	}
	fill := new(3.0)
	d := open(t, "holes.arrow", arrow.Options{Columns: []arrow.Column{{Name: "l", Fill: fill}, {Name: "fixed", Fill: fill}, {Name: "n", Fill: fill},
		{Name: "flag", Fill: fill}, {Name: "coded", Fill: fill, Type: arena.Int32}}})
	want := tabletest.Expect(t, "holes")
	want["l"][1], want["fixed"][1] = []any{nil, nil}, []any{nil, nil}
	tabletest.Compare(t, d, want, "3")
}

func TestValuesWithARule(t *testing.T) {
	t.Parallel()
	classes := []string{"cat", "dog", "a text of more than twelve bytes"}
	columns := []arrow.Column{{Name: "day"}, {Name: "ms64"}, {Name: "us"}, {Name: "ns"}, {Name: "time"}, {Name: "dec"}, {Name: "big"},
		{Name: "label", Classes: classes}, {Name: "large", Classes: classes}, {Name: "view", Classes: classes},
		{Name: "coded", Classes: classes, Type: arena.Uint8}, {Name: "id"}, {Name: "s.a"}, {Name: "s.b.c"}}
	for _, opt := range ways {
		opt.Columns = columns
		tabletest.Compare(t, open(t, "rules.arrow", opt), tabletest.Expect(t, "rules"), "")
	}
	d := open(t, "rules.arrow", arrow.Options{Columns: []arrow.Column{{Name: "view", Classes: classes[:2]}}})
	if err := d.Fetch(t.Context(), dataloader.At{Index: 2}, tabletest.Slots(d)); !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), "a text of more") {
		t.Errorf("a text that is no class: got %v", err)
	}
	for _, opt := range ways { // dictionaries that grow from batch to batch
		opt.Columns = []arrow.Column{{Name: "x", Classes: []string{"cat", "dog", "ox"}}}
		number := func(s string) json.Number { return json.Number(s) }
		tabletest.Compare(t, open(t, "growing.arrows", opt),
			map[string][]any{"x": {number("0"), number("1"), number("0"), number("1"), number("2"), number("2"), number("2"), number("0")}}, "")
	}
}

func TestFoundClassesAreThoseOfAllBatches(t *testing.T) {
	t.Parallel()
	for _, opt := range ways {
		opt.Columns = []arrow.Column{{Name: "x", Field: "y", FindClasses: true}}
		d := open(t, "growing.arrows", opt)
		if got := d.Classes("y"); !slices.Equal(got, []string{"cat", "dog", "ox"}) || d.Classes("x") != nil {
			t.Errorf("classes %q", got)
		}
		for i, want := range []string{"0", "1", "0", "1", "2", "2", "2", "0"} {
			if got := tabletest.Numbers(d.Fields()[0], tabletest.Fetch(t, d, i)[0]); got[0] != want {
				t.Errorf("row %d: got %v, want %s", i, got, want)
			}
		}
		opt.Columns = []arrow.Column{{Name: "view", FindClasses: true}, {Name: "day"}}
		if got := open(t, "rules.arrow", opt).Classes("view"); !slices.Equal(got, []string{"a text of more than twelve bytes", "cat", "dog"}) {
			t.Errorf("classes %q", got)
		}
		opt.Columns = []arrow.Column{{Name: "x", FindClasses: true, Fill: new(0.0)}}
		if _, err := arrow.Open("testdata/growing.arrows", opt); !errors.Is(err, dataloader.ErrField) || !strings.Contains(err.Error(), "depend on the data") {
			t.Errorf("a label as fill: got %v", err)
		}
	}
}

func TestImagesOfHuggingFace(t *testing.T) {
	t.Parallel()
	d := open(t, "images.arrow", arrow.Options{Columns: []arrow.Column{{Name: "image", Decoder: tabletest.Pixels{}}, {Name: "label", Type: arena.Int32}}})
	if !d.Random {
		t.Error("no random access")
	}
	tabletest.Images(t, d)
}

func TestSeveralFilesAreOneDataset(t *testing.T) {
	t.Parallel()
	five := map[string][]any{"x": tabletest.Column(1, 2, 3, 4, 5)}
	tabletest.Compare(t, open(t, "part-*.arrow", arrow.Options{}), five, "")
	fsys := fstest.MapFS{"d/c.feather": tabletest.File(t, "part-2.arrow"), "d/b.arrow": tabletest.File(t, "part-1.arrow"), "d/a.arrow": tabletest.File(t, "part-0.arrow"), "d/.x.arrow": tabletest.File(t, "other.arrow")}
	d, err := arrow.OpenFS(fsys, "d", arrow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	tabletest.Compare(t, d, five, "")
	fsys["d/d.arrow"] = tabletest.File(t, "other.arrow")
	if _, err = arrow.OpenFS(fsys, "d", arrow.Options{}); !errors.Is(err, dataloader.ErrField) || !strings.Contains(err.Error(), "d.arrow") {
		t.Errorf("files with other columns: got %v", err)
	}
}

func TestOddFiles(t *testing.T) {
	t.Parallel()
	for _, opt := range ways {
		tabletest.Compare(t, open(t, "gaps.arrow", opt), map[string][]any{"x": tabletest.Column(1, 2, 3)}, "")
	}
	for _, c := range []struct {
		file    string
		columns []arrow.Column
		is      error
		want    string
	}{
		{"empty.arrow", nil, dataloader.ErrEmpty, "empty.arrow"},
		{"nocolumns.arrow", nil, dataloader.ErrField, "no columns"},
		{"nested.arrow", nil, dataloader.ErrField, "map"},
		{"nested.arrow", []arrow.Column{{Name: "l"}}, dataloader.ErrField, "struct"},
		{"nested.arrow", []arrow.Column{{Name: "z"}}, dataloader.ErrField, "null"},
		{"nested.arrow", []arrow.Column{{Name: "none"}}, dataloader.ErrField, "x (int32)"},
		{"rules.arrow", []arrow.Column{{Name: "label"}}, dataloader.ErrField, "Classes"},
		{"rules.arrow", []arrow.Column{{Name: "id", Shape: []int{6}}}, dataloader.ErrField, "5 elements"},
		{"make.py", nil, dataloader.ErrFormat, "message"},
		{"none.arrow", nil, fs.ErrNotExist, "none.arrow"},
	} {
		d, err := arrow.Open("testdata/"+c.file, arrow.Options{Columns: c.columns})
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: got %v, want %v with %q", c.file, c.columns, err, c.is, c.want)
		}
		if d != nil {
			d.Close()
		}
	}
}

func TestARecordBatchAboveTheLimitSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"numbers.arrow", "numbers-zstd.arrow"} {
		_, err := arrow.Open("testdata/"+name, arrow.Options{Limit: 900, NoMapping: true})
		if !errors.Is(err, dataloader.ErrOption) || !strings.Contains(err.Error(), "smaller record batches") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	d := open(t, "lists-zstd.arrow", arrow.Options{Limit: 2000, Columns: []arrow.Column{{Name: "fixed"}}})
	err := d.Fetch(t.Context(), dataloader.At{}, tabletest.Slots(d))
	if !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), "Options.Limit") {
		t.Errorf("decompressed bytes: got %v", err)
	}
}

func TestAFetchFromAMappedFileAllocatesNothing(t *testing.T) {
	for _, c := range []struct {
		file    string
		columns []arrow.Column
	}{{"numbers.arrow", nil}, {"lists.arrow", nil}, {"rules.arrow", []arrow.Column{{Name: "dec"}, {Name: "view", Classes: []string{"cat", "dog", "a text of more than twelve bytes"}}}}} {
		d := open(t, c.file, arrow.Options{Columns: c.columns})
		dst, i := tabletest.Slots(d), 0
		if n := testing.AllocsPerRun(100, func() {
			if err := d.Fetch(t.Context(), dataloader.At{Index: i * 7 % d.Len()}, dst); err != nil {
				t.Fatal(err)
			}
			i++
		}); n != 0 {
			t.Errorf("%s: %v allocations a sample, want 0", c.file, n)
		}
	}
}

func TestAMappedFileThatShrinksIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.arrow")
	big := bytes.Clone(tabletest.File(t, "numbers.arrow").Data)
	if err := os.WriteFile(path, big, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, opt := range ways {
		if !opt.NoMapping && runtime.GOOS == "windows" { // which keeps a mapped file as long as it is
			continue
		}
		d, err := arrow.Open(path, opt)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
		if err := d.Fetch(t.Context(), dataloader.At{Index: d.Len() - 1}, tabletest.Slots(d)); err == nil {
			t.Errorf("mapped %v: no error", !opt.NoMapping)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(path, big, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
