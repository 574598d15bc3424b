package group_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/internal/seed"
)

// number returns element i of rank r: fractions for floats, so that the order of a sum shows.
func number(d arena.DType, r, i int) float64 {
	bits := (uint64(r)<<32 + uint64(i) + seed.Value()) * 0x9e37_79b9_7f4a_7c15
	bits ^= bits >> 29
	bits *= 0xbf58_476d_1ce4_e5b9
	bits ^= bits >> 32
	unit := math.Float64frombits(bits>>12|(1023+bits%20)<<52) - 2 // -1 to a million, with 52 bits of fraction
	switch {
	case d == arena.Float32:
		return float64(float32(unit))
	case d == arena.Float64:
		return unit
	case d == arena.Int32:
		return float64(int32(bits) / 16)
	case d == arena.Int64:
		return float64(int64(bits) >> 14) // sums are exact
	}
	return float64(bits % 128)
}

// expected returns what rank has after an operation on n elements, from its definition.
func expected(op group.Op, size, rank, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		own := number(op.Type, rank, i)
		reduced := number(op.Type, 0, i)
		for r := 1; r < size; r++ {
			v := number(op.Type, r, i)
			switch {
			case op.Kind == group.Max:
				reduced = max(reduced, v)
			case op.Type == arena.Float32:
				reduced = float64(float32(reduced) + float32(v))
			default:
				reduced += v
			}
		}
		switch op.Kind {
		case group.Sum, group.Max:
			out[i] = reduced
		case group.Broadcast:
			out[i] = number(op.Type, op.Root, i)
		case group.AllGather:
			out[i] = number(op.Type, i/(n/size), i)
		case group.ReduceScatter:
			out[i] = own
			if i/(n/size) == rank {
				out[i] = reduced
			}
		}
	}
	return out
}

// kinds lists the types of each kind that moves data.
var kinds = map[group.Kind][]arena.DType{
	group.Sum:           {arena.Float32, arena.Float64, arena.Int32, arena.Int64},
	group.Max:           {arena.Float64, arena.Int32, arena.Int64},
	group.Broadcast:     {arena.Float32, arena.Float64, arena.Uint8, arena.Int32, arena.Int64, arena.BFloat16, arena.Float16},
	group.AllGather:     {arena.Float32, arena.Float64, arena.Uint8, arena.Int32, arena.Int64, arena.BFloat16, arena.Float16},
	group.ReduceScatter: {arena.Float32, arena.Float64, arena.Int32, arena.Int64},
}

func TestEveryKindComputesItsDefinitionBitForBit(t *testing.T) {
	t.Parallel()
	for size := 1; size <= 5; size++ {
		for kind, types := range kinds {
			for _, d := range types {
				for _, n := range seed.Cases([]int{0, 1, 7, 20_011}, []int{0, 1, 2, 7, 64, 4099, 20_011, 200_003}) {
					n := n
					if kind == group.AllGather || kind == group.ReduceScatter {
						n = (n + size - 1) / size * size
					}
					testKind(t, size, n, group.Op{Kind: kind, Type: d, Label: "x"})
				}
			}
		}
	}
}

