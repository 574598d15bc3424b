package arena_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
)

func TestCheckFindsEveryPlantedFault(t *testing.T) {
	problem := func() arena.Problem {
		return arena.Problem{Capacity: 4096, Buffers: []arena.Buffer{
			{Name: "a", Size: 300, Start: 0, End: 3},
			{Name: "b", Size: 100, Start: 1, End: 4},
			{Name: "c", Size: 700, Start: 3, End: 5},
			{Name: "none", Size: 0, Start: 0, End: 9},
			{Name: "never", Size: 900, Start: 2, End: 2},
		}}
	}
	if plan, _ := solved(t, problem()); plan.Bytes != 1024 {
		t.Fatalf("plan of %d bytes, want 1024", plan.Bytes)
	}
	cases := []struct {
		name  string
		fault arena.Fault
		plant func(p *arena.Problem, plan *arena.Plan)
	}{
		{"an offset is missing", arena.FaultLength, func(_ *arena.Problem, plan *arena.Plan) { plan.Offsets = plan.Offsets[:4] }},
		{"an offset too many", arena.FaultLength, func(_ *arena.Problem, plan *arena.Plan) { plan.Offsets = append(plan.Offsets, 0) }},
		{"a negative offset", arena.FaultOffset, func(_ *arena.Problem, plan *arena.Plan) { plan.Offsets[0] = -256 }},
		{"a misaligned offset", arena.FaultAlignment, func(_ *arena.Problem, plan *arena.Plan) { plan.Offsets[2] += 128 }},
		{"misaligned for its own alignment", arena.FaultAlignment, func(p *arena.Problem, plan *arena.Plan) {
			p.Buffers[1].Align, plan.Offsets[1] = 1024, 768
		}},
		{"a negative size", arena.FaultLength, func(p *arena.Problem, _ *arena.Plan) { p.Buffers[1].Size = -1 }},
		{"a life that ends before it starts", arena.FaultLength, func(p *arena.Problem, _ *arena.Plan) { p.Buffers[1].End = 0 }},
		{"a size that overflows when rounded", arena.FaultOverflow, func(p *arena.Problem, _ *arena.Plan) { p.Buffers[1].Size = math.MaxInt64 }},
		{"an end that overflows", arena.FaultOverflow, func(p *arena.Problem, plan *arena.Plan) {
			plan.Offsets[1] = math.MaxInt64 - 255
		}},
		{"an end beyond the plan", arena.FaultBytes, func(_ *arena.Problem, plan *arena.Plan) { plan.Offsets[1] = 2048 }},
		{"negative bytes", arena.FaultBytes, func(_ *arena.Problem, plan *arena.Plan) { plan.Bytes = -1 }},
		{"more than the capacity", arena.FaultCapacity, func(p *arena.Problem, _ *arena.Plan) { p.Capacity = 1023 }},
		{"the same place", arena.FaultOverlap, func(_ *arena.Problem, plan *arena.Plan) { plan.Offsets[1] = plan.Offsets[0] }},
		{"a life that is longer than thought", arena.FaultOverlap, func(p *arena.Problem, plan *arena.Plan) {
			plan.Offsets[0], plan.Offsets[2], plan.Offsets[1] = 0, 0, 768
			p.Buffers[0].End = 4
			plan.Live, plan.LiveAt = 512+256+768, 3
		}},
		{"too few bytes live", arena.FaultPeak, func(_ *arena.Problem, plan *arena.Plan) { plan.Live-- }},
		{"the peak at another time", arena.FaultPeak, func(_ *arena.Problem, plan *arena.Plan) { plan.LiveAt = 1; plan.Live = 768 }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := problem()
			plan, _ := solved(t, p)
			c.plant(&p, &plan)
			err := arena.Check(p, plan)
			var found *arena.PlanError
			if !errors.As(err, &found) || !errors.Is(err, arena.ErrPlan) || found.Fault != c.fault {
				t.Fatalf("got %v, want a fault of kind %s", err, c.fault)
			}
		})
	}
}

// TestCheckAgreesWithComparingAllPairs moves buffers of good plans at random and compares the verdicts.
func TestCheckAgreesWithComparingAllPairs(t *testing.T) {
	r := random(t)
	right, wrong := 0, 0
	for range 5_000 {
		p := lifetimes(r, 2+r.IntN(20))
		p.Effort = -1
		plan, _ := solved(t, p)
		plan.Offsets = slices.Clone(plan.Offsets)
		plan.Bytes *= 2
		for range 1 + r.IntN(3) {
			i := r.IntN(len(p.Buffers))
			if plan.Offsets[i] += int64(r.IntN(9)-4) * 4096; plan.Offsets[i] < 0 {
				plan.Offsets[i] = 0
			}
		}
		want := true
		for i, a := range p.Buffers {
			for j, b := range p.Buffers {
				if i != j && max(a.Start, b.Start) < min(a.End, b.End) && min(a.Size, b.Size) > 0 &&
					plan.Offsets[i] <= plan.Offsets[j] && plan.Offsets[j] < plan.Offsets[i]+occupied(a) {
					want = false
				}
			}
			if a.Size > 0 && a.Start < a.End && plan.Offsets[i]+occupied(a) > plan.Bytes {
				want = false
			}
		}
		if want {
			right++
		} else {
			wrong++
		}
		if err := arena.Check(p, plan); (err == nil) != want {
			t.Fatalf("got %v, want a plan that is right: %v\n%+v\n%+v", err, want, p, plan)
		}
	}
	if right < 500 || wrong < 500 {
		t.Errorf("%d right and %d wrong plans: the test is lopsided", right, wrong)
	}
}
