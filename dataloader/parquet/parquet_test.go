package parquet_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/tabletest"
	"github.com/evenkeel/evenkeel/dataloader/parquet"
)

func TestNumbersOfEveryEncodingAndCodec(t *testing.T) {
	t.Parallel()
	want := tabletest.Expect(t, "numbers")
	found, _ := filepath.Glob("testdata/numbers-*.parquet")
	if len(found) != 10 {
		t.Fatalf("%d files, want 10", len(found))
	}
	for _, path := range found {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			d := open(t, name, parquet.Options{})
			if len(d.Fields()) != len(want) {
				t.Errorf("%d fields, want %d", len(d.Fields()), len(want))
			}
			tabletest.Compare(t, d, want, "")
		})
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"lists.parquet", "lists-v2.parquet"} {
		d := open(t, name, parquet.Options{})
		tabletest.Compare(t, d, tabletest.Expect(t, "lists"), "")
		if got := fmt.Sprint(d.Fields()[0].Shape, d.Fields()[1].Shape, d.Fields()[2].Shape); got != "[6] [6] [2 3]" {
			t.Errorf("%s: shapes %s", name, got)
		}
		d = open(t, name, parquet.Options{Columns: []parquet.Column{{Name: "fixed", Shape: []int{3, 2}, Type: arena.Float32}, {Name: "nested", Shape: []int{2, 3}}}})
		tabletest.Compare(t, d, tabletest.Expect(t, "lists"), "")
		if got := fmt.Sprint(d.Fields()[0].Shape, d.Fields()[1].Shape); got != "[3 2] [2 3]" {
			t.Errorf("%s: shapes %s", name, got)
		}
	}
}

// onlyBad returns the errors of the rows bad, and fails if another row has one, or one of them has none.
func onlyBad(t *testing.T, d dataloader.Dataset, bad ...int) (err error) {
	t.Helper()
	for i := range d.Len() {
		e := d.Fetch(t.Context(), dataloader.At{Index: i}, tabletest.Slots(d))
		if (e != nil) != slices.Contains(bad, i) || e != nil && !dataloader.IsBad(e) {
			t.Errorf("row %d of %d: got %v, want errors of rows %v", i, d.Len(), e, bad)
		}
		err = errors.Join(err, e)
	}
	return err
}

func TestListsOfOtherLengthsAreErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file, want string
		bad        []int
	}{
		{"ragged.parquet", "row 1 of the group", []int{1}}, {"long.parquet", "row 1 of the group", []int{1}},
		{"hollow.parquet", "row 1 of the group", []int{1}}, {"holes.parquet", "row 1 of the group", []int{1, 2}},
	} {
		d := open(t, c.file, parquet.Options{Columns: []parquet.Column{{Name: "l"}}})
		err := onlyBad(t, d, c.bad...)
		var f *dataloader.FormatError
		if !errors.As(err, &f) || !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(f.What, c.want) || filepath.Base(f.File) != c.file || f.Offset == 0 {
			t.Errorf("%s: got %v, want a FormatError with %q", c.file, err, c.want)
		}
	}
	_, err := parquet.Open("testdata/hollow.parquet", parquet.Options{Columns: []parquet.Column{{Name: "l", Shape: []int{2, 0}}}})
	if !errors.Is(err, dataloader.ErrField) {
		t.Errorf("shape [2 0]: got %v, want ErrField", err)
	}
}

func TestNullsAreErrorsUnlessFilled(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string][]int{"n": {1}, "i": {0, 2}} {
		d := open(t, "holes.parquet", parquet.Options{Columns: []parquet.Column{{Name: name}}})
		err := onlyBad(t, d, bad...)
		if !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), "Column.Fill") || !strings.Contains(err.Error(), "holes.parquet: column \""+name) {
			t.Errorf("%s: got %v, want an error that says what to do", name, err)
		}
	}
	d := open(t, "holes.parquet", parquet.Options{Columns: []parquet.Column{
		{Name: "l", Fill: new(-1.0)}, {Name: "n", Fill: new(-1.0)}, {Name: "i", Fill: new(-1.0), Type: arena.Int64}}})
	want := tabletest.Expect(t, "holes")
	want["l"][1] = []any{nil, nil}
	tabletest.Compare(t, d, want, "-1")
	_, err := parquet.Open("testdata/holes.parquet", parquet.Options{Columns: []parquet.Column{{Name: "i", Fill: new(0.5)}}})
	if !errors.Is(err, dataloader.ErrField) {
		t.Errorf("fill 0.5 for int32: got %v, want ErrField", err)
	}
}

