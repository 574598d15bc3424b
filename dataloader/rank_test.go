package dataloader_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
)

// The parts of all ranks are, step by step and in the order of ranks, the batches of one loader with all rows.
func TestRanksShareEachGlobalBatchEvenly(t *testing.T) {
	rng := random(t)
	for range 60 {
		ranks, batch, n := 1+rng.IntN(5), 1+rng.IntN(6), 1+rng.IntN(80)
		opt := dataloader.Options{Batch: batch * ranks, Shuffle: rng.IntN(3) > 0, Seed: rng.Uint64(), Workers: 2}
		if opt.Tail = dataloader.Tail(rng.IntN(2)); n < batch*ranks {
			opt.Tail = dataloader.KeepTail
		}
		var ds dataloader.Dataset = &fake{n: n}
		if rng.IntN(2) == 0 {
			ds = fromBlocks(t, newDecoded(randomSizes(rng, 9, 9)...), 1+rng.IntN(6))
			if ds.Len() < batch*ranks {
				opt.Tail = dataloader.KeepTail
			}
		}
		all := open(t, ds, opt)
		whole := rest(t, all, ds, 1, 0, 2, opt.Batch)
		opt.Batch, opt.Ranks = batch, ranks
		var parts []*seen
		for opt.Rank = range ranks {
			l := open(t, ds, opt)
			if l.Steps() != all.Steps() || l.Dropped() != all.Dropped() || l.Samples() != all.Samples() {
				t.Fatalf("rank %d: %d steps, %d dropped; want %d, %d", opt.Rank, l.Steps(), l.Dropped(), all.Steps(), all.Dropped())
			}
			step := rng.IntN(l.Steps() + 1)
			part := rest(t, l, ds, 1, 0, 1+rng.IntN(3), batch)
			if got := rest(t, l, ds, 1, step, 2, batch); !slices.Equal(got.Rows, part.Rows[step:]) || !slices.Equal(got.Draws, part.Draws[len(part.Draws)-len(got.Draws):]) {
				t.Fatalf("rank %d from step %d: got %v, want the end of %v", opt.Rank, step, got, part)
			}
			parts = append(parts, part)
		}
		var ids []int
		var draws []uint64
		at := make([]int, ranks)
		for step, rows := range whole.Rows {
			for rank, p := range parts {
				k := p.Rows[step]
				if low := rows / ranks; k != low && k != low+1 || rank > 0 && k > parts[rank-1].Rows[step] {
					t.Fatalf("%d rows for %d ranks: rank %d has %d", rows, ranks, rank, k)
				}
				ids, draws = append(ids, p.IDs[at[rank]:at[rank]+k]...), append(draws, p.Draws[at[rank]:at[rank]+k]...)
				at[rank] += k
			}
		}
		if !slices.Equal(ids, whole.IDs) || !slices.Equal(draws, whole.Draws) {
			t.Fatalf("%+v: the ranks together got %v, want %v", opt, ids, whole.IDs)
		}
	}
}

// At the end of an epoch a rank may have no samples. Its batch has 0 rows, so that all ranks have as many steps.
func TestARankMayHaveABatchWithoutRows(t *testing.T) {
	for _, ds := range []dataloader.Dataset{dataloader.Indices(9), plain{dataloader.Indices(9)}} {
		for rank, want := range [][]int{{2, 1}, {2, 0}, {2, 0}, {2, 0}} {
			l := open(t, ds, dataloader.Options{Batch: 2, Rank: rank, Ranks: 4})
			synced := 0
			var rows []int
			err := consume(t, l, 0, slots(ds, 1, 2), func(r *dataloader.Run, b dataloader.Batch) error {
				rows = append(rows, b.Rows)
				return r.Release(b.Slot, waiter(func() error { synced++; return nil }))
			})
			if err != nil || !slices.Equal(rows, want) || synced != 1 {
				t.Errorf("rank %d: got rows %v, %d syncs, %v; want %v", rank, rows, synced, err, want)
			}
		}
	}
}

func TestBadRanksAreRefused(t *testing.T) {
	for _, opt := range []dataloader.Options{
		{Rank: 1}, {Rank: -1}, {Ranks: -1}, {Rank: 2, Ranks: 2}, {Ranks: dataloader.MaxRanks + 1},
	} {
		opt.Batch = 1
		if l, err := dataloader.New(&fake{n: 9}, opt); !errors.Is(err, dataloader.ErrOption) {
			l.Close()
			t.Errorf("%+v: got %v", opt, err)
		}
	}
	if l, err := dataloader.New(&fake{n: 9}, dataloader.Options{Batch: 3, Ranks: 4, Tail: dataloader.DropTail}); !errors.Is(err, dataloader.ErrShort) {
		l.Close()
		t.Errorf("9 samples for batches of 12: got %v", err)
	}
	if l, err := dataloader.New(&fake{n: 9}, dataloader.Options{Batch: math.MaxInt32, Ranks: dataloader.MaxRanks}); err == nil {
		l.Close() // a batch of 2^51 rows is no mistake by itself: the slots say so
	}
}
