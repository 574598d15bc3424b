package cpu_test

import (
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// FuzzMatmul compares products of any shape, at every level of instructions, with sums in float64.
func FuzzMatmul(f *testing.F) {
	f.Add(uint8(0), uint8(14), uint16(9), uint8(32), uint8(7), uint8(1), uint64(1))
	f.Add(uint8(3), uint8(1), uint16(700), uint8(1), uint8(2), uint8(3), uint64(2))
	f.Add(uint8(0), uint8(1), uint16(33), uint8(255), uint8(4), uint8(1), uint64(3))
	f.Add(uint8(0), uint8(29), uint16(0), uint8(10), uint8(12), uint8(4), uint64(4))
	f.Fuzz(func(t *testing.T, batch, m uint8, k uint16, n, bits, act uint8, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		typ := arena.Float32
		if bits&8 != 0 {
			typ = arena.Float64
		}
		a := activations[int(act)%len(activations)]
		attrs := kernels.MatMulAttrs{TransA: bits&1 != 0, TransB: bits&2 != 0, Bias: bits&4 != 0, Act: a.op, ActAttrs: a.attrs}
		for _, v := range cpu.MatMulVariants(typ) {
			p := newProduct(v, typ, int(batch%4), int(m), int(k%1024), int(n), attrs)
			threads := 1 + r.IntN(3)
			o := p.layOut(threads)
			o.fill(r)
			p.run(t, o, threads)
			p.check(t, o)
		}
	})
}
