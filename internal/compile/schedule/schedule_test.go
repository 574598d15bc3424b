package schedule

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/ir/irtest"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
)

// all are the options with every pass on.
var all = Options{Order: true, InPlace: true, Views: true}

// update appends the update of a weight of that shape by the gradient dw.
func update(b *irtest.Builder, r arena.Region, dw kernels.Value, shape ...int) kernels.Value {
	w := b.HomeOf(r, "w", arena.Float32, shape...)
	guard := b.HomeOf(ir.Guard, "guard", arena.Int32, 4)
	controls := b.HomeOf(ir.Slot, "controls", arena.Float64, kernels.Controls)
	return b.Op("update", kernels.SGD, kernels.SGDAttrs{}, w, dw, guard, controls)
}

func TestResultsShareBytesOfOperands(t *testing.T) {
	irtest.Golden(t, "alias", func(p *ir.Program) { Alias(p, true); InPlace(p) }, []irtest.Example{
		{Name: "an update, a view and a result in place", Build: func(b *irtest.Builder) {
			dw := b.Op("dw", kernels.MatMul, kernels.MatMulAttrs{}, b.X(4, 2), b.X(2, 6))
			flat := b.Op("flat", kernels.Reshape, kernels.ReshapeAttrs{Shape: kernels.Shape{3, 8}}, dw)
			b.Need(update(b, ir.Parameters, b.Op("scaled", kernels.Neg, nil, flat), 3, 8))
		}},
		{Name: "an operand with a later reader", Build: func(b *irtest.Builder) {
			x := b.Op("x", kernels.Neg, nil, b.X(8))
			y := b.Op("y", kernels.Tanh, nil, x)
			b.Need(b.Op("sum", kernels.Add, nil, x, y))
		}},
		{Name: "a slice of some rows, and its reader, which does not fill the bytes of all rows", Build: func(b *irtest.Builder) {
			x := b.Op("x", kernels.Neg, nil, b.X(4, 64))
			rows := b.Op("rows", kernels.Slice, kernels.SliceAttrs{Start: []int{1, 0}, End: []int{3, 64}, Step: []int{1, 1}}, x)
			b.Need(b.Op("y", kernels.Tanh, nil, rows))
		}},
	})
}

// towers are products that each make a large value, and reduce it to a small one; all small ones
// are added at the end. In the order in which they are built all large values come first.
func towers(b *irtest.Builder) {
	var large []kernels.Value
	x := b.X(64, 4)
	for range 4 {
		large = append(large, b.Op("large", kernels.MatMul, kernels.MatMulAttrs{}, x, b.X(4, 64)))
	}
	sum := b.Op("small", kernels.Sum, kernels.ReduceAttrs{Axes: []int{0}}, large[0])
	for _, v := range large[1:] {
		sum = b.Op("sum", kernels.Add, nil, sum, b.Op("small", kernels.Sum, kernels.ReduceAttrs{Axes: []int{0}}, v))
	}
	b.Need(sum)
}

// run schedules the program that build builds.
func run(t *testing.T, build func(b *irtest.Builder), o Options) *ir.Program {
	t.Helper()
	b := irtest.New(t)
	build(b)
	if err := Run(context.Background(), b.Program, o); err != nil {
		t.Fatal(err)
	}
	return b.Program
}

func TestRunOrdersAndPlaces(t *testing.T) {
	irtest.Golden(t, "run", func(p *ir.Program) {
		if err := Run(context.Background(), p, all); err != nil {
			t.Fatal(err)
		}
	}, []irtest.Example{{Name: "large values live one after the other", Build: towers}})
	const large = 64 * 64 * 4
	if p := run(t, towers, Options{InPlace: true, Views: true}); p.Plan.Live < 4*large {
		t.Errorf("in the order of building: a peak of %d bytes, want at least %d", p.Plan.Live, 4*large)
	}
	if p := run(t, towers, all); p.Plan.Live >= 2*large {
		t.Errorf("a peak of %d bytes, want less than %d", p.Plan.Live, 2*large)
	}
}