func TestValuesWithARule(t *testing.T) {
	t.Parallel()
	classes := []string{"cat", "dog", "ox"}
	columns := []parquet.Column{{Name: "day"}, {Name: "us"}, {Name: "ms"}, {Name: "ns"}, {Name: "time"}, {Name: "dec"}, {Name: "big"},
		{Name: "label", Classes: classes}, {Name: "coded", Classes: classes, Type: arena.Uint8}, {Name: "id"}}
	want := tabletest.Expect(t, "rules")
	tabletest.Compare(t, open(t, "rules.parquet", parquet.Options{Columns: columns}), want, "")
	tabletest.Compare(t, open(t, "int96.parquet", parquet.Options{Columns: []parquet.Column{{Name: "ns"}}}), want, "")
	tabletest.Compare(t, open(t, "rules-int.parquet", parquet.Options{Columns: []parquet.Column{{Name: "dec"}, {Name: "label", Classes: classes}}}), want, "")

	d := open(t, "rules.parquet", parquet.Options{Columns: []parquet.Column{{Name: "dec", Type: arena.Int32}}})
	for i, v := range want["dec"] {
		x, _ := v.(json.Number).Float64()
		if got := tabletest.Numbers(d.Fields()[0], tabletest.Fetch(t, d, i)[0]); got[0] != fmt.Sprint(int(math.Round(x*100))) {
			t.Errorf("row %d: digits %v of %v", i, got, x)
		}
	}
	d = open(t, "rules.parquet", parquet.Options{Columns: []parquet.Column{{Name: "label", Classes: classes[:2]}}})
	var ox []int
	for i := 2; i < d.Len(); i += 3 {
		ox = append(ox, i)
	}
	if err := onlyBad(t, d, ox...); !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), `"ox"`) {
		t.Errorf("a text that is no class: got %v", err)
	}
	d = open(t, "rules.parquet", parquet.Options{Columns: []parquet.Column{{Name: "us", Type: arena.Int32}}})
	if err := d.Fetch(t.Context(), dataloader.At{}, tabletest.Slots(d)); !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), "int32") {
		t.Errorf("a time that int32 cannot hold: got %v", err)
	}
}

func TestImagesOfHuggingFace(t *testing.T) {
	t.Parallel()
	tabletest.Images(t, open(t, "images.parquet", parquet.Options{Columns: []parquet.Column{{Name: "image", Decoder: tabletest.Pixels{}}, {Name: "label", Type: arena.Int32}}}))
	_, err := parquet.Open("testdata/images.parquet", parquet.Options{})
	if !errors.Is(err, dataloader.ErrField) || !strings.Contains(err.Error(), "Decoder") {
		t.Errorf("without a decoder: got %v", err)
	}
}

