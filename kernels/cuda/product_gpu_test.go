//go:build gpu && cgo

package cuda

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// ran runs one call on d and returns its first output and the functions that were launched for it.
func ran(t *testing.T, d *Device, op *kernels.Op, attrs any, in []kernels.Tensor) (kernels.Tensor, string) {
	t.Helper()
	specs := make([]kernels.Spec, len(in))
	for i, x := range in {
		specs[i] = x.Spec
	}
	call, size := callOf(t, &d.props, op, attrs, specs)
	s, e1 := d.NewStream("test")
	mem, e2 := d.Alloc(size)
	host, e3 := d.Pin(size)
	if err := errors.Join(e1, e2, e3); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(s.Close(), mem.Free(), host.Free()); err != nil {
			t.Error(err)
		}
	}()
	for i := range host.Bytes() {
		host.Bytes()[i] = 0xff // NaN, in the workspace and the output
	}
	for i, x := range in {
		kernels.Store(host.Bytes()[call.In[i].Ref.Offset:], x.Type, x.Data)
	}
	p, err := d.Bind([]kernels.Call{call}, kernels.Binding{Memory: mem, Base: []int64{0}})
	if err != nil {
		t.Fatal(err)
	}
	inside, outside := arena.Span{Memory: mem, Size: size}, arena.Span{Memory: host, Size: size}
	if err := errors.Join(s.Copy(inside, outside), p.Launch(s), s.Copy(outside, inside), s.Sync(), p.Close()); err != nil {
		t.Fatal(err)
	}
	steps, err := bindAt(&d.props, []kernels.Call{call}, 1<<20, size, []int64{0})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, step := range steps {
		names = append(names, step.function)
	}
	y := kernels.Tensor{Spec: call.Out[0].Spec, Data: make([]float64, call.Out[0].Shape.Elems())}
	kernels.Load(y.Data, y.Type, host.Bytes()[call.Out[0].Ref.Offset:])
	return y, strings.Join(names, " ")
}

// normals are standard normal numbers that keep so many of the 24 bits of a float32.
func normals(r *rand.Rand, bits uint, shape ...int) kernels.Tensor {
	x := kernels.Tensor{Spec: kernels.Spec{Type: arena.Float32, Shape: shape}, Data: make([]float64, kernels.Shape(shape).Elems())}
	for i := range x.Data {
		v := math.Float32bits(float32(r.NormFloat64()))
		x.Data[i] = float64(math.Float32frombits(v >> (24 - bits) << (24 - bits)))
	}
	return x
}

