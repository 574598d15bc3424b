package arena_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/seed"
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

func TestRandomSetsPassCheck(t *testing.T) {
	t.Parallel()
	r := random(t)
	ratios := map[string][]float64{}
	optimal := map[string]int{}
	for i := range seed.Cases(2_000, 10_000) {
		kind, p := "random lifetimes", arena.Problem{}
		if i%10 == 0 {
			kind, p = "training steps", trainingStep(r)
		} else {
			p = lifetimes(r, r.IntN(60))
		}
		p.Effort = 600_000
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

// Seeds from 1 to 10 have between 97 % and 100 % of their steps at the bound.
func TestRandomTrainingStepsMeetTheBound(t *testing.T) {
	t.Parallel()
	const steps = 300
	r := random(t)
	var missed []float64
	for range steps {
		if _, ratio := solved(t, trainingStep(r)); ratio > 1 {
			missed = append(missed, ratio)
		}
	}
	slices.Sort(missed)
	t.Logf("%d of %d training steps at the bound; the others: %.4f of it", steps-len(missed), steps, missed)
	if len(missed) > steps/20 {
		t.Errorf("%d of %d training steps are above the bound, want at most 5 %%", len(missed), steps)
	}
}

// A step of ten thousand instructions is planned with work for less than two seconds, and hardly above the bound.
func TestTenThousandInstructionsArePlannedInBoundedWork(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("places ten thousand buffers twice: run without -short")
	}
	r := random(t)
	p := stepOf(r, 2500)
	plan, ratio := solved(t, p)
	work := arena.Work(p)
	t.Logf("%d buffers: ratio %.4f by %s, %.2f billion buffers looked at", len(p.Buffers), ratio, plan.Method, float64(work)/1e9)
	if ratio > 1.05 || work > 2_000_000_000 || len(p.Buffers) < 9000 {
		t.Errorf("%d buffers: ratio %.4f after %d buffers looked at, want at most 1.05 after 2 billion", len(p.Buffers), ratio, work)
	}
}

// The search ends with the first plan that is enough. It may not be the smallest, and the plan does
// not claim that it is.
func TestASearchEndsWithAPlanThatIsEnough(t *testing.T) {
	r := random(t)
	larger := 0
	for range 6 {
		p := stepOf(r, 60)
		best, err := arena.Solve(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		enough := p
		enough.Enough = best.Bytes + best.Bytes/4
		plan, err := arena.Solve(t.Context(), enough)
		if err != nil || arena.Check(enough, plan) != nil {
			t.Fatalf("%v, %v", err, arena.Check(enough, plan))
		}
		if plan.Bytes > enough.Enough || plan.Optimal && plan.Bytes > plan.Live {
			t.Fatalf("%d bytes, optimal %v: want at most %d, live are %d", plan.Bytes, plan.Optimal, enough.Enough, plan.Live)
		}
		if plan.Bytes > best.Bytes {
			larger++
		}
	}
	if larger == 0 {
		t.Error("every plan is the best: no search ended with one that is enough")
	}
}

func TestTracesOfRealStepsMeetTheBound(t *testing.T) {
	for _, path := range traces(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			start := time.Now()
			p := trace(t, path)
			plan, ratio := solved(t, p)
			t.Logf("%d buffers: %d bytes, ratio %.5f by %s, %v", len(p.Buffers), plan.Bytes, ratio, plan.Method, time.Since(start))
			if ratio > 1 {
				t.Errorf("ratio %.5f, want 1", ratio)
			}
		})
	}
}

func TestSolveIsExactOnSmallProblems(t *testing.T) {
	t.Parallel()
	r := random(t)
	compare := func(p arena.Problem) (ratio float64) {
		plan, ratio := solved(t, p)
		if want := leastBytes(p); plan.Bytes != want || !plan.Optimal {
			t.Fatalf("got %d bytes (optimal %v) by %s, want %d\n%+v", plan.Bytes, plan.Optimal, plan.Method, want, p)
		}
		return ratio
	}
	for range 2_000 {
		compare(lifetimes(r, 1+r.IntN(7)))
	}
	for n := 0; n < 2_000; {
		if p := saturated(r); len(p.Buffers) <= 8 {
			compare(p)
			n++
		}
	}
	// With fewer than eight buffers the bound has always been met. Here it cannot be.
	var p arena.Problem
	for _, b := range [][3]int64{{3, 0, 2}, {2, 0, 1}, {1, 1, 3}, {1, 1, 4}, {1, 2, 4}, {2, 2, 3}, {3, 3, 6}, {2, 4, 6}} {
		p.Buffers = append(p.Buffers, arena.Buffer{Size: b[0] * arena.Align, Start: int32(b[1]), End: int32(b[2])})
	}
	if ratio := compare(p); ratio != 6.0/5.0 {
		t.Errorf("got %v of the bound, want 6/5", ratio)
	}
}

