package frontend

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// A machine updates running statistics where the user's program finds them: in Gorgonia's op, or in
// the values of the nodes that package layers made. (Such a node has a home, too, which is only
// read.) kernels.Host instructions read and update them; readRunningStat and updateRunningStat are
// their attributes.

// readRunningStat copies a running statistic to its result.
type readRunningStat struct {
	name string // of the node
	spec kernels.Spec
	from func() gorgonia.Value
}

// Infer returns the spec of the statistic.
func (s *readRunningStat) Infer([]kernels.Spec) ([]kernels.Spec, error) {
	return []kernels.Spec{s.spec}, nil
}

// String returns the name in plans.
func (s *readRunningStat) String() string { return "running statistic" }

// Run copies the statistic to out[0].
func (s *readRunningStat) Run(_, out [][]byte) error {
	if err := store(out[0], s.spec.Type, s.from()); err != nil {
		return fmt.Errorf("statistics of %q: %w", s.name, err)
	}
	return nil
}

// updateRunningStat moves the running mean and variance towards the mean and variance of the batch,
// its operands.
type updateRunningStat struct {
	name           string // of the node
	spec           kernels.Spec
	mean, variance func() gorgonia.Value
	momentum       float64
	factor         float64 // n/(n-1), for n values: the variance of the batch times factor is unbiased
}

// Infer returns the spec of one byte: an instruction must have a result.
func (f *updateRunningStat) Infer(in []kernels.Spec) ([]kernels.Spec, error) {
	if len(in) != 2 || !in[0].Equal(f.spec) || !in[1].Equal(f.spec) {
		return nil, fmt.Errorf("statistics of %q are %v, not %v: %w", f.name, f.spec, in, kernels.ErrShape)
	}
	return []kernels.Spec{{Type: arena.Uint8, Shape: kernels.Shape{1}}}, nil
}

// String returns the name in plans.
func (f *updateRunningStat) String() string { return "running statistics" }

// Run updates both.
func (f *updateRunningStat) Run(in, out [][]byte) error {
	out[0][0] = 0 // the result has no meaning
	if err := f.move(f.mean(), in[0], 1); err != nil {
		return err
	}
	return f.move(f.variance(), in[1], f.factor)
}

// move moves the running statistic v, a tensor of Gorgonia's, towards the batch's, times factor.
func (f *updateRunningStat) move(v gorgonia.Value, batch []byte, factor float64) error {
	d, ok := v.(*tensor.Dense)
	if ok {
		t, err := dtypeOf(d.Dtype())
		ok = err == nil && t == f.spec.Type && d.Shape().TotalSize() == f.spec.Shape.Elems()
	}
	if !ok {
		return fmt.Errorf("statistics of %q are not a tensor of %v: %w", f.name, f.spec, kernels.ErrShape)
	}
	var at []byte // the elements of v, in place
	switch x := d.Data().(type) {
	case []float32:
		at = bytesOf(x)
	case []float64:
		at = bytesOf(x)
	}
	status := tensorOf(kernels.GuardSpec, nil) // a status word that stops nothing
	// By the reference code of the operation that updates statistics with homes.
	in := []kernels.Tensor{tensorOf(f.spec, at), tensorOf(f.spec, batch), status}
	moved, err := kernels.Eval(kernels.RunningStat, kernels.RunningStatAttrs{Momentum: f.momentum, Factor: factor}, in)
	if err != nil {
		return fmt.Errorf("statistics of %q: %w", f.name, err)
	}
	kernels.Store(at, f.spec.Type, moved[0].Data)
	return nil
}

// tensorOf returns a tensor with the elements at b, or zeros where b is nil.
func tensorOf(s kernels.Spec, b []byte) kernels.Tensor {
	t := kernels.Tensor{Spec: s, Data: make([]float64, s.Shape.Elems())}
	if b != nil {
		kernels.Load(t.Data, s.Type, b)
	}
	return t
}

// hostStatistics returns the running statistics of a machine's batch normalization. If fixed, they
// are values to normalize by; otherwise the attribute of the Host instruction that updates them.
func (r *reader) hostStatistics(n *gorgonia.Node, spec kernels.Spec, fixed bool,
	mean, variance func() gorgonia.Value) runningStats {
	if fixed {
		at := func(from func() gorgonia.Value) kernels.Value {
			return r.Apply(kernels.Host, &readRunningStat{name: n.Name(), spec: spec, from: from})
		}
		return runningStats{fixed: true, mean: at(mean), variance: at(variance)}
	}
	return runningStats{host: &updateRunningStat{name: n.Name(), spec: spec, mean: mean, variance: variance}}
}
