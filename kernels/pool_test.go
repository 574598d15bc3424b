package kernels_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// image is one channel of one image.
func image(h, w int, data ...float64) kernels.Tensor {
	return kernels.Tensor{Spec: kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{1, 1, h, w}}, Data: data}
}

var halves = kernels.PoolAttrs{Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}}

func TestTheFirstOfEqualPixelsWinsNaNWinsAndPaddingNever(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(-1)
	padded := kernels.PoolAttrs{Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}, Pad: [2]int{1, 1}, PadEnd: [2]int{1, 1}}
	for _, c := range []struct {
		name  string
		attrs kernels.PoolAttrs
		x     kernels.Tensor
		y     float64 // of the last window
		index float64
	}{
		{"equal", halves, image(2, 2, 3, 3, 3, 3), 3, 0},
		{"equal later", halves, image(2, 2, 1, 3, 3, 3), 3, 1},
		{"signed zeros", halves, image(2, 2, math.Copysign(0, -1), 0, 0, 0), 0, 0},
		{"NaN last", halves, image(2, 2, 9, 1, 2, nan), nan, 3},
		{"NaN first", halves, image(2, 2, nan, 9, nan, 9), nan, 0},
		{"infinities", halves, image(2, 2, inf, inf, inf, inf), inf, 0},
		{"padding", padded, image(2, 2, inf, inf, inf, -5), -5, 0},
		{"padding and infinity", padded, image(2, 2, 1, 1, 1, inf), inf, 0},
		{"rest left out", halves, image(3, 3, 1, 2, 9, 4, 3, 9, 9, 9, 9), 4, 2},
	} {
		out, err := kernels.Eval(kernels.MaxPool, c.attrs, []kernels.Tensor{c.x})
		if err != nil {
			t.Fatal(err)
		}
		last := len(out[0].Data) - 1
		if y := out[0].Data[last]; y != c.y && !(math.IsNaN(y) && math.IsNaN(c.y)) || out[1].Data[last] != c.index {
			t.Errorf("%s: got %v at %v, want %v at %v", c.name, y, out[1].Data[last], c.y, c.index)
		}
	}
}

func TestPaddingCountsInAMeanWhereAsked(t *testing.T) {
	a := kernels.PoolAttrs{Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}, Pad: [2]int{1, 1}, PadEnd: [2]int{1, 1}}
	for count, want := range map[bool][]float64{false: {4, 8, 12, 16}, true: {1, 2, 3, 4}} {
		a.CountPad = count
		y, err := kernels.Eval(kernels.AvgPool, a, []kernels.Tensor{image(2, 2, 4, 8, 12, 16)})
		if err != nil || !slices.Equal(y[0].Data, want) {
			t.Errorf("CountPad %v: got %v, %v, want %v", count, y, err, want)
		}
	}
}

// refusal is a call that cannot be, and what its error says.
type refusal struct {
	op    *kernels.Op
	attrs any
	in    []kernels.Spec
	class error
	want  string
}