// TestSaturatedSetsAreProvedOptimal lets the search find or exclude plans where simple orders mostly fail.
func TestSaturatedSetsAreProvedOptimal(t *testing.T) {
	t.Parallel()
	r := random(t)
	repaired, searched := 0, 0
	for range 5_000 {
		p := saturated(r)
		plan, _ := solved(t, p)
		if !plan.Optimal {
			t.Fatalf("%d buffers: %d bytes, %d live, not proved optimal\n%+v", len(p.Buffers), plan.Bytes, plan.Live, p)
		}
		switch {
		case plan.Method == "search" || plan.Bytes > plan.Live: // found, or proved to be the least
			searched++
		case strings.HasPrefix(plan.Method, "repaired"):
			repaired++
		}
	}
	if t.Logf("%d of 5000 by repair, %d by search", repaired, searched); repaired < 100 || searched < 10 {
		t.Error("repair or search was hardly used: the test is too easy")
	}
}

// leastBytes tries all orders of dropping the buffers on each other. An order by offset of the best plan, pushed down, is
// among them.
func leastBytes(p arena.Problem) int64 {
	least := int64(1) << 62
	offsets := make([]int64, len(p.Buffers))
	var dropped []int
	var drop func(height int64)
	drop = func(height int64) {
		if height >= least {
			return
		}
		if len(dropped) == len(p.Buffers) {
			least = height
			return
		}
		for i, b := range p.Buffers {
			if slices.Contains(dropped, i) {
				continue
			}
			top := height
			if b.Size > 0 && b.Start < b.End {
				offsets[i] = 0
				for _, j := range dropped {
					o := p.Buffers[j]
					if o.Size > 0 && max(o.Start, b.Start) < min(o.End, b.End) {
						offsets[i] = max(offsets[i], offsets[j]+occupied(o))
					}
				}
				align := max(b.Align, 1)
				if b.Align == 0 {
					align = arena.Align
				}
				offsets[i] = (offsets[i] + align - 1) / align * align
				top = max(height, offsets[i]+occupied(b))
			}
			dropped = append(dropped, i)
			drop(top)
			dropped = dropped[:len(dropped)-1]
		}
	}
	drop(0)
	return least
}

func TestPlansDependOnTheProblemAlone(t *testing.T) {
	t.Parallel()
	r := random(t)
	for range 300 {
		p := lifetimes(r, 1+r.IntN(80))
		p.Effort = 1_000_000
		first, _ := solved(t, p)
		again, _ := solved(t, p)
		if !slices.Equal(first.Offsets, again.Offsets) || first.Method != again.Method {
			t.Fatalf("the same problem has two plans:\n%+v\n%+v", first, again)
		}
		q := p
		q.Buffers = slices.Clone(p.Buffers)
		r.Shuffle(len(q.Buffers), func(i, j int) { q.Buffers[i], q.Buffers[j] = q.Buffers[j], q.Buffers[i] })
		if other, _ := solved(t, q); other.Bytes != first.Bytes {
			t.Fatalf("shuffled, the buffers need %d bytes, not %d", other.Bytes, first.Bytes)
		}
	}
}

func TestBoundCountsWhatLivesAtEachInstruction(t *testing.T) {
	r := random(t)
	for range 2_000 {
		p := lifetimes(r, r.IntN(30))
		var want int64
		var wantAt int32
		for at := range int32(200) {
			var live int64
			for _, b := range p.Buffers {
				if b.Start <= at && at < b.End {
					live += occupied(b)
				}
			}
			if live > want {
				want, wantAt = live, at
			}
		}
		if got, at := arena.Bound(p); got != want || at != wantAt {
			t.Fatalf("got %d at %d, want %d at %d\n%+v", got, at, want, wantAt, p)
		}
	}
}

func TestProblemsThatOccupyNothingNeedNothing(t *testing.T) {
	for name, p := range map[string]arena.Problem{
		"empty":        {},
		"zero sizes":   {Buffers: []arena.Buffer{{Name: "a", End: 3}, {Name: "b", Start: 1, End: 2}}},
		"never live":   {Buffers: []arena.Buffer{{Name: "a", Size: 100, Start: 4, End: 4}}},
		"one capacity": {Capacity: 1},
	} {
		t.Run(name, func(t *testing.T) {
			if plan, _ := solved(t, p); plan.Bytes != 0 || plan.Live != 0 || len(plan.Offsets) != len(p.Buffers) {
				t.Errorf("got %+v, want nothing", plan)
			}
		})
	}
}

func TestCapacityOfThePlanSufficesAndOneByteLessIsRefused(t *testing.T) {
	r := random(t)
	for range 500 {
		p := lifetimes(r, 1+r.IntN(30))
		p.Effort = 1_000_000
		plan, _ := solved(t, p)
		if plan.Bytes <= 1 {
			continue
		}
		p.Capacity = plan.Bytes
		solved(t, p)
		p.Capacity--
		_, err := arena.Solve(context.Background(), p)
		var e *arena.CapacityError
		if !errors.As(err, &e) || !errors.Is(err, arena.ErrCapacity) {
			t.Fatalf("got %v, want a CapacityError", err)
		}
		if e.Need != plan.Bytes || e.Have != p.Capacity || e.At != plan.LiveAt || len(e.Largest) == 0 || e.Name != "random/"+e.Largest[0].Name {
			t.Fatalf("got %+v, want need %d at %d", e, plan.Bytes, plan.LiveAt)
		}
	}
}

