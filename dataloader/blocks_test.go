package dataloader_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
)

// decoded is a source of blocks of fake samples, which counts what is decoded.
type decoded struct {
	fake
	sizes []int
	load  func(ctx context.Context, i int) error // before a block is decoded; may be nil

	mu    sync.Mutex
	loads map[int]int // by block
	live  atomic.Int64
	most  atomic.Int64 // decoded blocks at one time, reused ones not counted twice
}

// block is a decoded block.
type block struct {
	src   *decoded
	index int
}

func newDecoded(sizes ...int) *decoded {
	d := &decoded{sizes: sizes, loads: map[int]int{}}
	for _, n := range sizes {
		d.n += n
	}
	return d
}

// fromBlocks returns the dataset of d.
func fromBlocks(t testing.TB, d *decoded, held int) dataloader.Dataset {
	t.Helper()
	ds, err := dataloader.FromBlocks(d, dataloader.BlockOptions{Held: held})
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

func (d *decoded) Sizes() []int { return d.sizes }

func (d *decoded) Load(ctx context.Context, i int, old dataloader.Block) (dataloader.Block, error) {
	d.mu.Lock()
	d.loads[i]++
	d.mu.Unlock()
	if d.load != nil {
		if err := d.load(ctx, i); err != nil {
			return nil, err
		}
	}
	if b, ok := old.(*block); ok {
		b.index = i
		return b, nil
	}
	if n := d.live.Add(1); n > d.most.Load() {
		d.most.Store(n)
	}
	return &block{d, i}, nil
}

func (b *block) Fetch(ctx context.Context, row int, at dataloader.At, dst [][]byte) error {
	first := 0
	for _, n := range b.src.sizes[:b.index] {
		first += n
	}
	if at.Index != first+row || row < 0 || row >= b.src.sizes[b.index] {
		return fmt.Errorf("block %d from sample %d: got sample %d, row %d", b.index, first, at.Index, row)
	}
	return b.src.Fetch(ctx, at, dst)
}

// taken returns how often each block was decoded since the last call.
func (d *decoded) taken() map[int]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.loads
	d.loads = map[int]int{}
	return m
}

// randomSizes returns sizes of blocks, some of them empty, one sample or more in all.
func randomSizes(rng *rand.Rand, count, size int) []int {
	sizes := make([]int, 1+rng.IntN(count))
	for i := range sizes {
		sizes[i] = rng.IntN(size + 1)
	}
	sizes[rng.IntN(len(sizes))]++
	return sizes
}

func TestEachBlockIsDecodedOnceAnEpochAndMemoryIsBounded(t *testing.T) {
	rng := random(t)
	for range 60 {
		held := 1 + rng.IntN(7)
		d := newDecoded(randomSizes(rng, 20, 12)...)
		ds := fromBlocks(t, d, held)
		opt := dataloader.Options{Batch: 1 + rng.IntN(30), Shuffle: rng.IntN(3) > 0, Seed: rng.Uint64(), Workers: 1 + rng.IntN(8)}
		l := open(t, ds, opt)
		for epoch := range 3 {
			got, err := drain(t, l, epoch, slots(ds, 1+rng.IntN(3), opt.Batch))
			if err != nil {
				t.Fatal(err)
			}
			for b, n := range d.taken() {
				if n != 1 {
					t.Fatalf("sizes %v, held %d, %+v: epoch %d: block %d was decoded %d times", d.sizes, held, opt, epoch, b, n)
				}
			}
			sorted := slices.Sorted(slices.Values(got.IDs))
			if len(sorted) != d.n || len(slices.Compact(sorted)) != d.n || !slices.Equal(got.IDs, got.Indices) {
				t.Fatalf("sizes %v, held %d, %+v: got samples %v", d.sizes, held, opt, got.IDs)
			}
		}
		if got := d.most.Load(); got > int64(held) {
			t.Errorf("%d blocks in memory, want at most %d", got, held)
		}
	}
}