// Tiles and splits depend on the GPU's processors, so each is brought about by pretending that
// there are few or many. The operands of tensor cores are numbers that their formats hold, whose
// products are exact in float32.
func TestEveryKindOfProductAgreesWithItsReference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 5))
	window := kernels.ConvGradAttrs{Stride: [2]int{1, 1}, Pad: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1, Size: [2]int{3, 3}}
	ab := func(bits uint, a, b [2]int) []kernels.Tensor {
		return []kernels.Tensor{normals(r, bits, a[0], a[1]), normals(r, bits, b[0], b[1])}
	}
	// stored keeps operand k in 16 bits.
	stored := func(in []kernels.Tensor, k int, t arena.DType) []kernels.Tensor {
		in[k].Type = t
		return in
	}
	brain, half := kernels.MatMulAttrs{ComputeType: arena.BFloat16}, kernels.MatMulAttrs{TransA: true, ComputeType: arena.Float16}
	rounded := window
	rounded.ComputeType = arena.BFloat16
	for _, c := range []struct {
		want       string
		capability int // 0: that of the device
		processors int
		x          Precision
		op         *kernels.Op
		attrs      any
		in         []kernels.Tensor
		steps      int
	}{
		{"matmul_f32_nn_128", 0, 1, Full, kernels.MatMul, kernels.MatMulAttrs{}, ab(24, [2]int{132, 36}, [2]int{36, 140}), 36},
		{"matmul_f32_nt_128", 0, 1, Full, kernels.MatMul, kernels.MatMulAttrs{TransB: true}, ab(24, [2]int{132, 36}, [2]int{140, 36}), 36},
		{"matmul_f32_tn_128", 0, 1, Full, kernels.MatMul, kernels.MatMulAttrs{TransA: true}, ab(24, [2]int{36, 132}, [2]int{36, 140}), 36},
		{"matmul_f32_tt_128", 0, 1, Full, kernels.MatMul, kernels.MatMulAttrs{TransA: true, TransB: true}, ab(24, [2]int{36, 132}, [2]int{140, 36}), 36},
		{"matmul_f32_tn_64 matmul_end_f32", 0, 40, Full, kernels.MatMul, kernels.MatMulAttrs{TransA: true}, ab(24, [2]int{2001, 20}, [2]int{2001, 30}), 2001},
		{"conv_weight_f32 matmul_end_f32", 0, 40, Full, kernels.ConvGradWeight, window,
			[]kernels.Tensor{normals(r, 24, 3, 5, 20, 21), normals(r, 24, 3, 9, 20, 21)}, 1260},
		{"matmul_tf32_nn_128", 0, 80, TF32, kernels.MatMul, kernels.MatMulAttrs{}, ab(11, [2]int{130, 52}, [2]int{52, 136}), 52},
		{"matmul_tf32_tt_128", 0, 80, TF32, kernels.MatMul, kernels.MatMulAttrs{TransA: true, TransB: true}, ab(11, [2]int{52, 136}, [2]int{130, 52}), 52},
		{"matmul_bf16_nt_128", 0, 80, BFloat16, kernels.MatMul, kernels.MatMulAttrs{TransB: true}, ab(8, [2]int{130, 52}, [2]int{9, 52}), 52},
		{"matmul_f16_tn_128 matmul_end_f32", 0, 80, Float16, kernels.MatMul, kernels.MatMulAttrs{TransA: true}, ab(8, [2]int{1300, 64}, [2]int{1300, 32}), 1300},
		{"matmul_bf16_nn_128", 80, 80, Full, kernels.MatMul, brain, stored(ab(8, [2]int{130, 52}, [2]int{52, 136}), 0, arena.BFloat16), 52},
		{"matmul_bf16_nn_128", 80, 1, TF32, kernels.MatMul, brain, stored(ab(8, [2]int{130, 52}, [2]int{52, 136}), 1, arena.BFloat16), 52},
		{"matmul_bf16_nn_64", 80, 80, Full, kernels.MatMul, brain, stored(ab(8, [2]int{130, 51}, [2]int{51, 136}), 0, arena.BFloat16), 51},
		{"matmul_bf16_nn_64", 75, 1, Full, kernels.MatMul, brain, stored(ab(8, [2]int{132, 36}, [2]int{36, 140}), 1, arena.BFloat16), 36},
		{"matmul_f16_tn_128 matmul_end_f32", 80, 80, Full, kernels.MatMul, half, stored(ab(8, [2]int{1300, 64}, [2]int{1300, 32}), 1, arena.Float16), 1300},
		{"matmul_f16_tn_64 matmul_end_f32", 70, 40, Full, kernels.MatMul, half, stored(ab(8, [2]int{2001, 20}, [2]int{2001, 30}), 0, arena.Float16), 2001},
		{"matmul_direct_f16", 80, 80, Full, kernels.MatMul, half, stored(ab(8, [2]int{9, 5}, [2]int{9, 7}), 0, arena.Float16), 9},
		{"conv_weight_bf16 matmul_end_f32", 80, 40, Full, kernels.ConvGradWeight, rounded,
			stored([]kernels.Tensor{normals(r, 8, 3, 5, 20, 21), normals(r, 8, 3, 9, 20, 21)}, 0, arena.BFloat16), 1260},
	} {
		t.Run(c.want, func(t *testing.T) {
			d := opened(t, Options{})
			if err := d.props.choose(c.x); err != nil {
				t.Skip(err)
			}
			d.props.processors = c.processors
			if c.capability != 0 {
				d.props.capability = c.capability
			}
			got, launched := ran(t, d, c.op, c.attrs, c.in)
			if launched != c.want {
				t.Fatalf("launched %s, want %s", launched, c.want)
			}
			want := kernels.Tensor{Spec: got.Spec, Data: make([]float64, len(got.Data))}
			c.op.Ref(c.attrs, c.in, []kernels.Tensor{want})
			// A sum of n products near 1 is rounded n times, by half of 2^-23 of partial sums up to
			// about 4 √n.
			tolerance := float64(c.steps) * 4 * math.Sqrt(float64(c.steps)) * 0x1p-24
			for i, w := range want.Data {
				if e := math.Abs(got.Data[i] - w); !(e <= tolerance) {
					t.Fatalf("result %d is %v, want %v: off by %g, more than %g", i, got.Data[i], w, e, tolerance)
				}
			}
		})
	}
}
