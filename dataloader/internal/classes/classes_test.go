package classes_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader/internal/classes"
)

func TestLabelsAreIndices(t *testing.T) {
	var labels classes.Labels
	if labels.Used() || labels.Texts() != nil {
		t.Error("the zero value has classes")
	}
	list := []string{"b", "", "a"}
	if problem := labels.Set(list, false, arena.Uint8, new(2.0)); problem != "" || !labels.Used() || labels.Len() != 3 || !slices.Equal(labels.Texts(), list) {
		t.Errorf("got %v, %q", labels, problem)
	}
	for i, text := range append(list, "c") {
		if k, ok := labels.Of([]byte(text)); ok != (i < 3) || ok && int(k) != i {
			t.Errorf("%q: got %d, %t", text, k, ok)
		}
	}
	full := make([]string, 256)
	for i := range full {
		full[i] = fmt.Sprint(i)
	}
	for _, c := range []struct {
		list  []string
		found bool
		t     arena.DType
		fill  *float64
		want  string
	}{
		{full, false, arena.Uint8, nil, ""},
		{append(slices.Clone(full), "more"), false, arena.Uint8, nil, "uint8 does not hold the number of 257 classes"},
		{append(slices.Clone(full), "more"), false, arena.Int32, nil, ""},
		{[]string{"a"}, false, arena.Float32, nil, "whole numbers"},
		{[]string{"a"}, false, arena.BFloat16, nil, "whole numbers"},
		{[]string{"a", "b", "a"}, false, arena.Int64, nil, `"a" occurs twice`},
		{[]string{"a"}, false, arena.Int32, new(0.0), ""},
		{[]string{"a"}, false, arena.Int32, new(1.0), "must be a label of the 1 classes"},
		{[]string{"a"}, false, arena.Int32, new(-1.0), ""},
		{[]string{"a"}, true, arena.Int32, new(0.0), "depend on the data"},
		{nil, true, arena.Int32, new(-1.0), ""},
	} {
		if problem := new(classes.Labels).Set(c.list, c.found, c.t, c.fill); (problem == "") != (c.want == "") || !strings.Contains(problem, c.want) {
			t.Errorf("%d classes, found %t, of %v: got %q, want %q", len(c.list), c.found, c.t, problem, c.want)
		}
	}
}

func TestTextsAreCollectedUpToTheBounds(t *testing.T) {
	var f classes.Found
	var all sync.WaitGroup
	for k := range 4 {
		all.Go(func() {
			for i := range classes.Most {
				if want := f.Add(fmt.Append(nil, (i+k)%classes.Most)); want != "" {
					t.Error(want)
				}
			}
		})
	}
	all.Wait()
	sorted := f.Sorted()
	if len(sorted) != classes.Most || !slices.IsSorted(sorted) || f.Add([]byte("17")) != "" || f.Add([]byte("more")) == "" {
		t.Errorf("%d texts", len(sorted))
	}
	var g classes.Found
	if got := g.Sorted(); got == nil || len(got) != 0 {
		t.Errorf("no texts are %v", got)
	}
	half := strings.Repeat("x", classes.MostBytes/2)
	for text, fits := range map[string]bool{half: true, half[1:] + "y": true} {
		if (g.Add([]byte(text)) == "") != fits {
			t.Errorf("a text of %d bytes", len(text))
		}
	}
	if g.Add([]byte("z")) == "" || g.Add(make([]byte, math.MaxInt32>>4)) == "" {
		t.Error("texts beyond the bound of bytes are collected")
	}
}
