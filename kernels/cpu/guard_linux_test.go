package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// mapped is memory in which pages that may not be touched lie around every operand.
type mapped struct{ b []byte }

func (m mapped) Size() int64   { return int64(len(m.b)) }
func (m mapped) Bytes() []byte { return m.b }
func (m mapped) Free() error   { return unix.Munmap(m.b) }

// fence places the operands of call again: each between two pages that fault, against the upper one or the lower one.
func fence(t *testing.T, call *kernels.Call, upper bool) mapped {
	t.Helper()
	page := int64(unix.Getpagesize())
	type place struct{ from, to int64 }
	var places []place
	size := page
	next := func(bytes int64) arena.Ref {
		room := (bytes + page - 1) / page * page
		r := arena.Ref{Offset: size, Size: bytes}
		if upper {
			r.Offset += room - bytes
		}
		places = append(places, place{size, size + room})
		size += room + page
		return r
	}
	for k := range call.In {
		call.In[k].Ref = next(call.In[k].Bytes())
	}
	updates := call.Op.UpdatesFor(call.Attrs)
	for k := range call.Out {
		if k < len(updates) {
			call.Out[k].Ref = call.In[updates[k]].Ref
			continue
		}
		call.Out[k].Ref = next(call.Out[k].Bytes())
	}
	call.Work = next((call.Work.Size + 63) &^ 63)
	b, err := unix.Mmap(-1, 0, int(size), unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range places {
		if p.from == p.to {
			continue
		}
		if err := unix.Mprotect(b[p.from:p.to], unix.PROT_READ|unix.PROT_WRITE); err != nil {
			t.Fatal(err)
		}
	}
	return mapped{b}
}

// A kernel that touches a byte outside its operands and workspace ends the test binary with a fault; the output before
// it names the op.
func TestKernelsStayInsideTheirOperands(t *testing.T) {
	r, seed := random(t)
	d := open(t, cpu.Options{Threads: 2})
	for _, op := range kernels.All() {
		for i := range casesPerOp {
			c := op.Cases(r, floats[i%2])
			if refuses(t, d, op, c) {
				continue
			}
			call, _ := operandsOf(t, d, op, c)
			m := fence(t, &call, i/2%2 == 0)
			fillIn(r, c, call, m.b)
			func() {
				defer func() {
					if v := recover(); v != nil {
						panic(fmt.Sprintf("%s %v of %v, seed %d: %v", op.Name, c.Attrs, c.In, seed, v))
					}
				}()
				run(t, d, call, m)
			}()
			if err := m.Free(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// fillIn writes a case's values into the inputs of call.
func fillIn(r *rand.Rand, c kernels.Case, call kernels.Call, mem []byte) {
	for k, o := range call.In {
		v := make([]float64, o.Shape.Elems())
		switch {
		case c.Fill != nil:
			c.Fill(r, k, v)
		case o.Type.Float():
			for i := range v {
				v[i] = r.NormFloat64()
			}
		}
		kernels.Store(mem[o.Ref.Offset:][:o.Ref.Size], o.Type, v)
	}
}

func TestBadLabelsAndIndicesReadNothingOutside(t *testing.T) {
	r, _ := random(t)
	d := open(t, cpu.Options{Threads: 1})
	rows := func(t arena.DType) kernels.Spec { return kernels.Spec{Type: t, Shape: kernels.Shape{4}} }
	logits := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{4, 3}}
	for _, typ := range []arena.DType{arena.Int32, arena.Int64} {
		for _, c := range []struct {
			op    *kernels.Op
			attrs any
			in    []kernels.Spec
			index int
		}{
			{kernels.CrossEntropy, nil, []kernels.Spec{logits, rows(typ)}, 1},
			{kernels.CrossEntropyGrad, nil, []kernels.Spec{logits, rows(typ), rows(arena.Float32)}, 1},
			{kernels.Correct, nil, []kernels.Spec{logits, rows(typ)}, 1},
			{kernels.Gather, nil, []kernels.Spec{logits, rows(typ)}, 1},
		} {
			values := kernels.Case{Attrs: c.attrs, In: c.in, Fill: func(_ *rand.Rand, k int, v []float64) {
				if k == c.index {
					copy(v, []float64{-1, 3, 1 << 30, -1 << 31})
				}
			}}
			call, _ := operandsOf(t, d, c.op, values)
			m := fence(t, &call, true)
			fillIn(r, values, call, m.b)
			run(t, d, call, m)
			if err := m.Free(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
