package cpu_test

import (
	"errors"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

func TestAFunctionThatEndsItsGoroutineIsAnErrorOfTheStream(t *testing.T) {
	d := open(t, cpu.Options{Threads: 1})
	prog, _ := hostProgram(t, d, func(in, out [][]byte) error { runtime.Goexit(); return nil })
	s, err := d.NewStream("s")
	if err != nil {
		t.Fatal(err)
	}
	gone, synced := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(gone)
		prog.Launch(s)
	}()
	<-gone
	go func() { synced <- s.Sync() }()
	select {
	case err := <-synced:
		if err == nil {
			t.Error("sync: got nil, want an error that names the call")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("sync hangs: the stream's lock was kept")
	}
	if err := s.Sync(); err != nil {
		t.Errorf("second sync: %v", err)
	}
}

func TestCloseOfAStreamReturnsTheErrorThatNoSyncHas(t *testing.T) {
	d := open(t, cpu.Options{Threads: 1})
	bad := errors.New("bad")
	prog, _ := hostProgram(t, d, func(in, out [][]byte) error { return bad })
	s, err := d.NewStream("s")
	if err != nil {
		t.Fatal(err)
	}
	if err := prog.Launch(s); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); !errors.Is(err, bad) {
		t.Errorf("close: got %v, want %v", err, bad)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second close: got %v", err)
	}
}

func TestAPretendedSizeBeyondTheSystemsIsRefusedWithoutAPanic(t *testing.T) {
	d := open(t, cpu.Options{Threads: 1, Memory: math.MaxInt64})
	for _, bytes := range []int64{1 << 50, math.MaxInt64} {
		if _, err := d.Alloc(bytes); !errors.Is(err, arena.ErrCapacity) {
			t.Errorf("%d bytes: got %v, want ErrCapacity", bytes, err)
		}
	}
}

// Operands of no elements lie nowhere: their region and offset may be anything.
func TestOperandsWithoutElementsNeedNoPlace(t *testing.T) {
	d := open(t, cpu.Options{Threads: 2})
	m, err := d.Alloc(256)
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []arena.Ref{{Region: 7}, {Region: -1}, {Offset: 1 << 40}} {
		o := kernels.Operand{Spec: kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{0, 3}}, Ref: ref}
		for _, c := range []kernels.Call{
			{Op: kernels.Neg, In: []kernels.Operand{o}, Out: []kernels.Operand{o}},
			{Op: kernels.Reshape, Attrs: kernels.ReshapeAttrs{Shape: o.Shape}, In: []kernels.Operand{o}, Out: []kernels.Operand{o}},
			{Op: kernels.Softmax, Attrs: kernels.SoftmaxAttrs{Axis: 1}, In: []kernels.Operand{o}, Out: []kernels.Operand{o}},
		} {
			if _, err := d.Bind([]kernels.Call{c}, kernels.Binding{Memory: m, Base: []int64{0}}); err != nil {
				t.Errorf("%s at %+v: %v", c.Op.Name, ref, err)
			}
		}
	}
}

