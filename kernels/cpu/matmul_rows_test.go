package cpu_test

import (
	"bytes"
	"testing"
)

func TestSomeRowsOfAMatMulHaveTheBitsOfTheWhole(t *testing.T) {
	r := newRand()
	for _, p := range products(r) {
		if p.m == 0 {
			continue
		}
		o := p.layOut(2)
		o.fill(r)
		whole := p.run(t, o, 2)
		limit, _ := p.workspace(2)
		matrices := max(1, p.batch)
		size := len(whole) / matrices // of a matrix
		for range 3 {
			part, first := p, r.IntN(p.m)
			part.attrs.Rows = [2]int{first, first + 1 + r.IntN(p.m-first)}
			x := part.layOut(2)
			x.fill(r)
			for k := range o.call.In {
				copy(x.bytes(x.call.In[k]), o.bytes(o.call.In[k]))
			}
			var want []byte
			for i := range matrices {
				row := size / p.m
				want = append(want, whole[i*size+part.attrs.Rows[0]*row:i*size+part.attrs.Rows[1]*row]...)
			}
			if got := part.run(t, x, 2); !bytes.Equal(got, want) {
				t.Fatalf("%v: rows %v differ from those of the whole (seed %d)", p, part.attrs.Rows, *matmulSeed)
			}
			if got, need := part.workspace(2); got > limit || need > got {
				t.Fatalf("%v: rows %v use %d bytes of a workspace of %d, the whole has %d (seed %d)", p, part.attrs.Rows, need, got, limit, *matmulSeed)
			}
		}
	}
}
