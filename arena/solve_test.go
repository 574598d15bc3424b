package arena_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
)

// solved returns a plan that Check has passed, and its bytes by bytes live.
func solved(t testing.TB, p arena.Problem) (arena.Plan, float64) {
	t.Helper()
	plan, err := arena.Solve(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := arena.Check(p, plan); err != nil {
		t.Fatalf("%v\nproblem %+v\nplan %+v", err, p, plan)
	}
	live, at := arena.Bound(p)
	if plan.Live != live || plan.LiveAt != at {
		t.Fatalf("plan says %d live at %d, bound %d at %d", plan.Live, plan.LiveAt, live, at)
	}
	if live == 0 {
		return plan, 1
	}
	if plan.Bytes < live {
		t.Fatalf("plan of %d bytes is below the bound %d", plan.Bytes, live)
	}
	return plan, float64(plan.Bytes) / float64(live)
}

func TestTenThousandRandomSetsPassCheck(t *testing.T) {
	r := random(t)
	ratios := map[string][]float64{}
	optimal := map[string]int{}
	for i := range 10_000 {
		kind, p := "random lifetimes", arena.Problem{}
		if i%10 == 0 {
			kind, p = "training steps", trainingStep(r)
		} else {
			p = lifetimes(r, r.IntN(60))
		}
		p.Effort = 1_500_000
		plan, ratio := solved(t, p)
		ratios[kind] = append(ratios[kind], ratio)
		if plan.Optimal {
			optimal[kind]++
		}
	}
	for kind, x := range ratios {
		slices.Sort(x)
		q := func(p float64) float64 { return x[int(p*float64(len(x)-1))] }
		t.Logf("%d %s: bytes / bytes live: median %.3f, p99 %.3f, worst %.3f; %d proved optimal",
			len(x), kind, q(0.5), q(0.99), q(1), optimal[kind])
		if q(0.99) > 1.1 {
			t.Errorf("%s: p99 is %.3f, want at most 1.1", kind, q(0.99))
		}
	}
}

func TestTracesOfRealStepsAreWithinHalfAPercentOfTheBound(t *testing.T) {
	for _, path := range traces(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			start := time.Now()
			p := trace(t, path)
			plan, ratio := solved(t, p)
			t.Logf("%d buffers: %d bytes, ratio %.5f by %s, %v", len(p.Buffers), plan.Bytes, ratio, plan.Method, time.Since(start))
			if ratio > 1.005 {
				t.Errorf("ratio %.5f, want at most 1.005", ratio)
			}
		})
	}
}
