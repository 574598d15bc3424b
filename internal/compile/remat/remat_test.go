package remat

import (
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile/schedule"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/ir/irtest"
	"github.com/evenkeel/evenkeel/kernels"
)

var options = schedule.Options{Order: true, InPlace: true, Views: true}

// layer is the bytes of an activation of chain.
const layer = 16 * 16 * 4

// chain is a forward pass of n layers tanh(x·w) and its backward pass. The layers are called
// "layer0" and so on. Weights have their homes in region r.
func chain(n int, r arena.Region) func(b *irtest.Builder) {
	return func(b *irtest.Builder) {
		x := []kernels.Value{b.X(16, 16)}
		w := make([]kernels.Value, n)
		for i := range w {
			b.Owner = "layer" + string(rune('0'+i))
			w[i] = b.HomeOf(r, "w", arena.Float32, 16, 16)
			if r == ir.HostParameters {
				w[i] = b.Op("prefetch "+b.Owner, kernels.Prefetch, nil, w[i])
			}
			product := b.Op("xw "+b.Owner, kernels.MatMul, kernels.MatMulAttrs{}, x[i], w[i])
			x = append(x, b.Op("act "+b.Owner, kernels.Tanh, nil, product))
		}
		b.Backward = true
		dx := b.Fill(1, 16, 16)
		for i := n - 1; i >= 0; i-- {
			b.Owner = "layer" + string(rune('0'+i))
			dz := b.Op("dact "+b.Owner, kernels.TanhGrad, nil, x[i+1], dx)
			b.Need(b.Op("dw "+b.Owner, kernels.Sum, kernels.ReduceAttrs{}, b.Op("xdz", kernels.MatMul, kernels.MatMulAttrs{TransA: true}, x[i], dz)))
			dx = b.Op("dx "+b.Owner, kernels.MatMul, kernels.MatMulAttrs{TransB: true}, dz, w[i])
		}
		b.Need(b.Op("sum", kernels.Sum, kernels.ReduceAttrs{}, dx))
	}
}

func TestDroppedActivationsAreComputedAgainRightBeforeTheirReader(t *testing.T) {
	irtest.Golden(t, "owners", func(p *ir.Program) { Run(p, Goal{Owners: []string{"layer0", "layer1"}}, options) },
		[]irtest.Example{{Name: "two layers of three", Build: chain(3, ir.Parameters)}})
	irtest.Golden(t, "budget", func(p *ir.Program) { Run(p, Goal{Budget: 6 * layer}, options) },
		[]irtest.Example{{Name: "six layers in the bytes of six values", Build: chain(6, ir.Parameters)}})
	irtest.Golden(t, "refetch", func(p *ir.Program) { Run(p, Goal{}, options) },
		[]irtest.Example{{Name: "offloaded weights are fetched for each pass", Build: chain(2, ir.HostParameters)}})
}

// peak is the peak of p in the best order.
func peak(p *ir.Program) int64 { return schedule.Peak(schedule.Trial(p, options), nil) }

// The lower the budget, the lower the peak and the higher the work, down to the least that there
// is. No value is read before it is made.
func TestLowerBudgetsNeedMoreWork(t *testing.T) {
	b := irtest.New(t)
	chain(9, ir.Parameters)(b)
	whole := peak(b.Program)
	last, work := whole, b.Program.Work().Time
	for _, budget := range []int64{whole, whole * 3 / 4, whole / 2, 1} {
		p := b.Program.Clone()
		Run(p, Goal{Budget: budget}, options)
		if (len(p.Recomputation.Rounds) == 0) != (budget == whole) {
			t.Errorf("within %d of %d bytes: %d rounds", budget, whole, len(p.Recomputation.Rounds))
		}
		got := peak(p)
		if got > last || got > budget && budget > whole/2 {
			t.Errorf("within %d bytes: got a peak of %d, of more bytes %d", budget, got, last)
		}
		if now := p.Work().Time; now < work || now > 2*b.Program.Work().Time {
			t.Errorf("within %d bytes a step takes %d, of more bytes %d, without recomputation %d", budget, now, work, b.Program.Work().Time)
		} else {
			last, work = got, now
		}
		made := make([]bool, len(p.Values))
		for _, in := range p.Instrs {
			for _, v := range in.In {
				if !made[v] && !p.Values[v].Home {
					t.Fatalf("within %d bytes: %%%d is read before it is made\n%v", budget, v, p)
				}
			}
			for _, v := range in.Out {
				made[v] = true
			}
		}
	}
}

