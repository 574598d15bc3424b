package trainer_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// ranks calls f for each rank of a new group, at once, and returns when all have returned.
func ranks(t *testing.T, n int, f func(g group.Group)) {
	t.Helper()
	all, err := group.Local(n, group.Options{Limit: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, g := range all {
		wg.Go(func() { f(g) })
	}
	wg.Wait()
	for _, g := range all {
		_ = g.Close()
	}
}

// trainedTogether returns what a rank of n has learned after two epochs, and the results; all ranks must have the same.
func trainedTogether(t *testing.T, n int, model trainer.ModelFunc, opt trainer.Options, ds dataloader.Dataset) (want map[string]string, results []trainer.Result) {
	t.Helper()
	learnedBy, resultsOf := make([]map[string]string, n), make([][]trainer.Result, n)
	ranks(t, n, func(g group.Group) {
		own := opt
		if n > 1 {
			own.Group = g
		}
		tr, err := trainer.New(t.Context(), model, own)
		if err != nil {
			t.Errorf("rank %d: %v", g.Rank(), err)
			return
		}
		defer tr.Close()
		for range 2 {
			r, err := tr.Fit(t.Context(), ds)
			if err != nil {
				t.Errorf("rank %d: %v", g.Rank(), err)
				return
			}
			resultsOf[g.Rank()] = append(resultsOf[g.Rank()], r)
		}
		r, err := tr.Evaluate(t.Context(), ds)
		if err != nil {
			t.Errorf("rank %d: %v", g.Rank(), err)
			return
		}
		resultsOf[g.Rank()] = append(resultsOf[g.Rank()], r)
		learnedBy[g.Rank()] = learned(t, tr)
	})
	if t.Failed() {
		t.FailNow()
	}
	for rank := range n {
		if !maps.Equal(learnedBy[rank], learnedBy[0]) {
			t.Fatalf("%d ranks: rank %d has learned other bits than rank 0", n, rank)
		}
		for i, r := range resultsOf[rank] {
			if a := resultsOf[0][i]; r.Loss != a.Loss || r.Samples != a.Samples || r.Accuracy != a.Accuracy {
				t.Fatalf("%d ranks: result %d of rank %d is %v, that of rank 0 %v", n, i, rank, r, a)
			}
		}
	}
	return learnedBy[0], resultsOf[0]
}

// P ranks learn what one rank learns that adds up the gradients of P steps for each update, whatever the last batch of an epoch leaves for a rank.
func TestRanksLearnLikeOneThatAccumulates(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, n := range []int{16, 18, 19, 21} {
			ds := samples(t, n, 4, 3)
			for _, clip := range []optim.Clip{{}, {Norm: 0.01}} {
				for _, size := range []int{2, 3, 4} {
					opt := trainer.Options{Device: dev, Batch: 2, EvalBatch: 4, Accumulate: size, Fields: ds.Fields(), Clip: clip,
						Optimizer: optim.SGD{Rate: 0.1, Momentum: 0.9}, Seed: 3}
					want, wantResults := trainedTogether(t, 1, small, opt, ds)
					opt.Accumulate = 1
					got, results := trainedTogether(t, size, small, opt, ds)
					sameNumbers(t, fmt.Sprintf("%d samples, %d ranks, clip %v", n, size, clip), got, want, 1e-6)
					for i, r := range results {
						if w := wantResults[i]; r.Samples != w.Samples || !about(r.Loss, w.Loss, 1e-6) || !about(r.Accuracy, w.Accuracy, 1e-12) {
							t.Errorf("%d samples, %d ranks: result %d: %d samples, loss %v, accuracy %v; want %d, %v, %v",
								n, size, i, r.Samples, r.Loss, r.Accuracy, w.Samples, w.Loss, w.Accuracy)
						}
					}
				}
			}
		}
	})
}

// sameNumbers compares what two trainers have learned.
func sameNumbers(t *testing.T, what string, got, want map[string]string, tol float64) {
	t.Helper()
	for name, b := range want {
		a, b := decoded([]byte(got[name])), decoded([]byte(b))
		for i := range b {
			if !about(a[i], b[i], tol) {
				t.Fatalf("%s: %s[%d] is %v, want %v", what, name, i, a[i], b[i])
			}
		}
	}
}
var _ = slices.Equal[[]int]
var _ = errors.Is
var _ = strings.Contains
