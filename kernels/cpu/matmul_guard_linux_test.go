package cpu_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// guarded moves the operands to memory of their own, each between two pages that nobody may touch. It starts right
// behind the first or, with atEnd, ends right before the second.
func (o *operands) guarded(t *testing.T, atEnd bool) {
	t.Helper()
	const page = 4096
	all := append(append([]kernels.Operand{}, o.call.In...), o.call.Out[0], kernels.Operand{Ref: o.call.Work})
	total := page
	for _, x := range all {
		total += (int(x.Ref.Size)+page-1)/page*page + page
	}
	mem, err := unix.Mmap(-1, 0, total, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(mem) })
	base := make([]int64, len(all))
	at := page
	for i, x := range all {
		size := (int(x.Ref.Size) + page - 1) / page * page
		if size > 0 {
			if err := unix.Mprotect(mem[at:at+size], unix.PROT_READ|unix.PROT_WRITE); err != nil {
				t.Fatal(err)
			}
		}
		base[i] = int64(at)
		if atEnd {
			base[i] += int64(size) - x.Ref.Size
		}
		copy(mem[base[i]:], o.mem[o.base[i]:o.base[i]+x.Ref.Size])
		at += size + page
	}
	o.mem, o.base = mem, base
}

func TestMatMulStaysInsideItsOperands(t *testing.T) {
	r := newRand()
	for _, p := range products(r) {
		for _, atEnd := range []bool{false, true} {
			o := p.layOut(2)
			o.fill(r)
			want := p.run(t, o, 2)
			t.Run(p.String(), func(t *testing.T) {
				o.guarded(t, atEnd)
				got := p.run(t, o, 2)
				if string(got) != string(want) {
					t.Errorf("bits differ with other addresses (seed %d)", *matmulSeed)
				}
			})
		}
	}
}

func TestMatMulStaysInsideItsOperandsInAnyTile(t *testing.T) {
	r := newRand()
	for _, typ := range []arena.DType{arena.Float32, arena.Float64} {
		for _, v := range cpu.MatMulVariants(typ) {
			for m := 1; m <= 14; m++ {
				for n := 1; n <= 33; n++ {
					p := newProduct(v, typ, 0, m, 3, n, kernels.MatMulAttrs{TransA: n%2 == 0, TransB: m%2 == 0, Bias: true, Act: kernels.ReLU})
					o := p.layOut(1)
					o.fill(r)
					want := p.run(t, o, 1)
					t.Run(p.String(), func(t *testing.T) {
						o.guarded(t, true)
						if got := p.run(t, o, 1); string(got) != string(want) {
							t.Errorf("bits differ with other addresses (seed %d)", *matmulSeed)
						}
					})
				}
			}
		}
	}
}

func TestSomeRowsOfAMatMulStayInsideItsOperands(t *testing.T) {
	r := newRand()
	for _, p := range products(r) {
		if p.m == 0 {
			continue
		}
		first := r.IntN(p.m)
		p.attrs.Rows = [2]int{first, first + 1 + r.IntN(p.m-first)}
		for _, atEnd := range []bool{false, true} {
			o := p.layOut(2)
			o.fill(r)
			want := p.run(t, o, 2)
			t.Run(p.String(), func(t *testing.T) {
				o.guarded(t, atEnd)
				if got := p.run(t, o, 2); string(got) != string(want) {
					t.Errorf("rows %v: bits differ with other addresses (seed %d)", p.attrs.Rows, *matmulSeed)
				}
			})
		}
	}
}
