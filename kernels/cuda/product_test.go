package cuda

import (
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

func TestPartialSumsFitTheirWorkspace(t *testing.T) {
	for seed := range uint64(20000) {
		r := rand.New(rand.NewPCG(seed, 2))
		m, n, k, batch := 1+r.IntN(1<<r.IntN(12)), 1+r.IntN(1<<r.IntN(12)), r.IntN(1<<r.IntN(18)), 1+r.IntN(4)
		p := gpu(1 + r.IntN(150))
		plan := planProduct(p, m, n, k, batch)
		bytes := partialBytes(p, arena.Float32, m, n, k, batch)
		if want := int64(plan.splits) * int64(m*n*batch) * 4; plan.splits > 1 && want > bytes {
			t.Fatalf("seed %d: %d×%d×%d×%d in %+v needs %d bytes, has %d", seed, batch, m, n, k, plan, want, bytes)
		}
		if plan.splits < 1 || plan.splits*plan.perSplit < k || plan.splits > 1 && ((plan.splits-1)*plan.perSplit >= k || plan.perSplit%stepsAtOnce != 0) {
			t.Fatalf("seed %d: %+v does not cover %d steps", seed, plan, k)
		}
		if less := partialBytes(p, arena.Float32, r.IntN(m+1), r.IntN(n+1), r.IntN(k+1), r.IntN(batch+1)); less > bytes {
			t.Fatalf("seed %d: less than %d×%d×%d×%d needs %d bytes, more than %d", seed, batch, m, n, k, less, bytes)
		}
	}
}

// Some rows of a product have the bits that they have in the whole, so its sums must be split where
// the whole's are.
func TestRowsOfAProductAreSplitAsTheWhole(t *testing.T) {
	p := gpu(80)
	in := []kernels.Spec{{Type: arena.Float32, Shape: kernels.Shape{2000, 300}}, {Type: arena.Float32, Shape: kernels.Shape{2000, 40}}}
	var splits [2]int
	for i, rows := range [][2]int{{}, {100, 130}} {
		call, size := callOf(t, p, kernels.MatMul, kernels.MatMulAttrs{TransA: true, Rows: rows}, in)
		steps, err := bindAt(p, []kernels.Call{call}, 1<<20, size, []int64{0})
		if err != nil {
			t.Fatal(err)
		}
		splits[i] = steps[0].grid.z
	}
	if splits[0] != splits[1] || splits[0] < 2 {
		t.Errorf("the whole is split into %d, rows of it into %d", splits[0], splits[1])
	}
}