// Towers have one order in which large values live one after the other. Schedulers that look at
// bytes find it by themselves.
func TestSchedulersThatLookAtBytesKeepFewOfThemLive(t *testing.T) {
	for _, s := range Schedulers() {
		o := all
		o.Scheduler = &s
		p := run(t, towers, o)
		if s.Name != "free early" && s.Name != "make late" && s.Name != "one sink at a time" && p.Plan.Live >= 2*64*64*4 {
			t.Errorf("%s: a peak of %d bytes, want less than two large values\n%v", s.Name, p.Plan.Live, p)
		}
	}
}

// An update waits for the readers of the bytes that it overwrites.
func TestReadersComeBeforeTheUpdate(t *testing.T) {
	for s := range uint64(20) {
		b := irtest.New(t)
		w := b.X(8)
		guard := b.HomeOf(ir.Guard, "guard", arena.Int32, 4)
		controls := b.HomeOf(ir.Slot, "controls", arena.Float64, kernels.Controls)
		y := b.Op("reader", kernels.Neg, nil, w)
		updated := b.Op("update", kernels.SGD, kernels.SGDAttrs{}, w, b.X(8), guard, controls)
		b.Need(y, b.Op("reader of the update", kernels.Tanh, nil, updated))
		sch, o := shuffled(s), all
		o.Scheduler = &sch
		if err := Run(context.Background(), b.Program, o); err != nil {
			t.Fatal(err)
		}
		at := func(label string) int {
			return slices.IndexFunc(b.Instrs, func(in ir.Instr) bool { return in.Label == label })
		}
		if at("reader") > at("update") || at("update") > at("reader of the update") {
			t.Fatalf("seed %d: got\n%v", s, b.Program)
		}
	}
}

func TestProgramsWithOtherOperationsAreNotTheSame(t *testing.T) {
	p := run(t, towers, all)
	b := irtest.New(t)
	towers(b)
	if !sameInstrs(b.Program, p) {
		t.Error("the same instructions, in another order, are not recognised")
	}
	b.Instrs[len(b.Instrs)-1].Op = kernels.Sub
	if sameInstrs(b.Program, p) {
		t.Error("another operation is taken for the same")
	}
}

func TestAProgramWithTheSameInstructionsHasTheSameOrderAndOffsets(t *testing.T) {
	build := func(rows int) func(b *irtest.Builder) {
		return func(b *irtest.Builder) {
			h := b.Op("h", kernels.Tanh, nil, b.Op("xw", kernels.MatMul, kernels.MatMulAttrs{}, b.X(rows, 30), b.X(30, 50)))
			y := b.Op("y", kernels.MatMul, kernels.MatMulAttrs{}, h, b.X(50, 20))
			b.Need(b.Op("sum", kernels.Sum, kernels.ReduceAttrs{}, b.Op("yh", kernels.MatMul, kernels.MatMulAttrs{TransA: true}, y, h)))
		}
	}
	large := run(t, build(40), all)
	o := all
	o.Like = large
	small := run(t, build(7), o)
	if !slices.Equal(small.Order, large.Order) || !slices.Equal(small.Plan.Offsets, large.Plan.Offsets) {
		t.Errorf("order %v at %v, want %v at %v", small.Order, small.Plan.Offsets, large.Order, large.Plan.Offsets)
	}
	if small.Plan.Live >= large.Plan.Live {
		t.Errorf("a peak of %d bytes, the larger batch has %d", small.Plan.Live, large.Plan.Live)
	}
	o.Like = run(t, towers, all)
	other := run(t, build(7), o)
	if slices.Equal(other.Order, o.Like.Order) {
		t.Error("the order of a program with other instructions is reused")
	}
	if other.Problem.Enough != o.Like.Plan.Bytes {
		t.Errorf("%d bytes are enough, want the %d that are there", other.Problem.Enough, o.Like.Plan.Bytes)
	}
}

