package update_test

import (
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/asmtest"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/update"
)

func TestRulesMatchTheirTwinsInsideTheirOperands(t *testing.T) {
	testRules[float32](t, 1e-5)
	testRules[float64](t, 1e-13)
}

// testRules updates operands that end or begin at a page that faults. Assembly fuses multiplications
// with additions, so results differ by a few units in the last place: bound is relative to 1.
func testRules[T asm.Float](t *testing.T, bound float64) {
	r, seed := asmtest.Rand(t)
	var pages [4]asmtest.Page
	for i := range pages {
		pages[i] = asmtest.NewPage(t)
	}
	rules := func(k *update.Kernels[T]) []func(*update.Rule[T], int, int) {
		return []func(*update.Rule[T], int, int){k.SGD, k.Momentum, k.Nesterov, k.RMSProp, k.Adam, k.AdamW, k.Lion}
	}
	twins := rules(update.At[T](asm.Portable))
	for _, level := range asmtest.Levels() {
		for i, f := range rules(update.At[T](level)) {
			for n := 1; n <= 140; n++ {
				var got, want [4][]T
				for k := range got {
					got[k], want[k] = asmtest.Elements[T](pages[k], n, n%2 == 0), make([]T, n)
					for j := range want[k] {
						want[k][j] = T(1 + r.Float64())
					}
					copy(got[k], want[k])
				}
				a := update.Rule[T]{P: got[0], G: got[1], S: got[2], V: got[3], Prepare: n / 2 % 2, Scale: 0.5, Down: 1, Max: 1, Min: -1, Decay: 0.1,
					Coef: [8]T{0.1, 0.9, 0.1, 0.9, 0.1, 1, 0.01, 0.01}}
				if i == 6 { // Lion
					a.Coef = [8]T{0.1, 0.9, 0.1, 0.9, 0.1, 0.01, 1, T(math.Copysign(0, -1))}
				}
				b := a
				b.P, b.G, b.S, b.V = want[0], want[1], want[2], want[3]
				f(&a, 0, n)
				twins[i](&b, 0, n)
				for k := range got {
					for j, v := range got[k] {
						if math.Abs(float64(v-want[k][j])) > bound {
							t.Fatalf("rule %d at level %d: operand %d, element %d of %d is %g, want %g (seed %d)", i, level, k, j, n, v, want[k][j], seed)
						}
					}
				}
			}
		}
	}
}
