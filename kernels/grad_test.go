package kernels_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/kerneltest"
)

// TestGradientsAgreeWithDifferences compares every gradient rule with central differences in
// float64, along random directions of each operand and along single elements, for the scalar Σ w·y
// with random weights w.
func TestGradientsAgreeWithDifferences(t *testing.T) {
	for _, op := range kernels.All() {
		if op.Grad == nil {
			continue
		}
		t.Run(op.Name, func(t *testing.T) {
			r := random(t)
			for range 80 {
				c := op.Cases(r, arena.Float64)
				checkGradient(t, r, op, c)
				if t.Failed() {
					return
				}
			}
		})
	}
}

func checkGradient(t *testing.T, r *rand.Rand, op *kernels.Op, c kernels.Case) {
	t.Helper()
	in := kerneltest.Fill(r, c)
	for k := range in { // gradients are of floats, even where the op moves any type
		if movesOnly(op, c) && !(op == kernels.Gather && k == 1) {
			in[k].Type = arena.Float64
		}
	}
	g := &kernels.Eager{}
	var v []kernels.Value
	for _, x := range in {
		v = append(v, g.Input(x))
	}
	n := g.Node(op, c.Attrs, v...)
	y := g.Tensor(n.Out[0])
	w := kernels.Tensor{Spec: y.Spec, Data: make([]float64, len(y.Data))}
	for i := range w.Data {
		w.Data[i] = r.NormFloat64()
	}
	if slices.ContainsFunc(y.Data, math.IsNaN) {
		return // a label that is no class: there is nothing to differentiate
	}
	if act := activation(c.Attrs); act == kernels.ReLU || act == kernels.LeakyReLU {
		if slices.ContainsFunc(y.Data, func(v float64) bool { return math.Abs(v) < 1e-3 }) {
			return // a difference might step over the kink at 0
		}
	}
	grads := op.Grad(g, n, []kernels.Value{g.Input(w)})
	if len(grads) != len(in) {
		t.Fatalf("%s: %d gradients of %d operands", op.Name, len(grads), len(in))
	}
	for k, d := range grads {
		if d == kernels.None {
			continue
		}
		if !g.Spec(d).Equal(in[k].Spec) {
			t.Fatalf("%s: gradient %d is %v, its operand %v (attributes %+v)", op.Name, k, g.Spec(d), in[k].Spec, c.Attrs)
		}
		checkDirections(t, r, op, c, in, k, g.Tensor(d), w)
	}
}

// activation returns what a product or a convolution ends with.
func activation(attrs any) *kernels.Op {
	switch a := attrs.(type) {
	case kernels.MatMulAttrs:
		return a.Act
	case kernels.ConvAttrs:
		return a.Act
	}
	return nil
}

// checkDirections compares gradient d of operand k with differences along a dense direction and two
// single elements.
func checkDirections(t *testing.T, r *rand.Rand, op *kernels.Op, c kernels.Case, in []kernels.Tensor, k int, d, w kernels.Tensor) {
	t.Helper()
	for try := range 3 {
		direction := make([]float64, len(d.Data))
		if try == 0 {
			for i := range direction {
				direction[i] = r.NormFloat64()
			}
		} else {
			direction[r.IntN(len(direction))] = 1
		}
		const h = 1e-5
		along := func(h float64) float64 {
			moved := slices.Clone(in)
			moved[k].Data = slices.Clone(in[k].Data)
			for i, e := range direction {
				moved[k].Data[i] += h * e
			}
			out, err := kernels.Eval(op, c.Attrs, moved)
			if err != nil {
				t.Fatal(err)
			}
			return dot(out[0].Data, w.Data)
		}
		got, want := dot(d.Data, direction), (along(h)-along(-h))/(2*h)
		// The difference errs by h² times a third derivative, and by rounding of the sums: 1e-16·size/h.
		size := 1 + norm(d.Data)*norm(direction) + norm(w.Data)
		if !(math.Abs(got-want) <= 1e-7*size) {
			t.Errorf("%s: gradient of operand %d along direction %d: got %v, want %v (attributes %+v, operands %v)",
				op.Name, k, try, got, want, c.Attrs, c.In)
			return
		}
	}
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func norm(a []float64) float64 { return math.Sqrt(dot(a, a)) }

func TestEqualMaximaShareTheGradient(t *testing.T) {
	g := &kernels.Eager{}
	x := g.Input(vector(arena.Float64, 3, 1, 3, 2))
	n := g.Node(kernels.Max, kernels.ReduceAttrs{}, x)
	d := kernels.Max.Grad(g, n, []kernels.Value{g.Input(kernels.Tensor{Spec: kernels.Spec{Type: arena.Float64}, Data: []float64{1}})})
	if got, want := g.Tensor(d[0]).Data, []float64{0.5, 0, 0.5, 0}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// vector is a tensor of one dimension.
func vector(float arena.DType, data ...float64) kernels.Tensor {
	return kernels.Tensor{Spec: kernels.Spec{Type: float, Shape: kernels.Shape{len(data)}}, Data: data}
}
