package cpu_test

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// A guardedPage is one between two that fault.
type guardedPage []byte

func newGuardedPage(t *testing.T) guardedPage {
	t.Helper()
	page := unix.Getpagesize()
	b, err := unix.Mmap(-1, 0, 3*page, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(b); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Mprotect(b[page:2*page], unix.PROT_READ|unix.PROT_WRITE); err != nil {
		t.Fatal(err)
	}
	return b[page : 2*page]
}

// elements returns n of them, at the end of the page or at its start.
func elements[T float32 | float64](f guardedPage, n int, atEnd bool) []T {
	var zero T
	size := int(unsafe.Sizeof(zero))
	if atEnd {
		return cpu.Elements[T](f)[len(f)/size-n:]
	}
	return cpu.Elements[T](f)[:n]
}

func TestVectorsTouchNothingBesideTheirOperands(t *testing.T) {
	dst, a, b := newGuardedPage(t), newGuardedPage(t), newGuardedPage(t)
	for _, x := range [][]float32{elements[float32](a, len(a)/4, false), elements[float32](b, len(b)/4, false)} {
		for i := range x {
			x[i] = 1.5
		}
	}
	unary, binary := elementwiseOps(t)
	for _, level := range cpu.Levels() {
		for _, atEnd := range []bool{false, true} {
			for n := range 141 {
				for _, op := range unary {
					cpu.Unary[float32](level, op, attrsFor(op))(elements[float32](dst, n, atEnd), elements[float32](a, n, atEnd))
					cpu.Unary[float64](level, op, attrsFor(op))(elements[float64](dst, n, atEnd), elements[float64](a, n, atEnd))
				}
				for _, op := range binary {
					cpu.Binary[float32](level, op, attrsFor(op))(elements[float32](dst, n, atEnd), elements[float32](a, n, atEnd), elements[float32](b, n, atEnd))
					cpu.Binary[float64](level, op, attrsFor(op))(elements[float64](dst, n, atEnd), elements[float64](a, n, atEnd), elements[float64](b, n, atEnd))
				}
			}
		}
	}
}

// The output before a fault names the op.
func TestRowsAndChainsTouchNothingBesideTheirOperands(t *testing.T) {
	r, _ := random(t)
	for _, level := range cpu.Levels() {
		d := open(t, cpu.Options{Threads: 1, Instructions: level})
		check := func(op *kernels.Op, c kernels.Case) {
			for _, upper := range []bool{false, true} {
				call, _ := operandsOf(t, d, op, c)
				m := fence(t, &call, upper)
				fillIn(r, c, call, m.b)
				run(t, d, call, m)
				if err := m.Free(); err != nil {
					t.Fatal(err)
				}
			}
		}
		for n := 1; n <= 140; n += 1 + n/40 {
			for i, c := range rowOps(3, n) {
				check(rowOpsNames[i], c)
			}
			spec := kernels.Spec{Type: floats[0], Shape: kernels.Shape{n}}
			check(kernels.Chain, kernels.Case{In: []kernels.Spec{spec, spec}, Attrs: &kernels.ChainAttrs{Steps: []kernels.Step{
				{Op: kernels.Tanh, A: 0, B: -1}, {Op: kernels.Mul, A: 1, B: 2}, {Op: kernels.Sub, A: 0, B: 3}, {Op: kernels.Div, A: 4, B: 2}}}})
			check(kernels.Decode, kernels.Case{In: []kernels.Spec{{Type: arena.Uint8, Shape: kernels.Shape{n}}}, Attrs: kernels.DecodeAttrs{To: floats[0], Scale: 2}})
		}
	}
}
