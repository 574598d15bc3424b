package dataloader_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

// seqFields has an odd size first, so that what follows it is not aligned in a packed sample.
var seqFields = []dataloader.Field{{Name: "tag", Type: arena.Uint8}, {Name: "x", Type: arena.Float64, Shape: []int{2}}}

func writeSeq(i int, dst [][]byte) error {
	if i%2 == 1 { // other samples keep the zeros
		dst[0][0] = byte(i)
	}
	copy(dataloader.View[float64](dst[1]), []float64{float64(i), -float64(i)})
	return nil
}

// counting yields from, from+1, … to-1.
func counting(from, to int) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for i := from; i < to; i++ {
			if !yield(i, nil) {
				return
			}
		}
	}
}

// checkSeq compares all samples with those that writeSeq writes.
func checkSeq(t *testing.T, ds dataloader.Dataset, n int) {
	t.Helper()
	if ds.Len() != n {
		t.Fatalf("%d samples, want %d", ds.Len(), n)
	}
	tag, x := make([]byte, 1), make([]byte, 16)
	for i := range n {
		if err := ds.Fetch(t.Context(), dataloader.At{Index: i}, [][]byte{tag, x}); err != nil {
			t.Error(err)
			return
		}
		want := byte(i % 2 * i)
		if v := dataloader.View[float64](x); tag[0] != want || v[0] != float64(i) || v[1] != -float64(i) {
			t.Errorf("sample %d: got %d %v", i, tag[0], v)
		}
	}
}

func TestASequenceIsKeptWithinItsBytes(t *testing.T) {
	const n = 70_000 // of 17 bytes: two pieces
	ds, err := dataloader.FromSeq(t.Context(), counting(0, n), seqFields, writeSeq, dataloader.SequenceOptions{Bytes: 17 * n})
	if err != nil {
		t.Fatal(err)
	}
	checkSeq(t, ds, n)
	_, err = dataloader.FromSeq(t.Context(), counting(0, n), seqFields, writeSeq, dataloader.SequenceOptions{Bytes: 17*n - 1})
	if !errors.Is(err, dataloader.ErrOption) || !strings.Contains(err.Error(), "sample 69999 of the sequence: more than 1189999 bytes of samples") {
		t.Errorf("one byte less: %v", err)
	}
	dst := [][]byte{make([]byte, 1), make([]byte, 16)}
	if a := testing.AllocsPerRun(100, func() { ds.Fetch(context.Background(), dataloader.At{Index: 66_000}, dst) }); a != 0 {
		t.Errorf("%v allocations", a)
	}
	for _, i := range []int{-1, n} {
		if err := ds.Fetch(t.Context(), dataloader.At{Index: i}, dst); !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("sample %d: %v", i, err)
		}
	}
}

func TestBlocksOfASequenceAreReadWhenTheyAreNeeded(t *testing.T) {
	var begun, yielded atomic.Int64
	from := func(i int) iter.Seq2[int, error] {
		begun.Add(1)
		return func(yield func(int, error) bool) {
			for x := range counting(i, 1000) {
				yielded.Add(1)
				if !yield(x, nil) {
					return
				}
			}
		}
	}
	ds, err := dataloader.FromSeqBlocks(103, from, seqFields, writeSeq, dataloader.SequenceOptions{Block: 10, Held: 3})
	if err != nil || begun.Load() != 0 {
		t.Fatalf("%v, %d sequences", err, begun.Load())
	}
	checkSeq(t, ds, 103)
	if begun.Load() != 11 || yielded.Load() != 103 {
		t.Errorf("%d sequences with %d samples, want 11 with 103", begun.Load(), yielded.Load())
	}
	checkSeq(t, ds, 103) // again, in blocks whose memory is used again
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { checkSeq(t, ds, 103) })
	}
	all.Wait()
	if b := ds.(dataloader.Blocked).Blocks(); len(b.Starts) != 11 || b.Starts[10] != 100 || b.Group != 1 {
		t.Errorf("blocks %+v", b)
	}
}

