// Package parallel reads the pieces of files by several goroutines.
package parallel

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// Each calls f for the pieces 0 to n-1, by several goroutines (0: GOMAXPROCS), and returns the error
// of the first piece that failed: always the same one, since pieces before it are read. Pieces after
// it may be left out.
func Each(ctx context.Context, n, workers int, f func(ctx context.Context, i int) error) error {
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var next, failed atomic.Int64
	failed.Store(int64(n))
	errs := make([]error, n)
	var all sync.WaitGroup
	for range min(workers, n) {
		all.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= failed.Load() {
					return
				}
				if errs[i] = f(ctx, int(i)); errs[i] == nil {
					continue
				}
				for was := failed.Load(); i < was && !failed.CompareAndSwap(was, i); was = failed.Load() {
				}
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