// Trees alone reach half of the bytes, and do not compute everything again.
func TestTreesKeepCheckpoints(t *testing.T) {
	b := irtest.New(t)
	chain(9, ir.Parameters)(b)
	a := analyse(b.Program, options)
	var found choice
	whole := choice{rounds: []round{a.emptyRound()}}
	a.measure(&whole)
	budget := whole.peak * 2 / 3
	a.trees(budget, func(x choice) {
		if found.rounds == nil || x.better(&found, budget) {
			found = x
		}
	})
	if found.rounds == nil || found.peak > budget || found.work >= a.limit()/2 {
		t.Errorf("%d rounds with a peak of %d and work of %d, want at most %d of %d bytes, and less than half of the work %d",
			len(found.rounds), found.peak, found.work, budget, whole.peak, a.limit())
	}
	for _, budget := range []int64{budget, budget / 2, 1} { // the search looks at them
		best := choice{peak: whole.peak, work: a.limit()}
		a.trees(budget, func(x choice) {
			if x.better(&best, budget) {
				best = x
			}
		})
		if x := a.search(budget); best.better(&x, budget) {
			t.Errorf("within %d bytes: the search finds a peak of %d with work of %d, trees one of %d with %d", budget, x.peak, x.work, best.peak, best.work)
		}
	}
}

// Polish keeps everything that the budget allows.
func TestPolishKeepsWhatFits(t *testing.T) {
	b := irtest.New(t)
	chain(6, ir.Parameters)(b)
	a := analyse(b.Program, options)
	whole, x := choice{rounds: []round{a.emptyRound()}}, choice{rounds: []round{a.emptyRound()}}
	a.measure(&whole)
	for _, v := range a.saved {
		x.rounds[0].drop[v] = true
	}
	if a.measure(&x); x.work == 0 {
		t.Fatal("nothing is dropped")
	}
	if a.polish(&x, whole.peak); x.work != 0 {
		t.Errorf("work of %d within the bytes of the whole program, want 0", x.work)
	}
}

// Instructions with an effect are never repeated, and neither are those that run on the host.
func TestInstructionsWithAnEffectRunOnce(t *testing.T) {
	b := irtest.New(t)
	guard := b.HomeOf(ir.Guard, "guard", arena.Int32, 4)
	x := b.Op("x", kernels.Tanh, nil, b.X(16, 16))
	checked := b.Op("check", kernels.CheckFinite, kernels.CheckFiniteAttrs{Code: 1}, x, guard)
	y := b.Op("y", kernels.Tanh, nil, x)
	b.Backward = true
	b.Need(checked, b.Op("dy", kernels.TanhGrad, nil, y, b.Op("dx", kernels.TanhGrad, nil, x, b.X(16, 16))))
	Run(b.Program, Goal{Owners: []string{"layer"}}, options)
	count := func(label string) (n int) {
		for _, in := range b.Instrs {
			if strings.TrimSuffix(in.Label, " again") == label {
				n++
			}
		}
		return n
	}
	if count("check") != 1 || count("y") != 2 {
		t.Errorf("the check runs %d times, want 1; y %d times, want 2\n%v", count("check"), count("y"), b.Program)
	}
}

// A program at another batch size drops what the first one drops, whatever its budget.
func TestRoundsAreInherited(t *testing.T) {
	b := irtest.New(t)
	chain(6, ir.Parameters)(b)
	p, o := b.Program.Clone(), options
	Run(p, Goal{Budget: 6 * layer}, options)
	o.Like = p
	q := b.Program.Clone()
	Run(q, Goal{Budget: 1 << 40}, o)
	if q.Recomputation != p.Recomputation || !slices.EqualFunc(p.Instrs, q.Instrs, func(a, b ir.Instr) bool { return a.Label == b.Label }) {
		t.Errorf("got\n%vwant\n%v", q, p)
	}
}

// A program of thousands of instructions is searched in fewer steps, each of which drops several
// activations, and still fits in half of its bytes.
func TestLargeProgramsAreSearchedInFewerSteps(t *testing.T) {
	for n, want := range map[int]int{fine: mostDrops, 2 * fine: mostDrops / 4, 5 * fine: mostDrops / 25, 100 * fine: coarsest} {
		a := analysis{p: &ir.Program{Instrs: make([]ir.Instr, n)}}
		if got := a.steps(mostDrops); got != want {
			t.Errorf("%d steps for %d instructions, want %d", got, n, want)
		}
	}
	b := irtest.New(t)
	chain(450, ir.Parameters)(b)
	if len(b.Instrs) <= fine {
		t.Fatalf("only %d instructions", len(b.Instrs))
	}
	half := peak(b.Program) / 2
	p := b.Program.Clone()
	Run(p, Goal{Budget: half}, options)
	if got := peak(p); got > half {
		t.Errorf("a peak of %d bytes, want at most %d", got, half)
	}
}