func TestProblemsThatMakeNoSenseAreNamed(t *testing.T) {
	one := func(b arena.Buffer) arena.Problem {
		b.Name = "culprit"
		return arena.Problem{Buffers: []arena.Buffer{b}}
	}
	for name, p := range map[string]arena.Problem{
		"negative size":                   one(arena.Buffer{Size: -1, End: 1}),
		"size too large to round":         one(arena.Buffer{Size: math.MaxInt64, End: 1}),
		"alignment of three":              one(arena.Buffer{Size: 1, Align: 3, End: 1}),
		"negative alignment":              one(arena.Buffer{Size: 1, Align: math.MinInt64, End: 1}),
		"life before the first":           one(arena.Buffer{Size: 1, Start: -1, End: 1}),
		"life that ends before it starts": one(arena.Buffer{Size: 1, Start: 2, End: 1}),
		"sizes that overflow together": {Buffers: []arena.Buffer{
			{Size: 1 << 62, End: 1}, {Size: 1 << 61, End: 1}, {Name: "culprit", Size: 1 << 62, End: 1}}},
		"negative capacity (culprit)": {Capacity: -1},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := arena.Solve(context.Background(), p)
			if !errors.Is(err, arena.ErrInvalid) || len(p.Buffers) > 0 && !strings.Contains(err.Error(), `"culprit"`) {
				t.Errorf("got %v, want an error that wraps ErrInvalid and names the culprit", err)
			}
		})
	}
}

func TestSolveStopsWhenItsContextDoes(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := arena.Solve(ctx, arena.Problem{Buffers: []arena.Buffer{{Size: 1, End: 1}}}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	// A problem whose search does not end: stopped in the midst of it.
	r := random(t)
	p := lifetimes(r, 300)
	for i := range p.Buffers {
		b := &p.Buffers[i]
		b.Size, b.Start = int64(1+r.IntN(50))*256, int32(r.IntN(400))
		b.End = b.Start + 1 + int32(r.IntN(60))
	}
	p.Effort = math.MaxInt64
	ctx, cancel = context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := arena.Solve(ctx, p)
	if took := time.Since(start); err != nil && !errors.Is(err, context.DeadlineExceeded) || took > 10*time.Second {
		t.Errorf("got %v after %v, want context.DeadlineExceeded at once", err, took)
	}
	t.Log(err)
}

func FuzzSolve(f *testing.F) {
	f.Add([]byte{1, 0, 1, 0, 2, 0, 3, 9, 3, 1, 2, 8}, int64(0))
	f.Add([]byte{255, 255, 0, 9, 0, 0, 0, 0, 7, 3, 200, 1}, int64(4096))
	f.Fuzz(func(t *testing.T, data []byte, capacity int64) {
		p := arena.Problem{Capacity: capacity, Effort: 200_000}
		for len(data) >= 4 && len(p.Buffers) < 64 {
			p.Buffers = append(p.Buffers, arena.Buffer{
				Size: int64(int8(data[0])) << (data[1] % 64), Align: int64(data[1]>>6) * 128,
				Start: int32(int8(data[2])), End: int32(int8(data[2])) + int32(int8(data[3])),
			})
			data = data[4:]
		}
		plan, err := arena.Solve(context.Background(), p)
		if errors.Is(err, arena.ErrInvalid) || errors.Is(err, arena.ErrCapacity) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := arena.Check(p, plan); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkSolve(b *testing.B) {
	for _, path := range traces(b) {
		p := trace(b, path)
		b.Run(strings.TrimSuffix(filepath.Base(path), ".csv"), func(b *testing.B) {
			var plan arena.Plan
			for b.Loop() {
				plan, _ = arena.Solve(context.Background(), p)
			}
			b.ReportMetric(float64(plan.Bytes)/float64(plan.Live), "bytes/live")
		})
	}
	b.Run("10,000 instructions", func(b *testing.B) {
		p := stepOf(rand.New(rand.NewPCG(3, 0)), 2500)
		for b.Loop() {
			_, _ = arena.Solve(context.Background(), p)
		}
	})
	b.Run("60 random buffers", func(b *testing.B) {
		r := rand.New(rand.NewPCG(3, 0))
		p := lifetimes(r, 60)
		for b.Loop() {
			_, _ = arena.Solve(context.Background(), p)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	p := trace(b, "testdata/resnet50_b32.csv")
	plan, _ := solved(b, p)
	for b.Loop() {
		if err := arena.Check(p, plan); err != nil {
			b.Fatal(err)
		}
	}
}
