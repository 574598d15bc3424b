package cpu_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// The assembly rounds where it packs, where it transposes or where it multiplies, and a factor may be stored in the type that it is rounded to. None
// of that may change a bit.
func TestRoundedMatMulHasTheBitsOfRoundedFactors(t *testing.T) {
	r, seed := random(t)
	shapes := [][3]int{{1, 13, 300}, {1, 130, 64}, {300, 77, 1}, {3, 40, 64}, {5, 9, 33}, {14, 200, 96}, {6, 330, 48}, {40, 64, 70}, {100, 7, 128}, {1, 1, 256},
		{1, 700, 521}, {2, 3, 64},
		{300, 340, 10}, {64, 700, 2}, {600, 33, 14}, {129, 64, 6}, {80, 1, 3}}
	for range 30 {
		shapes = append(shapes, [3]int{1 + r.IntN(30), 1 + r.IntN(90), 1 + r.IntN(140)})
	}
	for _, to := range []arena.DType{arena.BFloat16, arena.Float16} {
		for _, v := range cpu.RoundingVariants(arena.Float32, to) {
			if !slices.Contains(cpu.MatMulVariants(arena.Float32), v) {
				continue // pairs have sums of their own
			}
			for _, s := range shapes {
				bits := r.IntN(8)
				plain := newProduct(v, arena.Float32, 0, s[0], s[1], s[2], kernels.MatMulAttrs{TransA: bits&1 != 0, TransB: bits&2 != 0, Bias: bits&4 != 0})
				o := plain.layOut(2)
				o.fill(r)
				unround(r, o, to)
				rounded := plain.rounded(r, to)
				if s[0] == 1 || s[2] == 1 {
					rounded.stored[1] = []arena.DType{arena.Float32, to}[r.IntN(2)]
				}
				q := rounded.layOut(2)
				q.fill(r)
				for i := range o.call.In {
					from, at := cpu.Elements[float32](o.bytes(o.call.In[i])), q.call.In[i]
					if i > 1 {
						copy(cpu.Elements[float32](q.bytes(at)), from)
						continue
					}
					for j, x := range from {
						from[j] = fromHalf(to, toHalf(to, x))
						if at.Type == arena.Float32 {
							cpu.Elements[float32](q.bytes(at))[j] = x
						} else {
							cpu.Elements[uint16](q.bytes(at))[j] = toHalf(to, x)
						}
					}
				}
				want, got := plain.run(t, o, 2), rounded.run(t, q, 2)
				if !sameButForNaN(got, want, arena.Float32) {
					t.Fatalf("%v: bits differ from those of rounded factors (seed %d)", rounded, seed)
				}
			}
		}
	}
}

// unround makes some numbers of the factors such as rounding may get wrong: half-way between two or just beside it, denormal, infinite or none.
func unround(r *rand.Rand, o *operands, to arena.DType) {
	for _, in := range o.call.In[:2] {
		all := cpu.Elements[float32](o.bytes(in))
		for i := range all {
			if r.IntN(3) > 0 {
				continue
			}
			up := []uint32{0x8000, 0x7fff, 0x8001, 0xffff}[r.IntN(4)]
			if to == arena.Float16 {
				up = []uint32{0x1000, 0xfff, 0x1001, 0x1fff}[r.IntN(4)]
			}
			all[i] = math.Float32frombits(math.Float32bits(fromHalf(to, toHalf(to, all[i]))) + up)
		}
		if len(all) < 2 || r.IntN(3) > 0 {
			continue
		}
		for range 3 {
			all[r.IntN(len(all))] = math.Float32frombits([]uint32{0x7f800001, 0xffffffff, 0x7fffffff, 0x7f7fffff, 0x807fffff, 0x00000001, 0x80000000, 0x33000001}[r.IntN(8)])
		}
	}
}
