package csv_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/csv"
)

// A fill for missing labels never is the label of a class that was found, since that depends on the
// file.
func TestAFillOfFoundClassesIsNoLabel(t *testing.T) {
	const text = "k\ndog\n\"\"\nNA\ncat\n"
	for _, c := range []struct {
		field csv.Field
		want  string // of an error
		rows  [][]float64
	}{
		{csv.Field{FindClasses: true}, `want a value, or Field.Fill for missing ones, got ""`, nil},
		{csv.Field{FindClasses: true, Fill: new(-1.0)}, "", [][]float64{{1}, {-1}, {-1}, {0}}},
		{csv.Field{FindClasses: true, Fill: new(0.0)}, `t.csv: field 0 "k": fill 0: the labels of found classes depend on the data`, nil},
		{csv.Field{FindClasses: true, Fill: new(-1.0), Type: arena.Uint8}, "uint8 does not hold the fill -1", nil},
		{csv.Field{Classes: []string{"cat", "dog"}, Fill: new(1.0)}, "", [][]float64{{1}, {1}, {1}, {0}}},
		{csv.Field{Classes: []string{"cat", "dog"}, Fill: new(-100.0)}, "", [][]float64{{1}, {-100}, {-100}, {0}}},
		{csv.Field{Classes: []string{"cat", "dog", "NA", ""}}, "", [][]float64{{1}, {3}, {2}, {0}}},
		{csv.Field{Classes: []string{"cat", "dog"}, Fill: new(2.0)}, "fill 2: must be a label of the 2 classes, or a negative number", nil},
	} {
		c.field.Name = "k"
		for held := range 2 {
			ds, err := parse("t.csv", text, csv.Options{Held: held, Missing: []string{"NA"}, Fields: []csv.Field{c.field}})
			var got [][]float64
			switch {
			case err == nil && c.want == "":
				if got = rows(t, ds); !equal(got, c.rows) {
					t.Errorf("%+v: got %v, want %v", c.field, got, c.rows)
				}
				if want := c.field.Classes; want == nil && !slices.Equal(ds.Classes("k"), []string{"cat", "dog"}) {
					t.Errorf("%+v: classes %q", c.field, ds.Classes("k"))
				}
				continue
			case err == nil:
				err = ds.Fetch(t.Context(), dataloader.At{Index: 1}, [][]byte{make([]byte, 4)})
			}
			if c.want == "" || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: got %v, want %q", c.field, err, c.want)
			}
		}
	}
}

func TestMistakesInOptionsNameTheFile(t *testing.T) {
	for _, c := range []struct {
		opt csv.Options
		is  error
	}{
		{csv.Options{Held: -1}, dataloader.ErrOption},
		{csv.Options{Comment: ','}, dataloader.ErrOption},
		{csv.Options{Fields: []csv.Field{{Name: "missing"}}}, dataloader.ErrField},
		{csv.Options{Fields: []csv.Field{{Name: "k", Type: arena.Float16}}}, dataloader.ErrField},
		{csv.Options{Fields: []csv.Field{{Name: "k"}, {Name: "k"}}}, dataloader.ErrField},
		{csv.Options{Held: 1, Fields: []csv.Field{{Name: "k"}, {Name: "k"}}}, dataloader.ErrField},
	} {
		_, err := parse("t.csv", "k\n1\n", c.opt)
		if !errors.Is(err, c.is) || !strings.HasPrefix(err.Error(), "t.csv: ") {
			t.Errorf("%+v: got %v, want %v that names the file", c.opt, err, c.is)
		}
	}
}
