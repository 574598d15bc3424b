package layout_test

import (
	"errors"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
)

// load returns what Load writes for v, as float64 numbers.
func load(v gorgonia.Value, t arena.DType, shape ...int) ([]float64, error) {
	spec := kernels.Spec{Type: t, Shape: shape}
	b := make([]byte, spec.Bytes())
	err := layout.Load(b, v, spec)
	x := make([]float64, spec.Shape.Elems())
	kernels.Load(x, t, b)
	return x, err
}

func TestLoadReadsEveryTypeOfScalarAndTensor(t *testing.T) {
	f32, f64, i, i64, i32, u8 := gorgonia.NewF32(3), gorgonia.NewF64(3), gorgonia.NewI(3), gorgonia.NewI64(3), gorgonia.NewI32(3), gorgonia.NewU8(3)
	for _, c := range []struct {
		scalar  gorgonia.Value
		backing any
		dt      arena.DType
	}{
		{f32, []float32{1, 2}, arena.Float32},
		{f64, []float64{1, 2}, arena.Float64},
		{i, []int{1, 2}, arena.Int64},
		{i64, []int64{1, 2}, arena.Int64},
		{i32, []int32{1, 2}, arena.Int32},
		{u8, []uint8{1, 2}, arena.Uint8},
	} {
		if got, err := load(c.scalar, c.dt); err != nil || !slices.Equal(got, []float64{3}) {
			t.Errorf("%T: got %v %v, want 3", c.scalar, got, err)
		}
		if got, err := load(tensor.New(tensor.WithBacking(c.backing)), c.dt, 2); err != nil || !slices.Equal(got, []float64{1, 2}) {
			t.Errorf("tensor of %v: got %v %v, want 1 2", c.dt, got, err)
		}
		other := arena.Float32
		if c.dt == other {
			other = arena.Int32
		}
		for _, v := range []gorgonia.Value{c.scalar, tensor.New(tensor.WithBacking(c.backing))} {
			if _, err := load(v, other, v.Shape()...); !errors.Is(err, kernels.ErrShape) {
				t.Errorf("%T of %v as %v: got %v, want ErrShape", v, c.dt, other, err)
			}
		}
	}
	if _, err := load(gorgonia.NewB(true), arena.Uint8); !errors.Is(err, kernels.ErrUnsupported) {
		t.Errorf("bool: got %v, want ErrUnsupported", err)
	}
}

func TestLoadReadsViewsInRowMajorOrder(t *testing.T) {
	matrix := func() *tensor.Dense { // 3×4: 0 1 2 3 / 4 5 6 7 / 8 9 10 11
		return tensor.New(tensor.WithShape(3, 4), tensor.WithBacking(tensor.Range(tensor.Float64, 0, 12)))
	}
	cut := func(s ...tensor.Slice) *tensor.Dense {
		v, err := matrix().Slice(s...)
		if err != nil {
			t.Fatal(err)
		}
		return v.(*tensor.Dense)
	}
	turned := matrix()
	if err := turned.T(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		v    *tensor.Dense
		want []float64
	}{
		{"whole", matrix(), []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
		{"rows", cut(gorgonia.S(1, 3)), []float64{4, 5, 6, 7, 8, 9, 10, 11}},
		{"columns", cut(nil, gorgonia.S(1, 3)), []float64{1, 2, 5, 6, 9, 10}},
		{"one column", cut(nil, gorgonia.S(2)), []float64{2, 6, 10}},
		{"transposed", turned, []float64{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}},
	} {
		if got, err := load(c.v, arena.Float64, c.v.Shape()...); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v %v, want %v", c.name, got, err, c.want)
		}
	}
	if _, err := load(matrix(), arena.Float64, 3, 3); !errors.Is(err, kernels.ErrShape) {
		t.Errorf("12 elements as 9: got %v, want ErrShape", err)
	}
}

func TestATensorThatUnbindAllEmptiedIsNotData(t *testing.T) {
	g := gorgonia.NewGraph()
	v := tensor.New(tensor.WithBacking([]float64{1, 2}))
	x := gorgonia.NewVector(g, gorgonia.Float64, gorgonia.WithShape(2), gorgonia.WithName("x"))
	if err := gorgonia.Let(x, v); err != nil {
		t.Fatal(err)
	}
	if layout.IsEmpty(v) {
		t.Fatal("a tensor of two elements is empty")
	}
	g.UnbindAll()
	if !layout.IsEmpty(v) || !layout.IsEmpty(nil) {
		t.Error("an emptied tensor, or nil, is not empty")
	}
	if _, err := load(v, arena.Float64, 2); !errors.Is(err, layout.ErrData) {
		t.Errorf("got %v, want ErrData", err)
	}
}

func TestLoadAllocatesNothing(t *testing.T) {
	d := tensor.New(tensor.WithShape(64, 64), tensor.WithBacking(make([]float32, 64*64)))
	if err := d.T(); err != nil {
		t.Fatal(err)
	}
	spec := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{64, 64}}
	b := make([]byte, spec.Bytes())
	if n := testing.AllocsPerRun(100, func() {
		if err := layout.Load(b, d, spec); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