func TestOperationsOnNoElementsAreWhatTheyMean(t *testing.T) {
	r, _ := random(t)
	d := open(t, cpu.Options{Threads: 2})
	f := func(dims ...int) kernels.Spec { return kernels.Spec{Type: arena.Float32, Shape: dims} }
	labels := func(n int) kernels.Spec { return kernels.Spec{Type: arena.Int32, Shape: kernels.Shape{n}} }
	guard, controls := kernels.Spec{Type: arena.Int32, Shape: kernels.Shape{4}}, kernels.Spec{Type: arena.Float64, Shape: kernels.Shape{kernels.Controls}}
	for _, c := range []struct {
		op    *kernels.Op
		attrs any
		in    []kernels.Spec
	}{
		{kernels.Add, nil, []kernels.Spec{f(0, 3), f(3)}},
		{kernels.Add, nil, []kernels.Spec{f(0, 1), f(3)}},
		{kernels.ReLU, nil, []kernels.Spec{f(4, 0)}},
		{kernels.Sum, kernels.ReduceAttrs{}, []kernels.Spec{f(0)}},
		{kernels.Sum, kernels.ReduceAttrs{Axes: []int{0}}, []kernels.Spec{f(0, 5)}},
		{kernels.Max, kernels.ReduceAttrs{Axes: []int{1}}, []kernels.Spec{f(5, 0)}},
		{kernels.Sum, kernels.ReduceAttrs{Axes: []int{1}}, []kernels.Spec{f(0, 5)}},
		{kernels.MatMul, kernels.MatMulAttrs{}, []kernels.Spec{f(2, 0), f(0, 3)}},
		{kernels.MatMul, kernels.MatMulAttrs{Bias: true, Act: kernels.ReLU}, []kernels.Spec{f(2, 0), f(0, 3), f(3)}},
		{kernels.MatMul, kernels.MatMulAttrs{TransA: true}, []kernels.Spec{f(4, 0), f(4, 3)}},
		{kernels.MatMul, kernels.MatMulAttrs{}, []kernels.Spec{f(0, 2, 3), f(0, 3, 4)}},
		{kernels.Softmax, kernels.SoftmaxAttrs{Axis: 1}, []kernels.Spec{f(3, 0)}},
		{kernels.LogSoftmax, kernels.SoftmaxAttrs{Axis: 0}, []kernels.Spec{f(0, 3)}},
		{kernels.CrossEntropy, nil, []kernels.Spec{f(0, 3), labels(0)}},
		{kernels.CrossEntropyDense, nil, []kernels.Spec{f(0, 3), f(0, 3)}},
		{kernels.Correct, nil, []kernels.Spec{f(0, 3), labels(0)}},
		{kernels.Transpose, kernels.TransposeAttrs{Perm: []int{1, 0}}, []kernels.Spec{f(0, 3)}},
		{kernels.Broadcast, kernels.BroadcastAttrs{Shape: kernels.Shape{0, 3}}, []kernels.Spec{f(3)}},
		{kernels.Slice, kernels.SliceAttrs{Start: []int{0, 2}, End: []int{0, 3}, Step: []int{1, 1}}, []kernels.Spec{f(0, 3)}},
		{kernels.Slice, kernels.SliceAttrs{Start: []int{2, 0}, End: []int{2, 3}, Step: []int{1, 1}}, []kernels.Spec{f(2, 3)}},
		{kernels.Unslice, kernels.UnsliceAttrs{Shape: kernels.Shape{4, 3}, Start: []int{1, 0}, Step: []int{1, 1}}, []kernels.Spec{f(0, 3)}},
		{kernels.Concat, kernels.ConcatAttrs{Axis: 0}, []kernels.Spec{f(0, 3), f(2, 3)}},
		{kernels.Concat, kernels.ConcatAttrs{Axis: 1}, []kernels.Spec{f(2, 0), f(2, 0)}},
		{kernels.Concat, kernels.ConcatAttrs{Axis: 1}, []kernels.Spec{f(0, 2), f(0, 1)}},
		{kernels.Gather, nil, []kernels.Spec{f(0, 3), labels(2)}},
		{kernels.Gather, nil, []kernels.Spec{f(3, 0), labels(2)}},
		{kernels.Gather, nil, []kernels.Spec{f(3, 2), labels(0)}},
		{kernels.Scatter, kernels.ScatterAttrs{Rows: 3}, []kernels.Spec{labels(0), f(0, 2)}},
		{kernels.Scatter, kernels.ScatterAttrs{}, []kernels.Spec{labels(2), f(2, 3)}},
		{kernels.Dropout, kernels.DropoutAttrs{Rate: 0.5}, []kernels.Spec{f(0, 3), controls}},
		{kernels.MaxPool, halves, []kernels.Spec{f(0, 2, 4, 4)}},
		{kernels.AvgPoolGrad, kernels.PoolGradAttrs{PoolAttrs: halves, Size: [2]int{4, 4}}, []kernels.Spec{f(2, 0, 2, 2)}},
		{kernels.BatchNorm, kernels.BatchNormAttrs{Eps: 1}, []kernels.Spec{f(2, 0, 3), f(0), f(0)}},
		{kernels.LayerNorm, kernels.LayerNormAttrs{Eps: 1}, []kernels.Spec{f(0, 3), f(3), f(3)}},
		{kernels.LayerNormGrad, kernels.LayerNormAttrs{Eps: 1}, []kernels.Spec{f(0, 3), f(3), f(0), f(0), f(0, 3)}},
		{kernels.GroupNorm, kernels.GroupNormAttrs{Groups: 2, Eps: 1}, []kernels.Spec{f(0, 4, 3), f(4), f(4)}},
		{kernels.GroupNormGrad, kernels.GroupNormAttrs{Groups: 2, Eps: 1}, []kernels.Spec{f(0, 4, 3), f(4), f(0, 2), f(0, 2), f(0, 4, 3)}},
		{kernels.Fill, kernels.FillAttrs{Type: arena.Float32, Shape: kernels.Shape{0}}, nil},
		{kernels.SumSquares, nil, []kernels.Spec{f(0)}},
		{kernels.CheckFinite, kernels.CheckFiniteAttrs{Code: 3}, []kernels.Spec{f(0), guard}},
		{kernels.CheckIndex, kernels.CheckIndexAttrs{Rows: 3, Code: 3}, []kernels.Spec{labels(0), guard}},
		{kernels.Mix, nil, []kernels.Spec{f(0), f(0), guard, {Type: arena.Float64}}},
		{kernels.SGD, kernels.SGDAttrs{}, []kernels.Spec{f(0), f(0), guard, controls}},
	} {
		u := newUse(t, r, d, c.op, kernels.Case{Attrs: c.attrs, In: c.in})
		u.launch(t)
		got := u.results()
		copy(u.mem.Bytes(), u.first)
		if err := kernels.Run(u.call, u.bytes); err != nil {
			t.Errorf("%s on %v: %v", c.op.Name, c.in, err)
		}
		for k, want := range u.results() {
			if string(got[k]) != string(want) {
				t.Errorf("%s on %v: output %d: got % x, want % x", c.op.Name, c.in, k, got[k], want)
			}
		}
		u.close(t)
	}
}
