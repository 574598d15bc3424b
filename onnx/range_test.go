package onnx_test

import (
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/onnx/internal/proto"
)

// Asinh and Acosh have the range of float32, whose largest number is 3.4e38.
func TestAsinhAndAcoshOfLargeAndSmallNumbers(t *testing.T) {
	const most = math.MaxFloat32
	for op, c := range map[string]struct {
		f func(float64) float64
		x []float32
	}{
		"Asinh": {math.Asinh, []float32{0, 1e-30, -1e-20, 0.5, -3, 1e8, -3e9, 1e15, 1e20, -1e30, 1e38, 1.8e38, -most, most, inf, -inf, nan}},
		"Acosh": {math.Acosh, []float32{1, 2, 1e8, 3e9, 1e15, 1e20, 1e38, 1.8e38, most, inf, 0.5, -5, -most, nan}},
	} {
		g := graph{inputs: []proto.ValueInfo{input("x", 0, int64(len(c.x)))}, outputs: []string{"y"}, nodes: []proto.Node{node(op, []string{"x"}, "y")}}
		for i, y := range predicted(t, g, 1, c.x) {
			want := c.f(float64(c.x[i]))
			if !same([]float32{y}, []float32{float32(want)}) && !(math.Abs(float64(y)-want) <= 1e-6*math.Abs(want)) {
				t.Errorf("%s(%g) is %g, must be %g", op, c.x[i], y, want)
			}
		}
	}
}
