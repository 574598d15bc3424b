package kerneltest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/float16"
	"github.com/evenkeel/evenkeel/kernels"
)

var floatTypes = []arena.DType{arena.Float32, arena.Float64}

// openBench opens a device and a stream, and closes both at the end of the test.
func openBench(t *testing.T, open opener) *bench {
	t.Helper()
	dev, err := open()
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	stream, err := dev.NewStream("test")
	if err != nil {
		t.Fatalf("new stream: %v", err)
	}
	t.Cleanup(func() {
		if err := errors.Join(stream.Close(), dev.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return &bench{dev, stream}
}

// Operations compares ops with their references on random cases, as Test does for all operations.
func Operations(t *testing.T, open func() (kernels.Device, error), ops ...*kernels.Op) {
	b := openBench(t, open)
	for _, op := range ops {
		for _, float := range floatTypes {
			t.Run(op.Name+"/"+float.String(), func(t *testing.T) {
				r := random(t)
				for i := range cases() {
					c := op.Cases(r, float)
					in := Fill(r, c)
					if err := b.check(op, c, in, float, oddly(r)); err != nil {
						if errors.Is(err, kernels.ErrUnsupported) {
							t.Skipf("needs a kernel: %v", err)
						}
						t.Fatalf("case %d, attributes %s, operands %v: %v", i, attrString(c.Attrs), c.In, err)
					}
				}
			})
		}
	}
}

// check runs one case: with outputs in memory of their own, and in place of each input that the
// operation may overwrite.
func (b *bench) check(op *kernels.Op, c kernels.Case, in []kernels.Tensor, float arena.DType, odd bool) error {
	out, err := op.Infer(c.Attrs, c.In)
	if err != nil {
		return err
	}
	if err := b.dev.Supports(op, c.Attrs, c.In, out); err != nil {
		return err
	}
	want, err := kernels.Eval(op, c.Attrs, in)
	if err != nil {
		return err
	}
	var onto []int
	for _, u := range op.UpdatesFor(c.Attrs) {
		onto = append(onto, int(u))
	}
	got, err := b.run(b.place(op, c.Attrs, in, out, onto, odd), 2)
	if err != nil {
		return err
	}
	exact := op.Cost != nil && op.Cost(c.Attrs, c.In, out) == 0 // it only moves data
	for k := range out {
		if err := compare(got[k], want[k], tolerance(c, float), exact, c.Steps); err != nil {
			return fmt.Errorf("output %d: %w", k, err)
		}
	}
	for _, k := range op.InPlaceFor(c.Attrs) {
		if int(k) >= len(in) || !out[0].Equal(in[k].Spec) {
			continue
		}
		inPlace, err := b.run(b.place(op, c.Attrs, in, out, []int{int(k)}, odd), 2)
		if err != nil {
			return fmt.Errorf("in place of input %d: %w", k, err)
		}
		if !slices.EqualFunc(got, inPlace, bytes.Equal) {
			return fmt.Errorf("in place of input %d the result has other bits", k)
		}
	}
	return nil
}

// tolerance is the relative error allowed. float64 has 29 more bits than float32, and the functions
// of devices have errors of some thousand units in the last place of it.
func tolerance(c kernels.Case, float arena.DType) float64 {
	tol := c.Tolerance
	if tol == 0 {
		tol = 1e-5
	}
	if float == arena.Float64 {
		return 1e-12 + tol*0x1p-29
	}
	return tol
}

// compare returns an error for the first wrong element. With exact, and for integers, elements must
// be equal; else their error is at most tol times the wanted value, or times 1 if that is larger.
// Elements of narrow types may differ by up to steps codes or neighbours, where a rounding decides:
// two of them, or one in 50.
func compare(got []byte, want kernels.Tensor, tol float64, exact bool, steps int8) error {
	x := make([]float64, len(want.Data))
	kernels.Load(x, want.Type, got)
	w := kernels.Tensor{Spec: want.Spec, Data: slices.Clone(want.Data)}
	round(w)
	apart := 0
	for i, g := range x {
		v := w.Data[i]
		switch {
		case g == v, math.IsNaN(g) && math.IsNaN(v):
			continue
		case !exact && want.Type.Float() && math.Abs(g-v) <= tol*max(1, math.Abs(v)) && !math.IsInf(v, 0):
			continue
		case apartBy(want.Type, g, v) <= int(steps):
			if apart++; apart > max(2, len(x)/50) {
				return fmt.Errorf("%d of %d elements of %v differ: more than roundings explain", apart, i+1, want.Spec)
			}
			continue
		}
		return fmt.Errorf("element %d of %v: got %v, want %v (error %.3g, allowed %.3g relative)", i, want.Spec, g, v,
			math.Abs(g-v), tol)
	}
	return nil
}

// apartBy returns the number of codes or neighbours between two numbers of a narrow type, and
// math.MaxInt for other types.
func apartBy(t arena.DType, a, b float64) int {
	var steps int
	switch t {
	case arena.Uint8: // codes of an int8, or of a uint8
		steps = int(int8(int(a) - int(b)))
	case arena.BFloat16:
		steps = ordinal(a) - ordinal(b)
	default:
		return math.MaxInt
	}
	return max(steps, -steps)
}

// ordinal returns the index of a bfloat16 number among all, counted from 0.
func ordinal(x float64) int {
	b := int(float16.ToBFloat16(float32(math.Abs(x))))
	if x < 0 {
		return -b
	}
	return b
}

// attrString formats attributes, with the names of the operations in them.
func attrString(attrs any) string {
	chain, ok := attrs.(*kernels.ChainAttrs)
	if !ok {
		return fmt.Sprintf("%+v", attrs)
	}
	var steps []string
	for _, s := range chain.Steps {
		steps = append(steps, fmt.Sprintf("%s%+v(%d, %d)", s.Op.Name, s.Attrs, s.A, s.B))
	}
	if chain.Reduce != nil {
		steps = append(steps, fmt.Sprintf("%s%+v", chain.Reduce.Name, chain.ReduceAttrs))
	}
	return strings.Join(steps, "; ")
}

// specials are values at the edges of floating point, which every device must treat as the
// reference does.
var specials = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 1, -1, 0.5, -2, 100, -100, 1e-30}

// testSpecials compares elementwise operations on NaN, infinities, zeros and large values, so that
// no kernel hides a value that is not finite from the checks for it.
func testSpecials(t *testing.T, open opener) {
	b := openBench(t, open)
	for _, op := range kernels.All() {
		if op.Elem == nil || strings.HasSuffix(op.Name, "_grad") {
			continue
		}
		for _, float := range floatTypes {
			t.Run(op.Name+"/"+float.String(), func(t *testing.T) {
				c := op.Cases(random(t), float)
				if op == kernels.Decode {
					c.In = []kernels.Spec{{Type: float}}
				}
				in := specialOperands(len(c.In), float)
				c.In = nil
				for _, x := range in {
					c.In = append(c.In, x.Spec)
				}
				if err := b.check(op, c, in, float, false); err != nil {
					if errors.Is(err, kernels.ErrUnsupported) {
						t.Skipf("needs a kernel: %v", err)
					}
					t.Errorf("attributes %s: %v", attrString(c.Attrs), err)
				}
			})
		}
	}
}

// specialOperands returns all specials for one operand, and all pairs of them for two.
func specialOperands(n int, float arena.DType) []kernels.Tensor {
	m := len(specials)
	in := make([]kernels.Tensor, n)
	for k := range in {
		data := make([]float64, 0, m*m)
		for i := range m {
			for j := range m {
				data = append(data, specials[[]int{i, j}[k]])
			}
		}
		in[k] = kernels.Tensor{Spec: kernels.Spec{Type: float, Shape: kernels.Shape{m, m}}, Data: data}
		round(in[k])
	}
	return in
}
