package cpu_test

import (
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// A timed is one call that is timed.
type timed struct {
	name  string
	op    *kernels.Op
	attrs any
	in    []kernels.Spec
}

var (
	labels   = kernels.Spec{Type: arena.Int32, Shape: kernels.Shape{128}}
	controls = kernels.Spec{Type: arena.Float64, Shape: kernels.Shape{kernels.Controls}}
)

// timedOps are the ops of a training step of a 784-512-256-10 network at batch 128, and some beside.
func timedOps() []timed {
	f := func(shape ...int) kernels.Spec { return kernels.Spec{Type: arena.Float32, Shape: shape} }
	half := func(t arena.DType) kernels.Spec { return kernels.Spec{Type: t, Shape: kernels.Shape{128, 512}} }
	pixels := kernels.Spec{Type: arena.Uint8, Shape: kernels.Shape{128, 784}}
	guard := kernels.Spec{Type: arena.Int32, Shape: kernels.Shape{4}}
	w := f(784, 512)
	chain := &kernels.ChainAttrs{Steps: []kernels.Step{
		{Op: kernels.Add, A: 0, B: 1},
		{Op: kernels.ReLU, A: 2, B: -1},
		{Op: kernels.Affine, Attrs: kernels.AffineAttrs{Scale: 2, Shift: 1}, A: 3, B: -1},
	}}
	return []timed{
		{"decode", kernels.Decode, kernels.DecodeAttrs{To: arena.Float32, Scale: 1. / 255}, []kernels.Spec{pixels}},
		{"encode_bfloat16", kernels.Encode, kernels.EncodeAttrs{To: arena.BFloat16}, []kernels.Spec{f(128, 512)}},
		{"encode_float16", kernels.Encode, kernels.EncodeAttrs{To: arena.Float16}, []kernels.Spec{f(128, 512)}},
		{"decode_bfloat16", kernels.Decode, kernels.DecodeAttrs{To: arena.Float32, Scale: 1}, []kernels.Spec{half(arena.BFloat16)}},
		{"decode_float16", kernels.Decode, kernels.DecodeAttrs{To: arena.Float32, Scale: 1}, []kernels.Spec{half(arena.Float16)}},
		{"add", kernels.Add, nil, []kernels.Spec{f(128, 512), f(128, 512)}},
		{"add_row", kernels.Add, nil, []kernels.Spec{f(128, 512), f(512)}},
		{"add_large", kernels.Add, nil, []kernels.Spec{w, w}},
		{"relu", kernels.ReLU, nil, []kernels.Spec{f(128, 512)}},
		{"relu_grad", kernels.ReLUGrad, nil, []kernels.Spec{f(128, 512), f(128, 512)}},
		{"leaky_relu", kernels.LeakyReLU, kernels.LeakyReLUAttrs{Slope: 0.1}, []kernels.Spec{f(128, 512)}},
		{"leaky_relu_grad", kernels.LeakyReLUGrad, kernels.LeakyReLUAttrs{Slope: 0.1}, []kernels.Spec{f(128, 512), f(128, 512)}},
		{"exp", kernels.Exp, nil, []kernels.Spec{f(128, 512)}},
		{"log", kernels.Log, nil, []kernels.Spec{f(128, 512)}},
		{"tanh", kernels.Tanh, nil, []kernels.Spec{f(128, 512)}},
		{"sigmoid", kernels.Sigmoid, nil, []kernels.Spec{f(128, 512)}},
		{"softplus", kernels.Softplus, nil, []kernels.Spec{f(128, 512)}},
		{"erf", kernels.Erf, nil, []kernels.Spec{f(128, 512)}},
		{"maximum_scalar", kernels.Maximum, nil, []kernels.Spec{f(128, 512), f()}},
		{"chain", kernels.Chain, chain, []kernels.Spec{f(128, 512), f(512)}},
		{"sum_columns", kernels.Sum, kernels.ReduceAttrs{Axes: []int{0}}, []kernels.Spec{f(128, 512)}},
		{"sum_rows", kernels.Sum, kernels.ReduceAttrs{Axes: []int{1}}, []kernels.Spec{f(128, 512)}},
		{"sum_all", kernels.Sum, kernels.ReduceAttrs{}, []kernels.Spec{w}},
		{"softmax", kernels.Softmax, kernels.SoftmaxAttrs{Axis: 1}, []kernels.Spec{f(128, 512)}},
		{"cross_entropy", kernels.CrossEntropy, nil, []kernels.Spec{f(128, 10), labels}},
		{"cross_entropy_grad", kernels.CrossEntropyGrad, nil, []kernels.Spec{f(128, 10), labels, f(128)}},
		{"transpose", kernels.Transpose, kernels.TransposeAttrs{Perm: []int{1, 0}}, []kernels.Spec{w}},
		{"where", kernels.Where, nil, []kernels.Spec{f(128, 512), f(128, 512), f(128, 512)}},
		{"where_row", kernels.Where, nil, []kernels.Spec{f(512), f(128, 512), f()}},
		{"cumsum_rows", kernels.CumSum, kernels.CumSumAttrs{Axis: 1}, []kernels.Spec{f(128, 512)}},
		{"cumsum_columns", kernels.CumSum, kernels.CumSumAttrs{}, []kernels.Spec{f(128, 512)}},
		{"topk_1", kernels.TopK, kernels.TopKAttrs{Axis: 1, K: 1}, []kernels.Spec{f(128, 512)}},
		{"topk_8", kernels.TopK, kernels.TopKAttrs{Axis: 1, K: 8}, []kernels.Spec{f(128, 512)}},
		{"sort", kernels.TopK, kernels.TopKAttrs{Axis: 1, K: 512}, []kernels.Spec{f(128, 512)}},
		{"im2col", kernels.Im2Col, kernels.Im2ColAttrs{Kernel: [2]int{3, 3}, Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, Pad: [2]int{1, 1}}, []kernels.Spec{f(8, 16, 32, 32)}},
		{"col2im", kernels.Col2Im, kernels.Col2ImAttrs{Im2ColAttrs: kernels.Im2ColAttrs{Kernel: [2]int{3, 3}, Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, Pad: [2]int{1, 1}},
			Size: [2]int{32, 32}}, []kernels.Spec{f(8, 32, 32, 144)}},
		{"integer", kernels.Integer, kernels.IntegerAttrs{Func: kernels.IntegerAdd, To: arena.Int64}, []kernels.Spec{
			{Type: arena.Int64, Shape: kernels.Shape{128, 512}}, {Type: arena.Uint8, Shape: kernels.Shape{512}}}},
		{"integer_rows", kernels.IntegerReduce, kernels.IntegerReduceAttrs{Func: kernels.IntegerAdd, ReduceAttrs: kernels.ReduceAttrs{Axes: []int{1}}, To: arena.Int64},
			[]kernels.Spec{{Type: arena.Int64, Shape: kernels.Shape{128, 512}}}},
		{"truncate", kernels.Truncate, nil, []kernels.Spec{f(128, 512)}},
		{"check_finite", kernels.CheckFinite, kernels.CheckFiniteAttrs{Code: 1}, []kernels.Spec{w, guard}},
		{"sum_squares", kernels.SumSquares, nil, []kernels.Spec{w}},
		{"mix", kernels.Mix, nil, []kernels.Spec{w, w, guard, {Type: arena.Float64}}},
		{"sgd", kernels.SGD, kernels.SGDAttrs{}, []kernels.Spec{w, w, guard, controls}},
		{"adam", kernels.Adam, kernels.AdamAttrs{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}, []kernels.Spec{w, w, guard, controls, w, w}},
	}
}

// values are what the operands of c hold: indices, an optimizer's controls, normal numbers, or their squares where the
// op needs what is not negative.
func (c *timed) values() kernels.Case {
	return kernels.Case{Attrs: c.attrs, In: c.in, Fill: func(r *rand.Rand, k int, v []float64) {
		switch {
		case c.in[k].Type == arena.Uint8 || c.in[k].Equal(labels):
			for i := range v {
				v[i] = float64(r.IntN(10))
			}
		case c.in[k].Equal(controls):
			copy(v, []float64{1e-3, 1, 0.1, 0.001})
		case c.in[k].Type.Float():
			for i := range v {
				v[i] = r.NormFloat64()
				if k == 5 || c.op == kernels.Log {
					v[i] *= v[i]
				}
			}
		}
	}}
}

// BenchmarkOps times single ops on one and two threads. MB/s counts each operand once.
func BenchmarkOps(b *testing.B) {
	for _, c := range timedOps() {
		for _, threads := range []int{1, 2} {
			b.Run(c.name+[]string{"/1", "/2"}[threads-1], func(b *testing.B) {
				timeCall(b, c, threads)
			})
		}
	}
}

// timeCall times one call.
func timeCall(b *testing.B, c timed, threads int) {
	d := open(b, cpu.Options{Threads: threads})
	timeUse(b, newUse(b, rand.New(rand.NewPCG(1, 2)), d, c.op, c.values()))
}

// timeUse times one call. MB/s counts each operand once.
func timeUse(b *testing.B, u *use) {
	var bytes int64
	for _, o := range append(u.call.In, u.call.Out...) {
		bytes += o.Bytes()
	}
	b.SetBytes(bytes)
	for b.Loop() {
		if err := u.prog.Launch(u.stream); err != nil {
			b.Fatal(err)
		}
	}
	if err := u.stream.Sync(); err != nil {
		b.Fatal(err)
	}
}
