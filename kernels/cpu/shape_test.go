package cpu_test

import (
	"encoding/binary"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// numbered is an operand whose elements tell where they lie.
func numbered(t arena.DType, n int) []byte {
	size := int(t.Size())
	b := make([]byte, n*size+8)
	for i := range n {
		binary.LittleEndian.PutUint64(b[i*size:], uint64(i)*0x9e3779b97f4a7c15>>7)
	}
	return b[:n*size]
}

// transposed moves the elements of x, of so many bytes, one by one.
func transposed(x []byte, size int, s kernels.Shape, perm []int) []byte {
	y := make([]byte, 0, len(x))
	at := make([]int, len(s)) // in x
	for range s.Elems() {
		k := 0
		for i, d := range s {
			k = k*d + at[i]
		}
		y = append(y, x[k*size:][:size]...)
		for j := len(perm) - 1; j >= 0; j-- {
			if at[perm[j]]++; at[perm[j]] < s[perm[j]] {
				break
			}
			at[perm[j]] = 0
		}
	}
	return y
}

func TestTransposesMoveEveryElement(t *testing.T) {
	r, seed := random(t)
	devices := levels(t, 2)
	shapes := []kernels.Shape{{8, 8}, {4, 1030}, {1100, 9}, {33, 65}, {2100, 40}}
	for range 150 {
		s := kernels.Shape{}
		for range 2 + r.IntN(3) {
			s = append(s, 1+r.IntN(40))
		}
		shapes = append(shapes, s)
	}
	types := []arena.DType{arena.Uint8, arena.Float32, arena.Float64}
	for i, s := range shapes {
		typ, perm := types[i%3], r.Perm(len(s))
		if len(s) == 2 {
			perm = []int{1, 0}
		}
		x := numbered(typ, s.Elems())
		want := transposed(x, int(typ.Size()), s, perm)
		for _, d := range devices {
			_, got := eval(t, d, kernels.Transpose, kernels.TransposeAttrs{Perm: perm}, []kernels.Spec{{Type: typ, Shape: s}}, [][]byte{x})
			if string(got) != string(want) {
				t.Fatalf("%v of %v by %v: elements in wrong places (seed %d)", typ, s, perm, seed)
			}
		}
	}
}
