package kernels_test

import (
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// TestTheFirstUpdateOfAdam8 is done by hand: gradients 1 and -0.5 in one block, 2 in the next.
func TestTheFirstUpdateOfAdam8(t *testing.T) {
	n := kernels.Block8 + 1
	p := kernels.Spec{Type: arena.Float64, Shape: kernels.Shape{n}}
	grad := make([]float64, n)
	grad[0], grad[1], grad[n-1] = 1, -0.5, 2
	in := []kernels.Tensor{{Spec: p, Data: make([]float64, n)}, {Spec: p, Data: grad}, vector(arena.Int32, 0, 0, 0, 0), vector(arena.Float64, 0.1, 1, 0.1, 0.001, 0, 0, 0, 0, 0, 0)}
	for _, s := range kernels.Adam8States(p) {
		in = append(in, kernels.Tensor{Spec: s.Spec, Data: make([]float64, s.Shape.Elems())})
	}
	attrs := kernels.Adam8Attrs{AdamAttrs: kernels.AdamAttrs{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}}
	out, err := kernels.Eval(kernels.Adam8, attrs, in)
	if err != nil {
		t.Fatal(err)
	}
	// Each step is the rate, whatever the gradient. Roots are powers of two of the largest, so that
	// their codes are exact: 8 codes for each. A root of 0 has code 0.
	root := math.Sqrt(0.001)
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"parameter 0", out[0].Data[0], -0.1}, {"parameter 1", out[0].Data[1], 0.1}, {"parameter 2", out[0].Data[2], 0}, {"last parameter", out[0].Data[n-1], -0.1},
		{"root 0", out[2].Data[0], 255}, {"root 1", out[2].Data[1], 255 - 8}, {"root 2", out[2].Data[2], 0}, {"last root", out[2].Data[n-1], 255},
		{"largest root", out[3].Data[0], root}, {"next root", out[3].Data[1], 2 * root}, {"mean 2", out[1].Data[2], 0},
	} {
		if !near(c.got, c.want, 2e-8) { // the epsilon
			t.Errorf("%s is %v, want %v", c.what, c.got, c.want)
		}
	}
	// A mean is a share of its root's unit, and so has the same code up to its sign and the dither.
	share := 0.1 / root / numeric.MeanSpan(0.9, 0.999)
	for i, sign := range map[int]float64{0: 1, 1: -1, n - 1: 1} {
		if got := sign * float64(numeric.DecodeMean(int8(uint8(out[1].Data[i])))); !near(got, share, share/16) {
			t.Errorf("mean %d has a code of %v, want a neighbour of %v", i, got, share)
		}
	}
}

func TestABlockOfAdam8ThatDecaysEndsInZeros(t *testing.T) {
	p := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{2}}
	in := []kernels.Tensor{{Spec: p, Data: []float64{1, 1}}, {Spec: p, Data: []float64{0, 0}}, vector(arena.Int32, 0, 0, 0, 0), vector(arena.Float64, 0.1, 1, 0.1, 0.001, 0, 0, 0, 0, 0, 0)}
	for i, s := range kernels.Adam8States(p) {
		in = append(in, kernels.Tensor{Spec: s.Spec, Data: [][]float64{{127, 1}, {255, 1}, {numeric.Least8}}[i]})
	}
	out, err := kernels.Eval(kernels.Adam8, kernels.Adam8Attrs{AdamAttrs: kernels.AdamAttrs{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}}, in)
	if err != nil {
		t.Fatal(err)
	}
	for k, x := range out[1:] {
		for _, v := range x.Data {
			if v != 0 {
				t.Errorf("state %d of a block below the least is %v, want zeros", k, x.Data)
			}
		}
	}
}