func TestABlockThatFailsNamesItselfAndItsSample(t *testing.T) {
	boom := errors.New("broken frame")
	d := newDecoded(4, 4, 4, 4)
	fails := atomic.Bool{}
	fails.Store(true)
	d.load = func(_ context.Context, i int) error {
		if i == 2 && fails.Load() {
			return boom
		}
		return nil
	}
	ds := fromBlocks(t, d, 2)
	l := open(t, ds, dataloader.Options{Batch: 3, Workers: 3})
	got, err := drain(t, l, 0, slots(ds, 2, 3))
	var e *dataloader.BlockError
	var s *dataloader.SampleError
	if !errors.As(err, &e) || !errors.As(err, &s) || !errors.Is(err, boom) || e.Block != 2 || s.Index != 8 || len(got.IDs) != 6 {
		t.Errorf("got samples %v, then %v", got.IDs, err)
	}
	if n := d.taken()[2]; n != 2 { // ahead, and by the sample
		t.Errorf("the broken block was decoded %d times, want 2", n)
	}
	fails.Store(false)
	if got, err := drain(t, l, 1, slots(ds, 2, 3)); err != nil || len(got.IDs) != 16 {
		t.Errorf("the next epoch: got %v, %v", got.IDs, err)
	}
}

// An epoch that goes on at a step decodes only the blocks of its batches; so does one whose tail is dropped.
func TestOnlyTheBlocksOfTheBatchesAreDecoded(t *testing.T) {
	rng := random(t)
	for range 60 {
		d := newDecoded(randomSizes(rng, 15, 9)...)
		opt := dataloader.Options{Batch: 1 + rng.IntN(9), Shuffle: rng.IntN(3) > 0, Seed: rng.Uint64(), Workers: 1 + rng.IntN(4)}
		if opt.Tail = dataloader.Tail(rng.IntN(2)); d.n < opt.Batch {
			opt.Tail = dataloader.KeepTail
		}
		ds := fromBlocks(t, d, 1+rng.IntN(6))
		l := open(t, ds, opt)
		step := rng.IntN(l.Steps() + 1)
		got := rest(t, l, ds, 0, step, 2, opt.Batch)
		want := map[int]int{}
		for _, id := range got.IDs {
			at := 0
			for b, n := range d.sizes {
				if at += n; id < at {
					want[b] = 1
					break
				}
			}
		}
		if loads := d.taken(); fmt.Sprint(loads) != fmt.Sprint(want) {
			t.Fatalf("sizes %v, %+v from step %d: decoded %v, want %v", d.sizes, opt, step, loads, want)
		}
	}
}

