package dataloader_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
)

// three is a dataset in memory with the fields a, b and c.
func three(t *testing.T) *dataloader.Slices {
	t.Helper()
	ds, err := dataloader.FromSlices(3, dataloader.Column("a", []int32{1, 2, 3}), dataloader.Column("b", []uint8{1, 2, 3, 4, 5, 6}, 2),
		dataloader.Column("c", []float32{7, 8, 9}).Scaled(2, 1))
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

// fetched returns sample i, by field name.
func fetched(t *testing.T, ds dataloader.Dataset, i int) map[string][]byte {
	t.Helper()
	var dst [][]byte
	for _, f := range ds.Fields() {
		dst = append(dst, make([]byte, f.Bytes()))
	}
	if err := ds.Fetch(t.Context(), dataloader.At{Index: i, Seed: 3}, dst); err != nil {
		t.Fatal(err)
	}
	out := make(map[string][]byte)
	for k, f := range ds.Fields() {
		out[f.Name] = dst[k]
	}
	return out
}

func TestSelectKeepsAndOrdersSomeFieldsOfAnyDataset(t *testing.T) {
	whole := three(t)
	part, err := dataloader.Subset(whole, 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	double := dataloader.Map(whole, func(at dataloader.At, s [][]byte) error { // reads a field that is left out
		r := at.Rand()
		s[1][0], s[1][1] = s[0][0]*2, byte(r.Uint64())
		return nil
	})
	for name, ds := range map[string]dataloader.Dataset{"in memory": whole, "subset": part, "map": double, "user-written": &moody{Dataset: whole}} {
		for _, names := range [][]string{{"c", "b"}, {"b"}, {"a", "b", "c"}} {
			got, err := dataloader.Select(ds, names...)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got.Len() != ds.Len() || len(got.Fields()) != len(names) || dataloader.Check(got) != nil {
				t.Errorf("%s: select %q: %d samples, fields %v, %v", name, names, got.Len(), got.Fields(), dataloader.Check(got))
			}
			for i := range ds.Len() {
				all, some := fetched(t, ds, i), fetched(t, got, i)
				for k, f := range names {
					if got.Fields()[k].Name != f || !bytes.Equal(some[f], all[f]) {
						t.Errorf("%s: sample %d of select %q: got %v, want %v", name, i, names, some, all)
					}
				}
			}
		}
	}
	c, err := dataloader.Select(&moody{Dataset: whole}, "c")
	if err != nil {
		t.Fatal(err)
	}
	if f := c.Fields()[0]; f.Scale != 2 || f.Shift != 1 {
		t.Errorf("decoding is lost: %+v", f)
	}
}

func TestSelectNamesEveryFieldThatItCannotGive(t *testing.T) {
	_, err := dataloader.Select(three(t), "a", "x", "a", "y")
	for _, want := range []string{`"x"`, `"y"`, `"a" twice`, `["a" "b" "c"]`} {
		if !errors.Is(err, dataloader.ErrOption) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ErrOption and %s", err, want)
		}
	}
	if _, err := dataloader.Select(three(t)); !errors.Is(err, dataloader.ErrOption) {
		t.Errorf("no names: got %v, want ErrOption", err)
	}
}

func TestSelectCopiesNothingItNeedNot(t *testing.T) {
	allocs := func(ds dataloader.Dataset) float64 {
		some, err := dataloader.Select(ds, "b")
		if err != nil {
			t.Fatal(err)
		}
		dst := [][]byte{make([]byte, 2)}
		return testing.AllocsPerRun(100, func() {
			if err := some.Fetch(context.Background(), dataloader.At{Index: 1}, dst); err != nil {
				t.Fatal(err)
			}
		})
	}
	for name, ds := range map[string]dataloader.Dataset{"in memory": three(t), "user-written": &moody{Dataset: three(t)}} {
		// One sample's memory is six objects. Under the race detector a sync.Pool forgets a quarter of them, on purpose.
		if n := allocs(ds); n > 2 {
			t.Errorf("%s: %v objects a sample, want none", name, n)
		}
	}
	big, err := dataloader.FromSlices(1<<20, dataloader.Column("a", make([]uint8, 1<<20)), dataloader.Column("b", make([]uint8, 1<<20)))
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(5, func() { _, _ = dataloader.Select(big, "b") }); n > 20 {
		t.Errorf("selecting from memory makes %v objects, want a few", n)
	}
}

func TestSelectFindsAReplacedSlice(t *testing.T) {
	ds, err := dataloader.Select(&fake{n: 4, fetch: func(_ context.Context, _ dataloader.At, dst [][]byte) error {
		dst[0] = make([]byte, 4)
		return nil
	}}, "id")
	if err != nil {
		t.Fatal(err)
	}
	if err := ds.Fetch(t.Context(), dataloader.At{}, [][]byte{make([]byte, 4)}); !errors.Is(err, dataloader.ErrField) {
		t.Errorf("got %v, want ErrField", err)
	}
}

func TestALoaderReadsASelection(t *testing.T) {
	ds, err := dataloader.Select(&fake{n: 100}, "draw", "id")
	if err != nil {
		t.Fatal(err)
	}
	l, s := open(t, ds, dataloader.Options{Batch: 8, Shuffle: true, Workers: 4}), slots(ds, 2, 8)
	for i := range s {
		s[i].Fields[0], s[i].Fields[1] = s[i].Fields[1], s[i].Fields[0]
	}
	if _, err := l.Epoch(t.Context(), 0, s); !errors.Is(err, dataloader.ErrSlot) {
		t.Errorf("slots in the other order: got %v, want ErrSlot", err)
	}
	back, err := dataloader.Select(ds, "id", "draw")
	if err != nil {
		t.Fatal(err)
	}
	all := &fake{n: 100}
	opt := dataloader.Options{Batch: 8, Shuffle: true, Workers: 4}
	want, err := drain(t, open(t, all, opt), 2, slots(all, 2, 8))
	if err != nil {
		t.Fatal(err)
	}
	got, err := drain(t, open(t, back, opt), 2, slots(back, 2, 8))
	if err != nil {
		t.Fatal(err)
	}
	for i := range want.IDs {
		if got.IDs[i] != want.IDs[i] || got.Draws[i] != want.Draws[i] {
			t.Fatalf("sample %d: got %d and %d, want %d and %d", i, got.IDs[i], got.Draws[i], want.IDs[i], want.Draws[i])
		}
	}
}