func TestMistakesOfASequenceNameTheSample(t *testing.T) {
	broken := errors.New("broken")
	cancelled, cancel := context.WithCancel(t.Context())
	failing := func(yield func(int, error) bool) { _ = yield(0, nil) && yield(0, broken) }
	panicking := func(yield func(int, error) bool) { yield(0, nil); panic(broken) }
	stopping := func(yield func(int, error) bool) { yield(0, nil); cancel() }
	write := func(int, [][]byte) error { return broken }
	none := dataloader.SequenceOptions{}
	for name, c := range map[string]struct {
		ctx    context.Context
		seq    iter.Seq2[int, error]
		fields []dataloader.Field
		write  func(int, [][]byte) error
		opt    dataloader.SequenceOptions
		is     error
		want   string
		blocks bool // also of FromSeqBlocks
	}{
		"error of the sequence": {t.Context(), failing, seqFields, writeSeq, none, broken, "sample 1 of the sequence: broken", true},
		"panic":                 {t.Context(), panicking, seqFields, writeSeq, none, dataloader.ErrPanic, "sample 1 of the sequence: panic: broken", true},
		"error of write":        {t.Context(), counting(0, 9), seqFields, write, none, broken, "sample 0 of the sequence: broken", true},
		"end for its context":   {cancelled, stopping, seqFields, writeSeq, none, context.Canceled, "", false},
		"done context":          {cancelled, counting(0, 9), seqFields, writeSeq, none, context.Canceled, "", false},
		"no samples":            {t.Context(), counting(0, 0), seqFields, writeSeq, none, dataloader.ErrEmpty, "", false},
		"no sequence":           {t.Context(), nil, seqFields, writeSeq, none, dataloader.ErrOption, "nil sequence", false},
		"no write":              {t.Context(), counting(0, 9), seqFields, nil, none, dataloader.ErrOption, "nil write", true},
		"no fields":             {t.Context(), counting(0, 9), nil, writeSeq, none, dataloader.ErrField, "no fields", true},
		"negative bytes":        {t.Context(), counting(0, 9), seqFields, writeSeq, dataloader.SequenceOptions{Bytes: -1}, dataloader.ErrOption, "bytes -1", true},
		"negative block":        {t.Context(), counting(0, 9), seqFields, writeSeq, dataloader.SequenceOptions{Block: -1}, dataloader.ErrOption, "block -1", true},
		"negative held":         {t.Context(), counting(0, 9), seqFields, writeSeq, dataloader.SequenceOptions{Held: -1}, dataloader.ErrOption, "held -1", true},
		"no room":               {t.Context(), counting(0, 9), seqFields, writeSeq, dataloader.SequenceOptions{Bytes: 16}, dataloader.ErrOption, "sample 0 of the sequence: more than 16 bytes", false},
	} {
		if name == "done context" {
			cancel()
		}
		ds, err := dataloader.FromSeq(c.ctx, c.seq, c.fields, c.write, c.opt)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) || ds != nil {
			t.Errorf("%s: got %v, %v", name, ds, err)
		}
		if !c.blocks {
			continue
		}
		ds, err = dataloader.FromSeqBlocks(9, func(int) iter.Seq2[int, error] { return c.seq }, c.fields, c.write, c.opt)
		if err == nil {
			err = ds.Fetch(t.Context(), dataloader.At{Index: 3}, [][]byte{make([]byte, 1), make([]byte, 16)})
		}
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("blocks, %s: got %v", name, err)
		}
	}
	ds, err := dataloader.FromSeqBlocks(20, func(i int) iter.Seq2[int, error] { return counting(i, 15) }, seqFields, writeSeq, dataloader.SequenceOptions{Block: 10})
	if err == nil {
		err = ds.Fetch(t.Context(), dataloader.At{Index: 12}, [][]byte{make([]byte, 1), make([]byte, 16)})
	}
	if !errors.Is(err, dataloader.ErrChanged) || !strings.Contains(err.Error(), "sample 15 of the sequence: it ends there, and should have 20") {
		t.Errorf("a sequence that ends early: %v", err)
	}
	for _, n := range []int{-1, 0} {
		if _, err := dataloader.FromSeqBlocks(n, func(i int) iter.Seq2[int, error] { return counting(i, 15) }, seqFields, writeSeq, none); !errors.Is(err, dataloader.ErrOption) && !errors.Is(err, dataloader.ErrEmpty) {
			t.Errorf("%d samples: %v", n, err)
		}
	}
}

func ExampleFromSeq() {
	type reading struct{ x, y float32 }
	sensor := func(yield func(reading, error) bool) { // any source of the caller's, such as rows of a query
		for i := range 3 {
			if !yield(reading{float32(i), float32(i * i)}, nil) {
				return
			}
		}
	}
	fields := []dataloader.Field{{Name: "x", Type: arena.Float32}, {Name: "y", Type: arena.Float32}}
	ds, err := dataloader.FromSeq(context.Background(), sensor, fields, func(r reading, dst [][]byte) error {
		dataloader.View[float32](dst[0])[0] = r.x
		dataloader.View[float32](dst[1])[0] = r.y
		return nil
	}, dataloader.SequenceOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Println(ds.Len(), "samples of", dataloader.SampleBytes(ds), "bytes")
	// Output: 3 samples of 8 bytes
}