// Workers decode the blocks of the next group while the caller holds batches of this one.
func TestBlocksAreDecodedAhead(t *testing.T) {
	d := newDecoded(4, 4, 4, 4, 4, 4, 4, 4)
	ahead := make(chan int, 8)
	d.load = func(_ context.Context, i int) error { ahead <- i; return nil }
	ds := fromBlocks(t, d, 4)
	r := start(t, open(t, ds, dataloader.Options{Batch: 2, Workers: 1, Shuffle: true}), 0, slots(ds, 2, 2))
	if _, err := r.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 4 { // two groups of two blocks, though only three batches of the first one have a slot
		<-ahead
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if len(ahead) != 0 {
		t.Errorf("%d blocks more than the memory holds were decoded", len(ahead))
	}
}

// A Load that does not return hangs nothing: Close names the block, and the loader goes on when it has returned.
func TestALoadThatDoesNotReturnHangsNobody(t *testing.T) {
	d := newDecoded(4, 4, 4, 4)
	blocked, back := make(chan bool, 9), make(chan bool)
	d.load = func(_ context.Context, i int) error {
		if i == 1 {
			blocked <- true
			<-back
		}
		return nil
	}
	ds := fromBlocks(t, d, 2)
	l := open(t, ds, dataloader.Options{Batch: 4, Workers: 2, Grace: 20 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r, err := l.Epoch(ctx, 0, slots(ds, 2, 4))
	if err != nil {
		t.Fatal(err)
	}
	within(t, "an epoch with a block that hangs", 5*time.Second, func() {
		if _, err := r.Next(t.Context()); err != nil {
			t.Errorf("the batch before: %v", err)
		}
		if _, err := r.Next(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of the context", err)
		}
		<-blocked
		var e *dataloader.StuckError
		if err := r.Close(); !errors.As(err, &e) || len(e.Blocked) != 1 || e.Blocked[0].Index != -1 || e.Blocked[0].Block != 1 || !strings.Contains(err.Error(), "Load of block 1") {
			t.Errorf("Close: got %v", err)
		}
		// Another user of the dataset waits for the block, but not after its context is done.
		late, end := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer end()
		dst := slots(ds, 1, 1)[0].Fields
		if err := ds.Fetch(late, dataloader.At{Index: 5}, dst); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Fetch: got %v", err)
		}
		if err := ds.Fetch(t.Context(), dataloader.At{Index: 9}, dst); err != nil {
			t.Errorf("a sample of another block: %v", err)
		}
	})
	close(back)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := drain(t, l, 1, slots(ds, 2, 4)); err != nil || len(got.IDs) != 16 {
		t.Errorf("the next epoch: got %v, %v", got.IDs, err)
	}
}

// A panic, a Goexit and a missing block are errors of the first sample that needs the block, and nothing stays locked.
func TestALoadThatEndsBadlyIsAnErrorOfItsSamples(t *testing.T) {
	for name, fail := range map[string]func(){"panic": func() { panic("bad frame") }, "goexit": runtime.Goexit} {
		d := newDecoded(3, 3, 3)
		var bad atomic.Bool
		bad.Store(true)
		d.load = func(_ context.Context, i int) error {
			if i == 1 && bad.Load() {
				fail()
			}
			return nil
		}
		ds := fromBlocks(t, d, 1)
		l := open(t, ds, dataloader.Options{Batch: 3, Workers: 2})
		got, err := drain(t, l, 0, slots(ds, 2, 3))
		var e *dataloader.SampleError
		if !errors.As(err, &e) || e.Index != 3 || len(got.IDs) != 3 || name == "panic" && !strings.Contains(err.Error(), "block 1: panic: bad frame") {
			t.Errorf("%s: got %v, then %v", name, got.IDs, err)
		}
		bad.Store(false)
		if got, err := drain(t, l, 1, slots(ds, 2, 3)); err != nil || len(got.IDs) != 9 {
			t.Errorf("%s: then %v, %v", name, got.IDs, err)
		}
	}
}

// nothing is a source whose Load returns no block.
type nothing struct{ *decoded }

func (nothing) Load(context.Context, int, dataloader.Block) (dataloader.Block, error) {
	return nil, nil
}

func TestBadSourcesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		src  dataloader.BlockSource
		held int
		err  error
	}{
		"nil":           {nil, 0, dataloader.ErrOption},
		"held":          {newDecoded(3), -1, dataloader.ErrOption},
		"no blocks":     {newDecoded(), 0, dataloader.ErrEmpty},
		"empty blocks":  {newDecoded(0, 0), 0, dataloader.ErrEmpty},
		"negative size": {newDecoded(3, -1), 0, dataloader.ErrOption},
		"overflow":      {newDecoded(math.MaxInt, 2), 0, dataloader.ErrOption},
		"too many":      {newDecoded(math.MaxInt), 0, dataloader.ErrOption},
		"panic":         {(*decoded)(nil), 0, dataloader.ErrPanic},
	} {
		if _, err := dataloader.FromBlocks(c.src, dataloader.BlockOptions{Held: c.held}); !errors.Is(err, c.err) {
			t.Errorf("%s: got %v, want %v", name, err, c.err)
		}
	}
	ds, err := dataloader.FromBlocks(nothing{newDecoded(3)}, dataloader.BlockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dst := slots(ds, 1, 1)[0].Fields
	if err := ds.Fetch(t.Context(), dataloader.At{}, dst); err == nil || !strings.Contains(err.Error(), "block 0: neither a block nor an error") {
		t.Errorf("no block: got %v", err)
	}
	for _, i := range []int{-1, 3} {
		if err := ds.Fetch(t.Context(), dataloader.At{Index: i}, dst); !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("sample %d: got %v", i, err)
		}
	}
}

