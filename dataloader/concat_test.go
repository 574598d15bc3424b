package dataloader_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

// must returns a dataset that has no error.
func must[T any](t *testing.T) func(ds T, err error) T {
	return func(ds T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return ds
	}
}

// draws returns the random draws of all samples of a dataset made of a fake one.
func draws(t *testing.T, ds dataloader.Dataset) (all []string) {
	t.Helper()
	for i := range ds.Len() {
		all = append(all, string(fetched(t, ds, i)["draw"]))
	}
	return all
}

// different fails if two texts are equal.
func different(t *testing.T, all []string) {
	t.Helper()
	seen := map[string]int{}
	for i, s := range all {
		if j, ok := seen[s]; ok {
			t.Fatalf("samples %d and %d have the same random draws", i, j)
		}
		seen[s] = i
	}
}

func TestConcatRepeatAndInterleaveHaveTheSamplesInOrder(t *testing.T) {
	a, b := &fake{n: 7}, &fake{n: 3}
	type ds = dataloader.Dataset
	mix := func(end dataloader.Ending, ra, rb int) ds {
		return must[ds](t)(dataloader.Interleave(end, dataloader.Source{Dataset: a, Rate: ra}, dataloader.Source{Dataset: b, Rate: rb}))
	}
	for name, c := range map[string]struct {
		ds   ds
		want []int
	}{
		"concat":                {must[ds](t)(dataloader.Concat(a, b, a)), []int{0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 0, 1, 2, 3, 4, 5, 6}},
		"repeat":                {must[ds](t)(dataloader.Repeat(b, 3)), []int{0, 1, 2, 0, 1, 2, 0, 1, 2}},
		"first 3:1 ends with a": {mix(dataloader.AtFirst, 3, 1), []int{0, 1, 0, 2, 3, 4, 1, 5, 6}},
		"first 1:1 ends with b": {mix(dataloader.AtFirst, 1, 1), []int{0, 0, 1, 1, 2, 2, 3}},
		"last 3:1":              {mix(dataloader.AtLast, 3, 1), []int{0, 1, 0, 2, 3, 4, 1, 5, 6, 0, 2}},
		"last 1:1":              {mix(dataloader.AtLast, 1, 1), []int{0, 0, 1, 1, 2, 2, 3, 0, 4, 1, 5, 2, 6}},
	} {
		if got := ids(t, c.ds); !slices.Equal(got, c.want) {
			t.Errorf("%s: samples %v, want %v", name, got, c.want)
		}
		different(t, draws(t, c.ds))
		dst := [][]byte{make([]byte, 4), make([]byte, 8)}
		if n := testing.AllocsPerRun(20, func() { _ = c.ds.Fetch(t.Context(), dataloader.At{Index: 5}, dst) }); n != 0 {
			t.Errorf("%s: Fetch allocates %v times", name, n)
		}
	}
	if one := must[ds](t)(dataloader.Repeat(b, 1)); !slices.Equal(draws(t, one), draws(t, b)) {
		t.Error("one pass has other draws than the dataset")
	}
	seen := map[uint64]string{}
	for name, x := range map[string]ds{
		"a": a, "b": b, "ab": must[ds](t)(dataloader.Concat(a, b)), "ba": must[ds](t)(dataloader.Concat(b, a)),
		"first": mix(dataloader.AtFirst, 1, 1), "last": mix(dataloader.AtLast, 1, 1), "2:1": mix(dataloader.AtLast, 2, 1), "2:2": mix(dataloader.AtLast, 2, 2),
		"repeat": must[ds](t)(dataloader.Repeat(b, 2)), "bb": must[ds](t)(dataloader.Concat(b, b)),
	} {
		f := dataloader.Fingerprint(x)
		if other, ok := seen[f]; ok {
			t.Errorf("%s and %s have one fingerprint", name, other)
		}
		seen[f] = name
	}
}

func TestInterleaveKeepsItsRatesInEveryPrefix(t *testing.T) {
	rng := random(t)
	for range 50 {
		var sources []dataloader.Source
		sum := 0
		for range 1 + rng.IntN(5) {
			s := dataloader.Source{Dataset: &fake{n: 50 + rng.IntN(50)}, Rate: 1 + rng.IntN(7)}
			sources, sum = append(sources, s), sum+s.Rate
		}
		reads := func(k int) int { return int(sources[k].Dataset.(*fake).reads.Load()) }
		ds := must[dataloader.Dataset](t)(dataloader.Interleave(dataloader.AtLast, sources...))
		whole := 0
		for i := range ds.Len() {
			fetched(t, ds, i)
			for k, s := range sources {
				if exact := float64(i+1) * float64(s.Rate) / float64(sum); float64(reads(k)) < exact-float64(len(sources)) || float64(reads(k)) > exact+float64(len(sources)) {
					t.Fatalf("after %d samples, %d are of source %d with rate %d of %d", i+1, reads(k), k, s.Rate, sum)
				}
			}
		}
		for k, s := range sources {
			if reads(k) >= s.Dataset.Len() {
				whole++
			}
		}
		if whole != len(sources) {
			t.Errorf("%d of %d sources were read to their ends", whole, len(sources))
		}
	}
}

