package cpu_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// attrsFor are attributes of an elementwise op.
func attrsFor(op *kernels.Op) any {
	switch op {
	case kernels.LeakyRelu, kernels.LeakyReluGrad:
		return kernels.LeakyReluAttrs{Slope: 0.1}
	case kernels.Affine:
		return kernels.AffineAttrs{Scale: 0.7, Shift: -0.3}
	}
	return nil
}

// elementwiseOps lists the ops that have a tile function, by their operands.
func elementwiseOps(t *testing.T) (unary, binary []*kernels.Op) {
	t.Helper()
	for _, op := range kernels.All() {
		if op.Elem == nil || op == kernels.Decode {
			continue
		}
		if len(op.Cases(rand.New(rand.NewPCG(1, 1)), 0+floats[0]).In) == 1 {
			unary = append(unary, op)
		} else {
			binary = append(binary, op)
		}
	}
	if len(unary) < 20 || len(binary) < 15 {
		t.Fatalf("found %d and %d ops", len(unary), len(binary))
	}
	return unary, binary
}

// sample32 is float32 of every exponent and both signs, some of each, and the special ones.
func sample32(r *rand.Rand, each int) []float32 {
	x := []float32{0, float32(math.Copysign(0, -1)), 1, -1, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
		math.MaxFloat32, -math.MaxFloat32, 0x1p-126, -0x1p-126, 88.72283, 88.72284, 88.8, -87.33654, -87.33655, -104, 0.5, -0.5}
	for e := range uint32(256) {
		for range each {
			x = append(x, math.Float32frombits(r.Uint32()<<31|e<<23|r.Uint32()&(1<<23-1)))
		}
	}
	return x
}

// sameFloat reports whether two results are the same bits, or both NaN.
func sameFloat(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b
}

func TestEveryWidthOfVectorsGivesTheSameBits(t *testing.T) {
	if len(cpu.Levels()) < 3 {
		t.Skip("needs a processor with AVX-512")
	}
	r, seed := random(t)
	unary, binary := elementwiseOps(t)
	x := sample32(r, 400)
	y := append([]float32(nil), x...)
	r.Shuffle(len(y), func(i, j int) { y[i], y[j] = y[j], y[i] })
	for _, op := range unary {
		testWidths(t, op, seed, x, x, func(i cpu.Instructions, dst, a, _ []float32) { cpu.Unary[float32](i, op, attrsFor(op))(dst, a) })
		testWidths(t, op, seed, wide(x), wide(x), func(i cpu.Instructions, dst, a, _ []float64) { cpu.Unary[float64](i, op, attrsFor(op))(dst, a) })
	}
	for _, op := range binary {
		testWidths(t, op, seed, x, y, func(i cpu.Instructions, dst, a, b []float32) { cpu.Binary[float32](i, op, attrsFor(op))(dst, a, b) })
		testWidths(t, op, seed, wide(x), wide(y), func(i cpu.Instructions, dst, a, b []float64) {
			cpu.Binary[float64](i, op, attrsFor(op))(dst, a, b)
		})
	}
}

// wide is x in float64.
func wide(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// testWidths runs f with AVX2 and with AVX-512, at once and one element at a time.
func testWidths[T float32 | float64](t *testing.T, op *kernels.Op, seed any, x, y []T, f func(i cpu.Instructions, dst, a, b []T)) {
	t.Helper()
	want, got := make([]T, len(x)), make([]T, len(x))
	f(cpu.AVX2, want, x, y)
	f(cpu.AVX512, got, x, y)
	for i := range x {
		var one [1]T
		f([]cpu.Instructions{cpu.AVX2, cpu.AVX512}[i&1], one[:], x[i:i+1], y[i:i+1])
		if w := float64(want[i]); !sameFloat(float64(got[i]), w) || !sameFloat(float64(one[0]), w) {
			t.Errorf("%s(%g, %g) of %T: %g with AVX-512, %g with AVX2, %g alone (seed %v)", op.Name, x[i], y[i], x[i], got[i], want[i], one[0], seed)
			return
		}
	}
}

// tails are lengths around every step of the loops, on one element past the end nobody writes.
func TestVectorsWriteTheirElementsAndNoOthers(t *testing.T) {
	r, seed := random(t)
	unary, binary := elementwiseOps(t)
	const most, mark = 200, 12345
	x, y := make([]float32, most), make([]float32, most)
	for i := range x {
		x[i], y[i] = r.Float32()*4+0.1, r.Float32()*4-2
	}
	for _, level := range cpu.Levels() {
		for _, op := range append(unary, binary...) {
			f := func(dst, a, b []float32) { cpu.Unary[float32](level, op, attrsFor(op))(dst, a) }
			if cpu.Unary[float32](level, op, attrsFor(op)) == nil {
				f = cpu.Binary[float32](level, op, attrsFor(op))
			}
			whole := make([]float32, most)
			f(whole, x, y)
			for n := range 141 {
				dst := make([]float32, n+1)
				dst[n] = mark
				f(dst[:n], x[:n], y[:n])
				if dst[n] != mark {
					t.Fatalf("%s at %v wrote behind %d elements", op.Name, level, n)
				}
				for i, v := range dst[:n] {
					if !sameFloat(float64(v), float64(whole[i])) {
						t.Fatalf("%s at %v: element %d of %d is %g, of %d it was %g (seed %v)", op.Name, level, i, n, v, most, whole[i], seed)
					}
				}
			}
			a := append([]float32(nil), x...)
			if f(a, a, y); len(a) > 0 && a[0] != whole[0] || a[most-1] != whole[most-1] {
				t.Errorf("%s at %v: other values in place", op.Name, level)
			}
		}
	}
}

func TestEveryElementwiseOpOfFloat32IsAssembled(t *testing.T) {
	unary, binary := elementwiseOps(t)
	for _, level := range cpu.Levels()[1:] {
		for _, op := range append(unary, binary...) {
			if !cpu.Assembled[float32](level, op) {
				t.Errorf("%s has no function at %v", op.Name, level)
			}
		}
	}
}

func TestDecodingIsTheSameBitsAtEveryLevel(t *testing.T) {
	r, seed := random(t)
	for _, typ := range []arena.DType{arena.Uint8, arena.Int32, arena.Int64, arena.Float32, arena.Float64} {
		for _, n := range []int{1, 7, 8, 9, 31, 1000, 20_001} {
			in := []kernels.Spec{{Type: typ, Shape: kernels.Shape{n}}}
			data, v := make([]byte, in[0].Bytes()), make([]float64, n)
			for i := range v {
				v[i] = float64(r.IntN(256))
			}
			kernels.Store(data, typ, v)
			attrs := kernels.DecodeAttrs{To: arena.Float32, Scale: r.Float64() / 255, Shift: -r.Float64()}
			var want []byte
			for _, level := range cpu.Levels() {
				_, got := eval(t, open(t, cpu.Options{Threads: 1, Instructions: level}), kernels.Decode, attrs, in, [][]byte{data})
				if want == nil {
					want = got
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%d of %v with %+v: other bits at %v than portable (seed %v)", n, typ, attrs, level, seed)
				}
			}
		}
	}
}
