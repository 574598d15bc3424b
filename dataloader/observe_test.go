package dataloader_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
)

// timely is a dataset of n samples that take some time to fetch.
type timely struct {
	dataloader.Dataset
	takes time.Duration
}

func (f timely) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	time.Sleep(f.takes)
	return f.Dataset.Fetch(ctx, at, dst)
}

// An observer hears of each row once, and when it was timely; and of nothing after it has gone.
func TestAnObserverSeesEachRowOnce(t *testing.T) {
	const rows, batch = 43, 8
	column, err := dataloader.FromSlices(rows, dataloader.Column("x", make([]float32, rows)))
	if err != nil {
		t.Fatal(err)
	}
	for name, ds := range map[string]dataloader.Dataset{"in memory": column, "fetched": timely{column, 100 * time.Microsecond}} {
		t.Run(name, func(t *testing.T) {
			l := open(t, ds, dataloader.Options{Batch: batch, Workers: 3})
			s := slots(ds, 2, batch)
			var mu sync.Mutex
			var seen []dataloader.Filling
			begin := time.Now()
			l.Observe(func(f dataloader.Filling) {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, f)
			})
			pass(t, l, 0, s)
			l.Observe(nil)
			mu.Lock()
			all := seen
			seen = nil
			mu.Unlock()
			count := make([]int, rows)
			for _, f := range all {
				for row := f.From; row < f.To; row++ {
					count[f.Step*batch+row]++
				}
				slept := time.Duration(f.To-f.From) * 100 * time.Microsecond
				if f.Begin.Before(begin) || f.End.Before(f.Begin) || f.Slot != f.Step%2 || f.Worker < -1 || f.Worker > 2 ||
					name == "fetched" && (f.Worker < 0 || f.End.Sub(f.Begin) < slept) {
					t.Errorf("filling %+v", f)
				}
			}
			for row, n := range count {
				if n != 1 {
					t.Errorf("row %d was filled %d times", row, n)
				}
			}
			if pass(t, l, 1, s); len(seen) != 0 {
				t.Errorf("%d fillings after the observer has gone", len(seen))
			}
		})
	}
	(*dataloader.Loader)(nil).Observe(nil)
}