func TestWhatCannotBePooledOrNormalizedIsNamed(t *testing.T) {
	f := func(dims ...int) kernels.Spec { return kernels.Spec{Type: arena.Float32, Shape: dims} }
	pool := func(kernel, stride, pad int) kernels.PoolAttrs {
		two := func(n int) [2]int { return [2]int{n, n} }
		return kernels.PoolAttrs{Kernel: two(kernel), Stride: two(stride), Pad: two(pad)}
	}
	norm := kernels.BatchNormAttrs{Eps: 1e-5}
	for _, c := range []refusal{
		{kernels.MaxPool, pool(5, 1, 1), []kernels.Spec{f(2, 3, 3, 3)}, kernels.ErrShape, "kernel [5 5] is larger than the padded image [4 4] of (2, 3, 3, 3)"},
		{kernels.AvgPool, pool(2, 0, 0), []kernels.Spec{f(2, 3, 4, 4)}, kernels.ErrAttrs, "stride [0 0] must be at least 1"},
		{kernels.MaxPool, pool(2, 2, 2), []kernels.Spec{f(2, 3, 4, 4)}, kernels.ErrAttrs, "less than the kernel [2 2]"},
		{kernels.MaxPool, pool(2, 2, -1), []kernels.Spec{f(2, 3, 4, 4)}, kernels.ErrAttrs, "at least 0"},
		{kernels.MaxPool, pool(2, 2, 0), []kernels.Spec{f(2, 3, 4)}, kernels.ErrShape, "not (2, 3, 4)"},
		{kernels.MaxPool, pool(2, 2, 1), []kernels.Spec{f(2, 3, 0, 4)}, kernels.ErrShape, "(2, 3, 0, 4) have no pixels"},
		{kernels.MaxPoolGrad, kernels.PoolGradAttrs{PoolAttrs: halves, Size: [2]int{4, 4}}, []kernels.Spec{{Type: arena.Uint8, Shape: kernels.Shape{1, 1, 3, 2}}, f(1, 1, 3, 2)},
			kernels.ErrShape, "must be (1, 1, 2, 2), not (1, 1, 3, 2)"},
		{kernels.MaxPoolGrad, kernels.PoolGradAttrs{PoolAttrs: halves, Size: [2]int{4, 4}}, []kernels.Spec{{Type: arena.Int32, Shape: kernels.Shape{1, 1, 2, 2}}, f(1, 1, 2, 2)},
			kernels.ErrShape, "index must be uint8 (1, 1, 2, 2), not int32"},
		{kernels.BatchNorm, norm, []kernels.Spec{f(1, 3), f(3), f(3)}, kernels.ErrShape, "(1, 3) has 1 elements a channel, whose variance needs at least 2"},
		{kernels.BatchNorm, norm, []kernels.Spec{f(4, 3), f(3), f(4)}, kernels.ErrShape, "operand 2 must be float32 (3) for x (4, 3), not float32 (4)"},
		{kernels.BatchNorm, norm, []kernels.Spec{f(4), f(3), f(3)}, kernels.ErrShape, "takes x [B, C, ...], not float32 (4)"},
		{kernels.BatchNorm, kernels.BatchNormAttrs{}, []kernels.Spec{f(4, 3), f(3), f(3)}, kernels.ErrAttrs, "eps 0 must be above 0"},
		{kernels.BatchNorm, kernels.BatchNormAttrs{Eps: 1e-40}, []kernels.Spec{f(4, 3), f(3), f(3)}, kernels.ErrAttrs,
			"eps 1e-40 must be between 1.18e-38 and 3.4e+38, the normal numbers of float32"},
		{kernels.LayerNorm, kernels.LayerNormAttrs{Eps: 1e39}, []kernels.Spec{f(4, 3), f(3), f(3)}, kernels.ErrAttrs, "eps 1e+39 must be between"},
		{kernels.GroupNorm, kernels.GroupNormAttrs{Groups: 1, Eps: 1e-40}, []kernels.Spec{f(4, 3), f(3), f(3)}, kernels.ErrAttrs, "eps 1e-40"},
		{kernels.BatchNorm, kernels.BatchNormAttrs{Eps: 1, Momentum: 2}, []kernels.Spec{f(4, 3), f(3), f(3)}, kernels.ErrAttrs, "momentum 2 must lie in [0, 1]"},
		{kernels.RunningStat, kernels.RunningStatAttrs{Factor: 0.5}, []kernels.Spec{f(3), f(3), kernels.GuardSpec}, kernels.ErrAttrs, "factor 0.5"},
		{kernels.GroupNorm, kernels.GroupNormAttrs{Groups: 4, Eps: 1}, []kernels.Spec{f(2, 6, 2), f(6), f(6)}, kernels.ErrShape, "4 groups do not divide the 6 channels of (2, 6, 2)"},
		{kernels.GroupNorm, kernels.GroupNormAttrs{Eps: 1}, []kernels.Spec{f(2, 6, 2), f(6), f(6)}, kernels.ErrAttrs, "0 groups"},
		{kernels.LayerNorm, kernels.LayerNormAttrs{Eps: 1}, []kernels.Spec{f(2, 6), f(6), f(2)}, kernels.ErrShape, "operand 2 must be float32 (6) for x (2, 6), not float32 (2)"},
		{kernels.LayerNorm, kernels.LayerNormAttrs{Eps: math.NaN()}, []kernels.Spec{f(2, 6), f(6), f(6)}, kernels.ErrAttrs, "eps NaN"},
		{kernels.Dropout, kernels.DropoutAttrs{Rate: 1}, []kernels.Spec{f(2), kernels.ControlsSpec}, kernels.ErrAttrs, "rate 1 must lie in [0, 1)"},
		{kernels.Scatter, kernels.ScatterAttrs{Rows: -1}, []kernels.Spec{{Type: arena.Int32, Shape: kernels.Shape{2}}, f(2, 3)}, kernels.ErrAttrs, "-1 rows"},
		{kernels.Scatter, kernels.ScatterAttrs{Rows: 4}, []kernels.Spec{{Type: arena.Int32, Shape: kernels.Shape{2}}, f(3, 3)}, kernels.ErrShape, "each of 2 indices, not float32 (3, 3)"},
	} {
		_, err := c.op.Infer(c.attrs, c.in)
		if !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %+v of %v: got %v, want %q of %v", c.op.Name, c.attrs, c.in, err, c.want, c.class)
		}
	}
}

func TestGatherAndScatterAreEachOthersGradients(t *testing.T) {
	g := &kernels.Eager{}
	data := g.Input(kernels.Tensor{Spec: kernels.Spec{Type: arena.Float64, Shape: kernels.Shape{3, 2}}, Data: []float64{1, 2, 3, 4, 5, 6}})
	index := g.Input(kernels.Tensor{Spec: kernels.Spec{Type: arena.Int32, Shape: kernels.Shape{4}}, Data: []float64{2, 0, 2, 7}})
	n := g.Node(kernels.Gather, nil, data, index)
	dy := g.Input(kernels.Tensor{Spec: g.Spec(n.Out[0]), Data: []float64{1, 2, 3, 4, 5, 6, 7, 8}})
	d := kernels.Gather.Grad(g, n, []kernels.Value{dy})
	if got, want := g.Tensor(d[0]).Data, []float64{3, 4, 0, 0, 6, 8}; !slices.Equal(got, want) || d[1] != kernels.None {
		t.Errorf("gather: got %v, want %v", got, want)
	}
	whole := g.Input(kernels.Tensor{Spec: kernels.Spec{Type: arena.Int32, Shape: kernels.Shape{3, 2}}, Data: make([]float64, 6)})
	if d := kernels.Gather.Grad(g, g.Node(kernels.Gather, nil, whole, index), []kernels.Value{dy}); d[0] != kernels.None {
		t.Error("rows of integers have a gradient")
	}
}
