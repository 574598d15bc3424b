package jsonl_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/jsonl"
)

// A bad value makes only its line bad, with the line in the error, and so does a line that is no JSON.
func TestABadValueIsTheErrorOfItsLine(t *testing.T) {
	const lines = `{"x":[1,2],"k":"a"}
{"x":[3],"k":"b"}
{"x":[5,6],"k":"b"}

{"x":[7,"no"],"k":"a"}
{"x":[9,10],"k":"c"}
{"x":[11,12],
{"x":[13,14],"k":"a"} more
{"k":"a"}
{"x":[15,16],"k":"a"}
`
	for _, find := range []bool{false, true} {
		field := jsonl.Field{Name: "k", FindClasses: find}
		classC := "c"
		if !find {
			field.Classes, classC = []string{"a", "b"}, ""
		}
		ds, err := parse("t.jsonl", lines, jsonl.Options{Fields: []jsonl.Field{{Name: "x", Shape: []int{2}}, field}})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"[1 2] [0]", "line 2", "[5 6] [1]", "line 5", "line 6", "line 7", "line 8", "line 9", "[15 16] [0]"}
		if find {
			want[4] = "[9 10] [2]"
		}
		if got := strings.Join(ds.Classes("k"), ""); got != "ab"+classC || ds.Len() != len(want) {
			t.Errorf("%d lines, classes %q", ds.Len(), got)
		}
		x, k := make([]byte, 8), make([]byte, 4)
		for i, want := range want {
			err := ds.Fetch(t.Context(), dataloader.At{Index: i}, [][]byte{x, k})
			got := fmt.Sprint(dataloader.View[float32](x), dataloader.View[int32](k))
			var f *dataloader.FormatError
			if errors.As(err, &f) && f.File == "t.jsonl" && dataloader.IsBad(err) {
				got = f.What
			} else if err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("find %t, sample %d: got %s (%v), want %s", find, i, got, err, want)
			}
		}
		ds.Close()
	}
}

// The texts of good lines stay theirs if others between them are bad.
func TestTextsOfABadLineAreLeftOut(t *testing.T) {
	ds, err := parse("t.jsonl", "{\"t\":\"aa\",\"x\":1}\n{\"t\":\"bbb\",\"x\":\"no\"}\n{\"x\":2,\"t\":\"cccc\"}\n", jsonl.Options{Fields: []jsonl.Field{{Name: "t", Decoder: lengths{}}, {Name: "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer ds.Close()
	for i, want := range []byte{2, 0, 4} {
		dst := [][]byte{make([]byte, 1), make([]byte, 4)}
		if err := ds.Fetch(t.Context(), dataloader.At{Index: i}, dst); (err == nil) != (want != 0) || err == nil && dst[0][0] != want {
			t.Errorf("line %d: got a text of %d, %v, want %d", i, dst[0][0], err, want)
		}
	}
}