func TestZipHasTheFieldsSideBySide(t *testing.T) {
	a, extra := three(t), must[*dataloader.Slices](t)(dataloader.FromSlices(3, dataloader.Column("d", []uint8{9, 8, 7})))
	ds := must[dataloader.Dataset](t)(dataloader.Zip(a, extra))
	for i := range 3 {
		got, want := fetched(t, ds, i), fetched(t, a, i)
		want["d"] = []byte{byte(9 - i)}
		for name, v := range want {
			if !bytes.Equal(got[name], v) || len(got) != 4 {
				t.Errorf("sample %d: got %v, want %v", i, got, want)
			}
		}
	}
}

func TestDatasetsThatDoNotGoTogetherAreErrors(t *testing.T) {
	a, b := &fake{n: 7}, three(t)
	first := func(_ any, err error) error { return err }
	src := func(ds dataloader.Dataset, rate int) dataloader.Source {
		return dataloader.Source{Dataset: ds, Rate: rate}
	}
	scaled := must[*dataloader.Slices](t)(dataloader.FromSlices(3, dataloader.Column("a", []int32{1, 2, 3}),
		dataloader.Column("b", []uint8{1, 2, 3, 4, 5, 6}, 2), dataloader.Column("c", []float32{7, 8, 9})))
	for want, c := range map[string]struct{ got, is error }{
		"concat: dataset 1 has 3 fields":      {first(dataloader.Concat(a, b)), dataloader.ErrField},
		"dataset 1: field 2 \"c\"":            {first(dataloader.Concat(b, scaled)), dataloader.ErrField},
		"concat: no datasets":                 {first(dataloader.Concat()), dataloader.ErrOption},
		"concat: dataset 1: nil dataset":      {first(dataloader.Concat(a, nil)), dataloader.ErrOption},
		"repeat 0 times":                      {first(dataloader.Repeat(a, 0)), dataloader.ErrOption},
		"repeat 72057594037927936 times":      {first(dataloader.Repeat(a, 1<<56)), dataloader.ErrOption},
		"zip: dataset 1 has 3 samples":        {first(dataloader.Zip(a, b)), dataloader.ErrOption},
		"field 3 \"a\": has the same name":    {first(dataloader.Zip(b, b)), dataloader.ErrField},
		"source 1 has rate 0":                 {first(dataloader.Interleave(0, src(a, 1), src(a, 0))), dataloader.ErrOption},
		"source 1 has rate 65536":             {first(dataloader.Interleave(0, src(a, 1), src(a, 65536))), dataloader.ErrOption},
		"end 2":                               {first(dataloader.Interleave(2, src(a, 1))), dataloader.ErrOption},
		"interleave: dataset 1 has 3 fields":  {first(dataloader.Interleave(0, src(a, 1), src(b, 1))), dataloader.ErrField},
		"need 40 to keep one, 112 to keep al": {first(dataloader.Cache(a, dataloader.CacheOptions{Bytes: 39})), dataloader.ErrOption},
	} {
		if c.got == nil || !errors.Is(c.got, c.is) || !strings.Contains(c.got.Error(), want) {
			t.Errorf("%q: got %v", want, c.got)
		}
	}
}

