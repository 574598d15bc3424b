package kernels_test

import (
	"errors"
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/kerneltest"
)

// runStored executes one call on bytes, as a device would, and returns its first output.
func runStored(t *testing.T, op *kernels.Op, attrs any, in ...kernels.Tensor) kernels.Tensor {
	t.Helper()
	var specs []kernels.Spec
	c := kernels.Call{Op: op, Attrs: attrs, Label: "test"}
	memory := map[arena.Region][]byte{}
	add := func(s kernels.Spec) kernels.Operand {
		region := arena.Region(len(memory))
		memory[region] = make([]byte, s.Bytes())
		return kernels.Operand{Spec: s, Ref: arena.Ref{Region: region, Size: s.Bytes()}}
	}
	for _, x := range in {
		specs = append(specs, x.Spec)
		o := add(x.Spec)
		kernels.Store(memory[o.Ref.Region], x.Type, x.Data)
		c.In = append(c.In, o)
	}
	out, err := op.Infer(attrs, specs)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range out {
		c.Out = append(c.Out, add(s))
	}
	if err := kernels.Run(c, func(o kernels.Operand) []byte { return memory[o.Ref.Region] }); err != nil {
		t.Fatal(err)
	}
	y := kernels.Tensor{Spec: out[0], Data: make([]float64, out[0].Shape.Elems())}
	kernels.Load(y.Data, y.Type, memory[c.Out[0].Ref.Region])
	return y
}

func sameBits(t *testing.T, what string, got, want kernels.Tensor) {
	t.Helper()
	if !got.Spec.Equal(want.Spec) {
		t.Fatalf("%s: got %v, want %v", what, got.Spec, want.Spec)
	}
	for i := range got.Data {
		if math.Float64bits(got.Data[i]) != math.Float64bits(want.Data[i]) {
			t.Fatalf("%s: element %d of %v: got %v, want %v", what, i, got.Spec, got.Data[i], want.Data[i])
		}
	}
}

func TestAChainHasTheBitsOfItsSteps(t *testing.T) {
	r := random(t)
	for i := range 200 {
		float := []arena.DType{arena.Float32, arena.Float64}[i%2]
		c := kernels.Chain.Cases(r, float)
		in := kerneltest.Fill(r, c)
		values := append([]kernels.Tensor(nil), in...)
		for _, s := range c.Attrs.(*kernels.ChainAttrs).Steps {
			var args []kernels.Tensor
			for _, k := range []int{s.A, s.B} {
				if k >= 0 {
					args = append(args, values[k])
				}
			}
			values = append(values, runStored(t, s.Op, s.Attrs, args...))
		}
		if a := c.Attrs.(*kernels.ChainAttrs); a.Reduce != nil {
			values = append(values, runStored(t, a.Reduce, a.ReduceAttrs, values[len(values)-1]))
		}
		sameBits(t, "chain", runStored(t, kernels.Chain, c.Attrs, in...), values[len(values)-1])
	}
}

func TestAMatMulHasTheBitsOfItsParts(t *testing.T) {
	r := random(t)
	for i := range 100 {
		float := []arena.DType{arena.Float32, arena.Float64}[i%2]
		c := kernels.MatMul.Cases(r, float)
		in, a := kerneltest.Fill(r, c), c.Attrs.(kernels.MatMulAttrs)
		y := runStored(t, kernels.MatMul, kernels.MatMulAttrs{TransA: a.TransA, TransB: a.TransB, ComputeType: a.ComputeType}, in[0], in[1])
		if a.Rows != [2]int{} {
			y = runStored(t, kernels.Slice, rowsOf(y.Shape, len(y.Shape)-2, a.Rows), y)
		}
		if a.Bias || a.Add {
			y = runStored(t, kernels.Add, nil, y, in[2])
		}
		if a.Act != nil {
			y = runStored(t, a.Act, a.ActAttrs, y)
		}
		sameBits(t, "matmul", runStored(t, kernels.MatMul, c.Attrs, in...), y)
	}
}

// rowsOf cuts a range of one dimension out of s.
func rowsOf(s kernels.Shape, axis int, rows [2]int) kernels.SliceAttrs {
	a := kernels.SliceAttrs{Start: make([]int, len(s)), End: append([]int(nil), s...), Step: make([]int, len(s))}
	for i := range s {
		a.Step[i] = 1
	}
	a.Start[axis], a.End[axis] = rows[0], rows[1]
	return a
}

func TestMatMulRefusesRowsThatItsResultDoesNotHave(t *testing.T) {
	in := []kernels.Spec{{Type: arena.Float32, Shape: kernels.Shape{4, 3}}, {Type: arena.Float32, Shape: kernels.Shape{4, 5}}}
	for _, rows := range [][2]int{{-1, 2}, {0, 4}, {2, 2}, {2, 1}, {3, 4}, {0, -1}} {
		if _, err := kernels.MatMul.Infer(kernels.MatMulAttrs{TransA: true, Rows: rows}, in); !errors.Is(err, kernels.ErrShape) {
			t.Errorf("rows %v of 3: got %v, want ErrShape", rows, err)
		}
	}
}

func TestMatMulTransposesAsTransposeDoes(t *testing.T) {
	r := random(t)
	for range 50 {
		c := kernels.MatMul.Cases(r, arena.Float64)
		in, a := kerneltest.Fill(r, c), c.Attrs.(kernels.MatMulAttrs)
		plain := append([]kernels.Tensor(nil), in...)
		for k, transposed := range []bool{a.TransA, a.TransB} {
			if transposed {
				rank := len(in[k].Shape)
				perm := []int{0, 1, 2, 3}[:rank]
				perm[rank-1], perm[rank-2] = rank-2, rank-1
				plain[k] = runStored(t, kernels.Transpose, kernels.TransposeAttrs{Perm: perm}, in[k])
			}
		}
		want := c.Attrs.(kernels.MatMulAttrs)
		want.TransA, want.TransB = false, false
		sameBits(t, "matmul", runStored(t, kernels.MatMul, c.Attrs, in...), runStored(t, kernels.MatMul, want, plain...))
	}
}

// TestViewsShowWhatTheOperationComputes reads views from their offset and compares with the reference.
func TestViewsShowWhatTheOperationComputes(t *testing.T) {
	r := random(t)
	seen := 0
	for _, op := range kernels.All() {
		for range 200 {
			c := op.Cases(r, arena.Float32)
			if op.View == nil {
				break
			}
			offset, ok := op.View(c.Attrs, c.In)
			if !ok {
				continue
			}
			seen++
			in := kerneltest.Fill(r, c)
			want, err := kernels.Eval(op, c.Attrs, in)
			if err != nil {
				t.Fatal(err)
			}
			b := make([]byte, in[0].Bytes())
			kernels.Store(b, in[0].Type, in[0].Data)
			got := kernels.Tensor{Spec: want[0].Spec, Data: make([]float64, len(want[0].Data))}
			kernels.Load(got.Data, got.Type, b[offset:])
			sameBits(t, op.Name, got, want[0])
		}
	}
	if seen < 200 {
		t.Errorf("only %d of 400 cases were views", seen)
	}
}