// Transfers are double-buffered: scratch holds the copies for two readers at once, and a writeback
// follows every prefetch of the bytes that it overwrites.
func TestTransfersOverlapWithCompute(t *testing.T) {
	irtest.Golden(t, "transfer", func(p *ir.Program) {
		p.Instrs = Reorder(p.Instrs, newTransfers(p).overlap(Sequence(len(p.Instrs))))
	}, []irtest.Example{
		{Name: "three layers", Build: func(b *irtest.Builder) {
			x := b.X(8, 8)
			for range 3 {
				w := b.Op("prefetch", kernels.Prefetch, nil, b.HomeOf(ir.HostParameters, "w", arena.Float32, 8, 8))
				x = b.Op("xw", kernels.MatMul, kernels.MatMulAttrs{}, x, w)
				x = b.Op("act", kernels.Tanh, nil, x)
			}
			b.Need(x)
		}},
		{Name: "a weight that is read and updated, and another weight", Build: func(b *irtest.Builder) {
			w, v := b.HomeOf(ir.HostParameters, "w", arena.Float32, 8, 8), b.HomeOf(ir.HostParameters, "v", arena.Float32, 8, 8)
			copied := b.Op("prefetch", kernels.Prefetch, nil, w)
			dw := b.Op("dw", kernels.MatMul, kernels.MatMulAttrs{}, b.X(8, 8), copied)
			mine := b.Op("prefetch", kernels.Prefetch, nil, w)
			updated := b.Op("update", kernels.Add, nil, mine, dw)
			b.Need(b.Op("writeback", kernels.Writeback, nil, updated, w))
			b.Need(b.Op("vv", kernels.Neg, nil, b.Op("prefetch", kernels.Prefetch, nil, v)))
		}},
		{Name: "a weight that is read after its update, as it was before", Build: func(b *irtest.Builder) {
			w := b.HomeOf(ir.HostParameters, "w", arena.Float32, 8, 8)
			var copies []kernels.Value
			for range 4 {
				copies = append(copies, b.Op("prefetch", kernels.Prefetch, nil, w))
			}
			b.Need(b.Op("first", kernels.Tanh, nil, copies[0]))
			b.Need(b.Op("writeback", kernels.Writeback, nil, b.Op("update", kernels.Neg, nil, copies[1]), w))
			b.Need(b.Op("third", kernels.Tanh, nil, copies[2]), b.Op("fourth", kernels.Tanh, nil, copies[3]))
		}},
		{Name: "no transfers", Build: towers},
	})
}

// The peak is never above that of the order in which the instructions are built, and every
// dependency is kept.
func TestCandidatesOfRandomPrograms(t *testing.T) {
	for s := range uint64(30) {
		b := irtest.New(t)
		r := rand.New(rand.NewPCG(seed.Value(), s))
		values := []kernels.Value{b.X(8, 8)}
		for range 3 + r.IntN(25) {
			x, y := values[r.IntN(len(values))], values[r.IntN(len(values))]
			switch r.IntN(3) {
			case 0:
				values = append(values, b.Op("tanh", kernels.Tanh, nil, x))
			case 1:
				values = append(values, b.Op("sum", kernels.Add, nil, x, y))
			default:
				values = append(values, b.Op("product", kernels.MatMul, kernels.MatMulAttrs{}, x, y))
			}
		}
		b.Need(values[len(values)-1])
		p := b.Program
		Alias(p, true)
		found := Candidates(p, all)
		if most := Peak(inOrder(p, Sequence(len(p.Instrs)), all), nil); found[0].Peak > most {
			t.Errorf("seed %d, %d: a peak of %d bytes, as built %d", seed.Value(), s, found[0].Peak, most)
		}
		for _, c := range found {
			made := make([]bool, len(p.Values))
			for _, in := range Reorder(p.Instrs, c.Order) {
				for _, v := range in.In {
					if !made[v] && !p.Values[v].Home {
						t.Fatalf("seed %d, %d: order %v: %%%d is read before it is made\n%v", seed.Value(), s, c.Order, v, p)
					}
				}
				for _, v := range in.Out {
					made[v] = true
				}
			}
		}
	}
}