// Each dataset of datasets that keeps blocks together gives the samples of the unblocked order, and a
// shuffled loader decodes each block once.
func TestDatasetsOfDatasetsForwardBlocks(t *testing.T) {
	type ds = dataloader.Dataset
	sizes := []int{5, 3, 0, 8, 1, 7, 6, 2}
	for name, c := range map[string]struct {
		build func(a, b ds) ds
		n     int // samples
		loads int // of a block, at most
	}{
		"subset of": {func(a, _ ds) ds { return must[ds](t)(dataloader.SubsetOf(a, []int{1, 4, 2, 5, 9, 11, 10, 17, 31})) }, 9, 1},
		"concat":    {func(a, b ds) ds { return must[ds](t)(dataloader.Concat(a, b, a)) }, 74, 2},
		"repeat":    {func(a, _ ds) ds { return must[ds](t)(dataloader.Repeat(a, 2)) }, 64, 2},
		"zip": {func(a, _ ds) ds {
			return must[ds](t)(dataloader.Zip(a, must[*dataloader.Slices](t)(dataloader.FromSlices(32, dataloader.Column("extra", make([]uint8, 32))))))
		}, 32, 1},
		"cache": {func(a, _ ds) ds {
			return must[*dataloader.Cached](t)(dataloader.Cache(a, dataloader.CacheOptions{Bytes: 300}))
		}, 32, 1},
		"skip": {func(a, _ ds) ds {
			return must[*dataloader.Skipping](t)(dataloader.SkipBad(a, dataloader.SkipOptions{}))
		}, 32, 1},
		"pairs": {func(a, _ ds) ds { return must[ds](t)(dataloader.Pairs(a, dataloader.PairOptions{})) }, 32, 1},
	} {
		src := newDecoded(sizes...)
		blocked := c.build(fromBlocks(t, src, 4), &fake{n: 10})
		plain := c.build(&fake{n: 32}, &fake{n: 10})
		if _, ok := blocked.(dataloader.Blocked); !ok || len(blocked.(dataloader.Blocked).Blocks().Starts) < 3 {
			t.Errorf("%s: has no blocks", name)
			continue
		}
		if !slices.Equal(ids(t, blocked), ids(t, plain)) || len(ids(t, plain)) != c.n {
			t.Errorf("%s: the samples %v, want %v", name, ids(t, blocked), ids(t, plain))
		}
		src = newDecoded(sizes...)
		blocked = c.build(fromBlocks(t, src, 4), &fake{n: 10})
		l := open(t, blocked, dataloader.Options{Batch: 4, Shuffle: true, Workers: 3})
		got, err := drain(t, l, 0, slots(blocked, 3, 4))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		slices.Sort(got.Indices)
		for i, x := range got.Indices {
			if x != i || len(got.Indices) != c.n {
				t.Fatalf("%s: the epoch has the samples %v", name, got.Indices)
			}
		}
		for b, n := range src.loads {
			if n > c.loads {
				t.Errorf("%s: block %d was decoded %d times, want at most %d", name, b, n, c.loads)
			}
		}
	}
	back := must[ds](t)(dataloader.SubsetOf(fromBlocks(t, newDecoded(5, 5), 2), []int{1, 6, 2}))
	if b := back.(dataloader.Blocked).Blocks(); len(b.Starts) != 0 {
		t.Errorf("a list that goes back to a block has the blocks %v", b.Starts)
	}
}

func TestCacheKeepsWhatFitsAndIsTheSameInAnyOrder(t *testing.T) {
	const n, room = 500, 123
	type seen [n]string
	run := func(workers int) (all seen, src *fake, c *dataloader.Cached) {
		src = &fake{n: n}
		c = must[*dataloader.Cached](t)(dataloader.Cache(src, dataloader.CacheOptions{Bytes: 4*n + room*12 + 11}))
		var group sync.WaitGroup
		for w := range workers {
			group.Add(1)
			go func() {
				defer group.Done()
				dst := [][]byte{make([]byte, 4), make([]byte, 8)}
				for i := range n {
					x := (i*7 + w*100) % n
					if err := c.Fetch(context.Background(), dataloader.At{Index: x, Epoch: w, Seed: uint64(w)}, dst); err != nil {
						t.Error(err)
					}
					if w == 0 {
						all[x] = string(dst[0]) + string(dst[1])
					}
				}
			}()
		}
		group.Wait()
		return all, src, c
	}
	one, src, c := run(1)
	if c.Kept() != room || src.reads.Load() != n {
		t.Errorf("kept %d samples of room for %d, after %d reads", c.Kept(), room, src.reads.Load())
	}
	four, _, c4 := run(4)
	if one != four || c4.Kept() != room {
		t.Errorf("four workers give other samples, or keep %d", c4.Kept())
	}
	dst := [][]byte{make([]byte, 4), make([]byte, 8)}
	for i := range n {
		if err := c.Fetch(t.Context(), dataloader.At{Index: i, Epoch: 9, Seed: 9}, dst); err != nil || string(dst[0])+string(dst[1]) != one[i] {
			t.Fatalf("sample %d of another epoch differs, %v", i, err)
		}
	}
	if again := src.reads.Load() - n; again != n-room {
		t.Errorf("the second pass fetched %d samples, want %d", again, n-room)
	}
	if a := testing.AllocsPerRun(100, func() { _ = c.Fetch(t.Context(), dataloader.At{}, dst) }); a != 0 {
		t.Errorf("Fetch allocates %v times", a)
	}
	src.fetch = func(context.Context, dataloader.At, [][]byte) error { return errors.New("broken") }
	empty := must[*dataloader.Cached](t)(dataloader.Cache(src, dataloader.CacheOptions{Bytes: 1 << 20}))
	if err := empty.Fetch(t.Context(), dataloader.At{}, dst); err == nil || empty.Kept() != 0 {
		t.Errorf("a failed fetch: %v, kept %d", err, empty.Kept())
	}
	if f := c.Fields(); len(f) != 2 || f[1].Type != arena.Uint8 {
		t.Errorf("fields %v", f)
	}
}
