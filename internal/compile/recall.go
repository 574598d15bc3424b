package compile

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// A machine has no running statistics of its own: those of a graph stay where its program can see them, in Gorgonia's op or in the
// values of the nodes that package layers made. Go code on the host brings them from there and moves them. It is what kernels.Host
// takes as attributes.

// recalled computes a running statistic: it copies the value as it is now.
type recalled struct {
	name string // of the node
	spec kernels.Spec
	from func() gorgonia.Value
}

// Infer returns the spec of the statistic.
func (s *recalled) Infer([]kernels.Spec) ([]kernels.Spec, error) { return []kernels.Spec{s.spec}, nil }

// String names it for plans.
func (s *recalled) String() string { return "running statistic" }

// Run copies the statistic to out[0].
func (s *recalled) Run(_, out [][]byte) error {
	if err := store(out[0], s.spec.Type, s.from()); err != nil {
		return fmt.Errorf("statistics of %q: %w", s.name, err)
	}
	return nil
}

// follower moves running statistics towards those of a batch.
type follower struct {
	name           string // of the node
	spec           kernels.Spec
	mean, variance func() gorgonia.Value
	momentum       float64
	factor         float64 // of the variance
}

// Infer returns the spec of a byte: there is no result but the effect.
func (f *follower) Infer(in []kernels.Spec) ([]kernels.Spec, error) {
	if len(in) != 2 || !in[0].Equal(f.spec) || !in[1].Equal(f.spec) {
		return nil, fmt.Errorf("statistics of %q are %v, not %v: %w", f.name, f.spec, in, kernels.ErrShape)
	}
	return []kernels.Spec{{Type: arena.Uint8, Shape: kernels.Shape{1}}}, nil
}

// String names it for plans.
func (f *follower) String() string { return "running statistics" }

// Run moves both.
func (f *follower) Run(in, out [][]byte) error {
	out[0][0] = 0
	if err := f.move(f.mean(), in[0], 1); err != nil {
		return err
	}
	return f.move(f.variance(), in[1], f.factor)
}

func (f *follower) move(v gorgonia.Value, batch []byte, factor float64) error {
	d, ok := v.(*tensor.Dense)
	if ok {
		t, err := dtypeOf(d.Dtype())
		ok = err == nil && t == f.spec.Type && d.Shape().TotalSize() == f.spec.Shape.Elems()
	}
	if !ok {
		return fmt.Errorf("statistics of %q are no tensor of %v: %w", f.name, f.spec, kernels.ErrShape)
	}
	var at []byte
	switch x := d.Data().(type) {
	case []float32:
		at = bytesOf(x)
	case []float64:
		at = bytesOf(x)
	}
	in := []kernels.Tensor{tensorOf(f.spec, at), tensorOf(f.spec, batch), tensorOf(kernels.GuardSpec, nil)}
	moved, err := kernels.Eval(kernels.RunningStat, kernels.RunningStatAttrs{Momentum: f.momentum, Factor: factor}, in)
	if err != nil {
		return fmt.Errorf("statistics of %q: %w", f.name, err)
	}
	kernels.Store(at, f.spec.Type, moved[0].Data)
	return nil
}

// tensorOf returns elements that lie at b, or zeros where that is nil.
func tensorOf(s kernels.Spec, b []byte) kernels.Tensor {
	t := kernels.Tensor{Spec: s, Data: make([]float64, s.Shape.Elems())}
	if b != nil {
		kernels.Load(t.Data, s.Type, b)
	}
	return t
}

// hostStatistics returns the running statistics of a machine's batch normalization: where they are now, or how they follow.
func (r *reader) hostStatistics(n *gorgonia.Node, spec kernels.Spec, fixed bool, mean, variance func() gorgonia.Value) running {
	if fixed {
		at := func(from func() gorgonia.Value) kernels.Value {
			return r.Apply(kernels.Host, &recalled{name: n.Name(), spec: spec, from: from})
		}
		return running{fixed: true, mean: at(mean), variance: at(variance)}
	}
	return running{host: &follower{name: n.Name(), spec: spec, mean: mean, variance: variance}}
}