// testKind compares two runs of an operation with its definition.
func testKind(t *testing.T, size, n int, op group.Op) {
	if op.Kind == group.Broadcast {
		op.Root = n % size
	}
	local(t, size, group.Options{}, func(g group.Group) {
		op := op
		in := make([]float64, n)
		for i := range in {
			in[i] = number(op.Type, g.Rank(), i)
		}
		op.Data = encode(op.Type, in)
		o := prepare(t, g, op)
		want := encode(op.Type, expected(op, size, g.Rank(), n))
		for run := range 2 {
			copy(op.Data, encode(op.Type, in))
			if err := group.Run(o); err != nil {
				t.Errorf("%s: %v", op, err)
			}
			if !bytes.Equal(op.Data, want) {
				t.Errorf("rank %d of %d, run %d: %s: wrong", g.Rank(), size, run, op)
			}
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestMaxIsTheSameInEveryOrder(t *testing.T) {
	t.Parallel()
	values := []float64{math.NaN(), math.Copysign(0, -1), 0, math.Inf(-1), 1}
	odd := math.Float64frombits(0xfff8_0000_0000_1234) // another NaN
	rows := [][]float64{{odd, values[1], values[2], values[3], odd}, {1, values[2], values[1], -1, values[0]}, {-2, values[1], values[1], values[3], 7}}
	want := encode(arena.Float64, []float64{math.NaN(), 0, 0, -1, math.NaN()})
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
		local(t, 3, group.Options{}, func(g group.Group) {
			data := encode(arena.Float64, rows[order[g.Rank()]])
			if err := group.Run(prepare(t, g, group.Op{Kind: group.Max, Type: arena.Float64, Data: data})); err != nil {
				t.Error(err)
			}
			if !bytes.Equal(data, want) {
				t.Errorf("order %v, rank %d: %x, want %x", order, g.Rank(), data, want)
			}
		})
	}
}

func TestABarrierWaitsForAllRanks(t *testing.T) {
	t.Parallel()
	var came [50]atomic.Int32
	local(t, 4, group.Options{}, func(g group.Group) {
		o := prepare(t, g, group.Op{Kind: group.Barrier})
		for i := range came {
			came[i].Add(1)
			if err := group.Run(o); err != nil {
				t.Error(err)
			}
			if n := came[i].Load(); n != 4 {
				t.Errorf("barrier %d: passed when %d of 4 ranks had come", i, n)
			}
		}
	})
}

func TestOperationsInFlightRunInTheOrderOfTheirStarts(t *testing.T) {
	t.Parallel()
	const flights = 200
	local(t, 3, group.Options{}, func(g group.Group) {
		// All use the same number: it doubles or triples with each sum, and a broadcast between them
		// fixes it to that of a rank.
		data := encode(arena.Int32, []float64{float64(g.Rank() + 1)})
		var ops []group.Operation
		want := [3]int32{1, 2, 3}
		for i := range flights {
			op := group.Op{Kind: group.Sum, Type: arena.Int32, Data: data, Label: fmt.Sprint("flight ", i)}
			if i%3 == 1 {
				op.Kind, op.Root = group.Broadcast, i%2
			}
			if i%3 == 1 {
				want = [3]int32{want[op.Root], want[op.Root], want[op.Root]}
			} else {
				s := want[0] + want[1] + want[2]
				want = [3]int32{s, s, s}
			}
			o := prepare(t, g, op)
			ops = append(ops, o)
			if err := o.Start(); err != nil {
				t.Error(err)
			}
		}
		for _, i := range rand.Perm(flights) {
			if err := ops[i].Wait(); err != nil {
				t.Error(err)
			}
		}
		if !bytes.Equal(data, encode(arena.Int32, []float64{float64(want[g.Rank()])})) {
			t.Errorf("rank %d: %x, want %x", g.Rank(), data, want[g.Rank()])
		}
	})
}

func TestStartAndWaitMakeNoObjects(t *testing.T) {
	const runs = 200
	local(t, 3, group.Options{}, func(g group.Group) {
		small := prepare(t, g, group.Op{Kind: group.Sum, Type: arena.Float32, Data: make([]byte, 64), Label: "small"})
		large := prepare(t, g, group.Op{Kind: group.ReduceScatter, Type: arena.Float64, Data: make([]byte, 24<<14), Label: "large"})
		both := func() {
			if err := errors.Join(small.Start(), large.Start(), large.Wait(), small.Wait()); err != nil {
				t.Error(err)
			}
		}
		if g.Rank() > 0 { // AllocsPerRun counts the objects of all goroutines, and calls once more
			for range runs + 1 {
				both()
			}
			return
		}
		if n := testing.AllocsPerRun(runs, both); n != 0 {
			t.Errorf("%v objects a run", n)
		}
	})
}
