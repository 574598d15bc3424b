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

// rowOps are the operations on rows of n, with the specs of their operands.
func rowOps(rows, n int) []kernels.Case {
	f := func(s ...int) kernels.Spec { return kernels.Spec{Type: arena.Float32, Shape: s} }
	label := kernels.Spec{Type: arena.Int32, Shape: kernels.Shape{rows}}
	axis := kernels.SoftmaxAttrs{Axis: 1}
	x, r := f(rows, n), f(rows)
	return []kernels.Case{{Attrs: axis, In: []kernels.Spec{x}}, {Attrs: axis, In: []kernels.Spec{x}},
		{Attrs: axis, In: []kernels.Spec{x, x}}, {Attrs: axis, In: []kernels.Spec{x, x}},
		{In: []kernels.Spec{x, label}}, {In: []kernels.Spec{x, label, r}}, {In: []kernels.Spec{x, x}}, {In: []kernels.Spec{x, x, r}}}
}

var rowOpsNames = []*kernels.Op{kernels.Softmax, kernels.LogSoftmax, kernels.SoftmaxGrad, kernels.LogSoftmaxGrad,
	kernels.CrossEntropy, kernels.CrossEntropyGrad, kernels.CrossEntropyDense, kernels.CrossEntropyDenseGrad}

// rowData fills operands: logits of the given spread, labels of which the last is none.
func rowData(r *rand.Rand, in []kernels.Spec, spread float64) [][]byte {
	var data [][]byte
	for k, s := range in {
		b, v := make([]byte, s.Bytes()), make([]float64, s.Shape.Elems())
		for i := range v {
			switch {
			case s.Type == arena.Int32:
				v[i] = float64(r.IntN(in[0].Shape[1]))
			case k == 0:
				v[i] = spread * r.NormFloat64()
			default:
				v[i] = r.Float64()
			}
		}
		if s.Type == arena.Int32 {
			v[len(v)-1] = []float64{-1, float64(in[0].Shape[1])}[r.IntN(2)]
		}
		kernels.Store(b, s.Type, v)
		data = append(data, b)
	}
	return data
}

func TestRowsAreTheSameBitsInEveryWidthAndNearTheirMeaning(t *testing.T) {
	r, seed := random(t)
	levels := cpu.Levels()
	devices := make([]*cpu.Device, len(levels))
	for i, l := range levels {
		devices[i] = open(t, cpu.Options{Threads: 1, Instructions: l})
	}
	lengths := []int{100, 128, 1000, 4099}
	for n := 1; n <= 70; n++ {
		lengths = append(lengths, n)
	}
	for _, n := range lengths {
		for i, c := range rowOps(5, n) {
			op := rowOpsNames[i]
			spread := []float64{1, 0.01, 20}[n%3]
			switch op { // of which operand 0 is a result
			case kernels.SoftmaxGrad:
				spread = 0.01 // of the size of probabilities
			case kernels.LogSoftmaxGrad:
				spread = 1 // of their logarithms: what is far above 0 would overflow
			}
			data := rowData(r, c.In, spread)
			var first []byte
			for l, d := range devices {
				spec, got := eval(t, d, op, c.Attrs, c.In, data)
				if levels[l] == cpu.AVX2 {
					first = got
				} else if levels[l] == cpu.AVX512 && !bytes.Equal(got, first) {
					t.Errorf("%s of rows of %d: other bits with AVX-512 than with AVX2 (seed %v)", op.Name, n, seed)
				}
				checkRows(t, op, c, spec, data, got, levels[l])
			}
		}
	}
}

// checkRows compares a result with its reference in float64. The tolerance is for some roundings of results of size 1, and
// of a sum of n numbers of one sign in 16 float32: each addition may err by half an ulp of a sum.
func checkRows(t *testing.T, op *kernels.Op, c kernels.Case, spec kernels.Spec, data [][]byte, got []byte, level cpu.Instructions) {
	t.Helper()
	var in []kernels.Tensor
	for k, s := range c.In {
		v := make([]float64, s.Shape.Elems())
		kernels.Load(v, s.Type, data[k])
		in = append(in, kernels.Tensor{Spec: s, Data: v})
	}
	want, y := kernels.Tensor{Spec: spec, Data: make([]float64, spec.Shape.Elems())}, make([]float64, spec.Shape.Elems())
	op.Ref(c.Attrs, in, []kernels.Tensor{want})
	kernels.Load(y, spec.Type, got)
	tolerance := 1e-5 + 6e-8*float64(c.In[0].Shape[1])
	for i, w := range want.Data {
		if d := math.Abs(y[i] - w); !(d <= tolerance*max(1, math.Abs(w))) && !(y[i] != y[i] && w != w) {
			t.Errorf("%s of rows of %d at %v: element %d is %g, want %g", op.Name, c.In[0].Shape[1], level, i, y[i], w)
			return
		}
	}
}

func TestSmallLossesKeepTheirDigits(t *testing.T) {
	for _, level := range cpu.Levels() {
		d := open(t, cpu.Options{Threads: 1, Instructions: level})
		in := []kernels.Spec{{Type: arena.Float32, Shape: kernels.Shape{1, 3}}, {Type: arena.Int32, Shape: kernels.Shape{1}}}
		x, label, y := make([]byte, 12), make([]byte, 4), []float64{0}
		kernels.Store(x, arena.Float32, []float64{0, 30, 1})
		kernels.Store(label, arena.Int32, []float64{1})
		_, got := eval(t, d, kernels.CrossEntropy, nil, in, [][]byte{x, label})
		kernels.Load(y, arena.Float32, got)
		// exp(-30) + exp(-29), as 1+z no longer differs from 1 in float32.
		if want := math.Log1p(math.Exp(-30) + math.Exp(-29)); math.Abs(y[0]-want) > 4e-7*want {
			t.Errorf("at %v: loss %g, want %g", level, y[0], want)
		}
	}
}

func TestNaNInARowStaysInTheRow(t *testing.T) {
	for _, level := range cpu.Levels() {
		d := open(t, cpu.Options{Threads: 1, Instructions: level})
		for _, n := range []int{3, 16, 40} {
			for i, c := range rowOps(3, n)[:6] {
				data := rowData(rand.New(rand.NewPCG(1, 2)), c.In, 1)
				if c.In[len(c.In)-1].Type == arena.Int32 || len(c.In) == 3 {
					kernels.Store(data[1], arena.Int32, []float64{0, 1, 2})
				}
				v := make([]float64, 3*n)
				kernels.Load(v, arena.Float32, data[0])
				v[n+n/2] = math.NaN()
				kernels.Store(data[0], arena.Float32, v)
				spec, got := eval(t, d, rowOpsNames[i], c.Attrs, c.In, data)
				y := make([]float64, spec.Shape.Elems())
				kernels.Load(y, arena.Float32, got)
				per := len(y) / 3
				for j, v := range y {
					if nan := v != v; nan != (j/per == 1) && (nan || i != 3) { // the gradient of log softmax uses each y for itself
						t.Errorf("%s of rows of %d at %v: element %d is %g", rowOpsNames[i].Name, n, level, j, v)
						break
					}
				}
			}
		}
	}
}