func TestSeveralFilesAreOneDataset(t *testing.T) {
	t.Parallel()
	d := open(t, "part-*.parquet", parquet.Options{})
	tabletest.Compare(t, d, map[string][]any{"x": tabletest.Column(1, 2, 3, 4, 5)}, "")
	if _, err := parquet.Open("testdata/[op]*-*.parquet", parquet.Options{Columns: []parquet.Column{{Name: "x"}}}); err != nil {
		t.Errorf("another pattern: %v", err)
	}
	_, err := parquet.OpenFS(fstest.MapFS{"d/a.parquet": tabletest.File(t, "part-0.parquet"), "d/b.parquet": tabletest.File(t, "other.parquet"), "d/_c.parquet": tabletest.File(t, "other.parquet")}, "d", parquet.Options{})
	if !errors.Is(err, dataloader.ErrField) || !strings.Contains(err.Error(), "b.parquet") {
		t.Errorf("files with other columns: got %v", err)
	}
	d, err = parquet.OpenFS(fstest.MapFS{"d/b.parquet": tabletest.File(t, "part-1.parquet"), "d/a.parquet": tabletest.File(t, "part-0.parquet"), "d/.c.parquet": tabletest.File(t, "other.parquet")}, "d", parquet.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	tabletest.Compare(t, d, map[string][]any{"x": tabletest.Column(1, 2, 3)}, "")
	if _, err := parquet.Open("testdata/none-*.parquet", parquet.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file matches: got %v", err)
	}
}

func TestOddFiles(t *testing.T) {
	t.Parallel()
	tabletest.Compare(t, open(t, "gaps.parquet", parquet.Options{}), map[string][]any{"x": tabletest.Column(1, 2, 3)}, "")
	tabletest.Compare(t, open(t, "nested.parquet", parquet.Options{Columns: []parquet.Column{{Name: "x"}, {Name: "s.a"}, {Name: "tree.a.b"}}}),
		map[string][]any{"x": tabletest.Column(5), "s.a": tabletest.Column(1), "tree.a.b": tabletest.Column(7)}, "")
	for _, c := range []struct {
		file    string
		columns []parquet.Column
		is      error
		want    string
	}{
		{"empty.parquet", nil, dataloader.ErrEmpty, "empty.parquet"},
		{"nocolumns.parquet", nil, dataloader.ErrField, "no columns"},
		{"nested.parquet", nil, dataloader.ErrField, "a list of structures"},
		{"nested.parquet", []parquet.Column{{Name: "m.key_value.value"}}, dataloader.ErrField, "a map"},
		{"nested.parquet", []parquet.Column{{Name: "none"}}, dataloader.ErrField, "s.a (int64)"},
		{"nested.parquet", []parquet.Column{{Name: "x"}, {Name: "x"}}, dataloader.ErrField, "twice"},
		{"rules.parquet", []parquet.Column{{Name: "label"}}, dataloader.ErrField, "Classes"},
		{"rules.parquet", []parquet.Column{{Name: "day", Classes: []string{"a"}}}, dataloader.ErrField, "Classes are for text"},
		{"rules.parquet", []parquet.Column{{Name: "day", Decoder: tabletest.Pixels{}}}, dataloader.ErrField, "Decoder takes bytes"},
		{"rules.parquet", []parquet.Column{{Name: "label", Classes: []string{"a", "a"}}}, dataloader.ErrField, "occurs twice"},
		{"rules.parquet", []parquet.Column{{Name: "id", Shape: []int{6}}}, dataloader.ErrField, "5 elements"},
		{"numbers-dict.parquet", []parquet.Column{{Name: "f32", Type: arena.Int32}}, dataloader.ErrField, "floating-point"},
		{"make.py", nil, dataloader.ErrFormat, "PAR1"},
		{"none.parquet", nil, fs.ErrNotExist, "none.parquet"},
	} {
		d, err := parquet.Open("testdata/"+c.file, parquet.Options{Columns: c.columns})
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: got %v, want %v with %q", c.file, c.columns, err, c.is, c.want)
		}
		if d != nil {
			d.Close()
		}
	}
	d := open(t, "prefix.parquet", parquet.Options{Columns: []parquet.Column{{Name: "label", Classes: []string{"cat"}}}})
	if err := d.Fetch(t.Context(), dataloader.At{}, tabletest.Slots(d)); !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), "DELTA_BYTE_ARRAY") {
		t.Errorf("an encoding that is not read: got %v", err)
	}
}

func TestARowGroupAboveTheLimitSaysWhatToDo(t *testing.T) {
	t.Parallel()
	_, err := parquet.Open("testdata/numbers-dict.parquet", parquet.Options{Limit: 64*(4+8+4+4+4+8+1+4+8+8+1+2) - 1})
	if !errors.Is(err, dataloader.ErrOption) || !strings.Contains(err.Error(), "row groups of at most 63 rows") {
		t.Errorf("got %v", err)
	}
	d := open(t, "numbers-dict.parquet", parquet.Options{Limit: 64 * (4 + 8 + 4 + 4 + 4 + 8 + 1 + 4 + 8 + 8 + 1 + 2)})
	tabletest.Compare(t, d, tabletest.Expect(t, "numbers"), "")
	if _, err := parquet.Open("testdata/numbers-dict.parquet", parquet.Options{Limit: -1}); !errors.Is(err, dataloader.ErrOption) {
		t.Errorf("limit -1: got %v", err)
	}
}

func TestTheLimitIsOfAllColumnsTogether(t *testing.T) {
	t.Parallel()
	// 50 texts of 2 to 3 bytes, which a dictionary makes smaller in the file.
	for _, c := range []struct {
		limit   int64
		columns int
		fits    bool
	}{{1000, 2, true}, {270, 2, true}, {265, 2, false}, {265, 1, true}} {
		columns := []parquet.Column{{Name: "label", Decoder: tabletest.LastByte{}}, {Name: "coded", Decoder: tabletest.LastByte{}}}[:c.columns]
		d, err := parquet.Open("testdata/rules.parquet", parquet.Options{Limit: c.limit, Columns: columns})
		if err == nil {
			err = d.Fetch(t.Context(), dataloader.At{}, tabletest.Slots(d))
			d.Close()
		}
		if (err == nil) != c.fits || err != nil && !strings.Contains(err.Error(), "Options.Limit") {
			t.Errorf("limit %d, %d columns: got %v", c.limit, c.columns, err)
		}
	}
}
