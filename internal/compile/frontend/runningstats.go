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
	mean, variance hostStatistic
}

// hostStatistic is a running statistic in a tensor of Gorgonia's, with the memory that its update
// needs: an update allocates nothing.
type hostStatistic struct {
	value func() gorgonia.Value
	attrs any              // kernels.RunningStatAttrs
	in    []kernels.Tensor // the statistic, that of the batch, and a status word that stops nothing
	out   []kernels.Tensor // the new statistic; nil before the first update
}

// newHostStatistic returns the statistic that value returns.
func newHostStatistic(spec kernels.Spec, value func() gorgonia.Value) hostStatistic {
	return hostStatistic{value: value, in: []kernels.Tensor{zerosOf(spec), zerosOf(spec), zerosOf(kernels.GuardSpec)}}
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

// Run updates both, or neither if the variance of the batch is not finite.
func (f *updateRunningStat) Run(in, out [][]byte) error {
	out[0][0] = 0 // the result has no meaning
	kernels.Load(f.mean.in[1].Data, f.spec.Type, in[0])
	kernels.Load(f.variance.in[1].Data, f.spec.Type, in[1])
	err := kernels.CheckVariance(f.variance.in[1].Data)
	if err == nil {
		err = f.mean.move(f.spec)
	}
	if err == nil {
		err = f.variance.move(f.spec)
	}
	if err != nil {
		return fmt.Errorf("statistics of %q: %w", f.name, err)
	}
	return nil
}

// move moves the statistic towards that of the batch, in s.in[1], by the reference code of the
// operation that updates statistics with homes.
func (s *hostStatistic) move(spec kernels.Spec) error {
	d, ok := s.value().(*tensor.Dense)
	if ok {
		t, err := dtypeOf(d.Dtype())
		ok = err == nil && t == spec.Type && d.Shape().TotalSize() == spec.Shape.Elems()
	}
	if !ok {
		return fmt.Errorf("not a tensor of %v: %w", spec, kernels.ErrShape)
	}
	if s.out == nil {
		out, err := kernels.Eval(kernels.RunningStat, s.attrs, s.in) // checks the attributes
		if err != nil {
			return err
		}
		s.out = out
	}
	at := denseBytes(d)
	kernels.Load(s.in[0].Data, spec.Type, at)
	kernels.RunningStat.Ref(s.attrs, s.in, s.out)
	kernels.Store(at, spec.Type, s.out[0].Data)
	return nil
}

// zerosOf returns a tensor of zeros.
func zerosOf(s kernels.Spec) kernels.Tensor {
	return kernels.Tensor{Spec: s, Data: make([]float64, s.Shape.Elems())}
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
	return runningStats{host: &updateRunningStat{name: n.Name(), spec: spec,
		mean: newHostStatistic(spec, mean), variance: newHostStatistic(spec, variance)}}
}
