package cpu_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// gathering binds Gather of a table of float32 at indices that lie behind it, to a place behind those.
func gathering(t testing.TB, dev *cpu.Device, m arena.Memory, rows, size, batch int, index int64) kernels.Program {
	t.Helper()
	spec := func(t arena.DType, shape ...int) kernels.Spec { return kernels.Spec{Type: t, Shape: shape} }
	table, out := int64(rows*size*4), int64(batch*size*4)
	call := kernels.Call{Op: kernels.Gather, Label: "x",
		In: []kernels.Operand{{Spec: spec(arena.Float32, rows, size), Ref: arena.Ref{Size: table}},
			{Spec: spec(arena.Int32, batch), Ref: arena.Ref{Offset: index, Size: int64(batch) * 4}}},
		Out: []kernels.Operand{{Spec: spec(arena.Float32, batch, size), Ref: arena.Ref{Offset: m.Size() - out, Size: out}}}}
	p, err := dev.Bind([]kernels.Call{call}, kernels.Binding{Memory: m, Base: []int64{0}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRowsOfALargeTableAreGathered has rows before the first, behind the last, and twice the same among them.
func TestRowsOfALargeTableAreGathered(t *testing.T) {
	r, _ := random(t)
	for _, size := range []int{1, 7, 784, 3000} {
		const batch = 300
		rows := 3<<20/(4*size) + 1
		dev := open(t, cpu.Options{Threads: 2})
		at := arena.Round(int64(rows * size * 4))
		m, err := dev.Alloc(at + arena.Round(batch*4) + int64(batch*size*4))
		if err != nil {
			t.Fatal(err)
		}
		b := m.Bytes()
		for i := range at {
			b[i] = byte(r.Uint32())
		}
		index := make([]int, batch)
		for i := range index {
			index[i] = r.IntN(rows+2) - 1
			binary.NativeEndian.PutUint32(b[at+4*int64(i):], uint32(index[i]))
		}
		out := b[m.Size()-int64(batch*size*4):]
		out[0] = 1 // a row that is not in the table is cleared
		s, err := dev.NewStream("test")
		if err != nil {
			t.Fatal(err)
		}
		if err := gathering(t, dev, m, rows, size, batch, at).Launch(s); err != nil {
			t.Fatal(err)
		}
		for i, k := range index {
			want := make([]byte, 4*size)
			if k >= 0 && k < rows {
				copy(want, b[4*size*k:])
			}
			if got := out[4*size*i : 4*size*(i+1)]; !bytes.Equal(got, want) {
				t.Fatalf("rows of %d: row %d, index %d of %d, is not that row", size, i, k, rows)
			}
		}
	}
}

// BenchmarkGather takes 128 rows of a table in memory and of one in the cache, others each time.
func BenchmarkGather(b *testing.B) {
	const batch, size, programs = 128, 784, 256
	for _, rows := range []int{256, 60000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			dev := open(b, cpu.Options{Threads: 2})
			table, index, out := int64(rows*size*4), arena.Round(batch*4), int64(batch*size*4)
			m, err := dev.Alloc(table + programs*index + out)
			if err != nil {
				b.Fatal(err)
			}
			defer m.Free()
			r := rand.New(rand.NewPCG(1, 2))
			var launch []kernels.Program
			for p := range int64(programs) {
				at := table + p*index
				for i := range int64(batch) {
					binary.NativeEndian.PutUint32(m.Bytes()[at+4*i:], uint32(r.IntN(rows)))
				}
				launch = append(launch, gathering(b, dev, m, rows, size, batch, at))
			}
			s, err := dev.NewStream("bench")
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(batch * size * 4)
			for i := 0; b.Loop(); i++ {
				if err := launch[i%programs].Launch(s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