// divided is a dataset that claims some blocks.
type divided struct {
	dataloader.Dataset
	blocks dataloader.Blocks
}

func (d *divided) Blocks() dataloader.Blocks { return d.blocks }

// Blocks of a user's dataset need neither Load nor Done; what cannot be is refused.
func TestBlocksOfAnotherDatasetAreUsedOrRefused(t *testing.T) {
	for _, c := range []struct {
		blocks dataloader.Blocks
		ok     bool
	}{
		{dataloader.Blocks{}, true},
		{dataloader.Blocks{Starts: []int{0, 4, 4, 9}, Group: 2}, true},
		{dataloader.Blocks{Starts: []int{0, 4, 8}, Group: 1, Held: 1, Load: func(context.Context, int) error { panic("ahead") }, Done: func(int) { panic("done") }}, true},
		{dataloader.Blocks{Starts: []int{0, 4}}, false},
		{dataloader.Blocks{Starts: []int{0, 4}, Group: 2, Held: 1}, false},
		{dataloader.Blocks{Starts: []int{1, 4}, Group: 1}, false},
		{dataloader.Blocks{Starts: []int{0, 4, 3}, Group: 1}, false},
		{dataloader.Blocks{Starts: []int{0, 14}, Group: 1}, false},
	} {
		ds := &divided{&fake{n: 12}, c.blocks}
		l, err := dataloader.New(ds, dataloader.Options{Batch: 5, Shuffle: true, Workers: 2})
		if (err == nil) != c.ok || err != nil && !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("%+v: got %v", c.blocks.Starts, err)
		}
		if err != nil {
			continue
		}
		got, err := drain(t, l, 0, slots(ds, 2, 5))
		if slices.Sort(got.IDs); err != nil || len(slices.Compact(got.IDs)) != 12 {
			t.Errorf("%+v: got %v, %v", c.blocks.Starts, got.IDs, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The blocks of a part are those of the whole in its range, and their numbers go to the source.
func TestWrappersForwardTheBlocks(t *testing.T) {
	d := newDecoded(4, 0, 5, 6, 7)
	ds := fromBlocks(t, d, 3)
	part, err := dataloader.Subset(dataloader.Map(ds, func(dataloader.At, [][]byte) error { return nil }), 6, 16)
	if err != nil {
		t.Fatal(err)
	}
	if part, err = dataloader.Select(part, "draw", "id"); err != nil {
		t.Fatal(err)
	}
	b := part.(dataloader.Blocked).Blocks()
	if !slices.Equal(b.Starts, []int{0, 3, 9}) || b.Group != 1 || b.Held != 3 {
		t.Errorf("got %+v", b)
	}
	if err := b.Load(t.Context(), 1); err != nil || d.taken()[3] != 1 {
		t.Errorf("Load of block 1 of the part: %v", err)
	}
	if part, err = dataloader.Subset(ds, 4, 15); err != nil || !slices.Equal(part.(dataloader.Blocked).Blocks().Starts, []int{0, 5}) {
		t.Errorf("a part that ends with a block: %+v, %v", part.(dataloader.Blocked).Blocks(), err)
	}
	if n := len(dataloader.Map(&fake{n: 3}, nil).(dataloader.Blocked).Blocks().Starts); n != 0 {
		t.Errorf("a dataset without blocks has %d", n)
	}
}

// A sample of a block that is decoded costs no allocation.
func TestABlocksSampleAllocatesNothing(t *testing.T) {
	d := newDecoded(8, 8)
	ds := fromBlocks(t, d, 2)
	dst, i := slots(ds, 1, 1)[0].Fields, 0
	if n := testing.AllocsPerRun(100, func() {
		if err := ds.Fetch(context.Background(), dataloader.At{Index: i % 16}, dst); err != nil {
			t.Error(err)
		}
		i++
	}); n != 0 {
		t.Errorf("%v allocations a sample, want 0", n)
	}
}
