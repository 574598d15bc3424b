package asmtest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// AttrsFor are attributes of an elementwise op.
func AttrsFor(op *kernels.Op) any {
	switch op {
	case kernels.LeakyReLU, kernels.LeakyReLUGrad:
		return kernels.LeakyReLUAttrs{Slope: 0.1}
	case kernels.Affine:
		return kernels.AffineAttrs{Scale: 0.7, Shift: -0.3}
	}
	return nil
}

// ElementwiseOps lists the ops that have a tile function, by their operands.
func ElementwiseOps(t *testing.T) (unary, binary []*kernels.Op) {
	t.Helper()
	for _, op := range kernels.All() {
		if op.Elem == nil || op == kernels.Decode {
			continue
		}
		if len(op.Cases(rand.New(rand.NewPCG(1, 1)), arena.Float32).In) == 1 {
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

// Sample32 is float32 of every exponent and both signs, some of each, and the special ones.
func Sample32(r *rand.Rand, each int) []float32 {
	x := []float32{0, float32(math.Copysign(0, -1)), 1, -1, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
		math.MaxFloat32, -math.MaxFloat32, 0x1p-126, -0x1p-126, 88.72283, 88.72284, 88.8, -87.33654, -87.33655, -104, 0.5, -0.5}
	for e := range uint32(256) {
		for range each {
			x = append(x, math.Float32frombits(r.Uint32()<<31|e<<23|r.Uint32()&(1<<23-1)))
		}
	}
	return x
}

// SameFloat reports whether two results are the same bits, or both NaN.
func SameFloat(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b
}
