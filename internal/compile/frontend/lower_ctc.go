package frontend

import (
	"fmt"
	"math"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// ctc is a connectionist temporal classification loss: the negative logarithm of the probability of
// all alignments of a target with T steps of N samples over C labels, of which 0 is blank.
//
//	logProbs [T, N, C], targets [N, S] or all targets one after the other, steps of each sample [N], labels of each target [N] → loss []
//
// Source: Graves et al., Connectionist Temporal Classification, 2006. Gorgonia's own code has the
// wrong sign for empty targets, and with a mean does not divide its gradient.
type ctc struct {
	steps, samples, labels int
	width                  int // of a row of targets; 0: they follow one another
	mean                   bool
}

// lowerCTC lowers the loss to Go code on the host.
func lowerCTC(r *reader, n *gorgonia.Node) (*rule, error) {
	reduction, err := fields{n.Op()}.Int("reduction")
	if err != nil {
		return nil, err
	}
	in := children(n)
	t, err := typeOf(in[0])
	if err != nil {
		return nil, err
	}
	logProbs, targets := shapeOf(in[0]), shapeOf(in[1])
	c := &ctc{mean: reduction == int(gorgonia.ReductionMean)}
	specs := []kernels.Spec{{Type: t, Shape: logProbs}}
	for _, x := range in[1:] {
		if x.Dtype() != tensor.Int {
			return nil, fmt.Errorf("%q is %v, want int: %w", x.Name(), x.Dtype(), kernels.ErrShape)
		}
		specs = append(specs, kernels.Spec{Type: arena.Int64, Shape: shapeOf(x)})
	}
	if len(logProbs) != 3 || !t.Float() || len(targets) < 1 || len(targets) > 2 ||
		len(targets) == 2 && targets[0] != logProbs[1] || specs[2].Shape.Elems() != logProbs[1] || specs[3].Shape.Elems() != logProbs[1] {
		return nil, fmt.Errorf("CTC loss of %v: %w", specs, kernels.ErrShape)
	}
	if c.steps, c.samples, c.labels = logProbs[0], logProbs[1], logProbs[2]; len(targets) == 2 {
		c.width = targets[1]
	}
	back := &hostFunc{node: n.Name(), name: "gradient of the CTC loss", in: append([]kernels.Spec{{Type: t}}, specs...), out: specs[0],
		run: func(in [][]float64, dx []float64) error {
			_, err := c.run(in[1:], dx, in[0][0])
			return err
		}}
	f := &hostFunc{node: n.Name(), name: "CTC loss", in: specs, out: kernels.Spec{Type: t},
		run: func(in [][]float64, out []float64) (err error) {
			out[0], err = c.run(in, nil, 0)
			return err
		},
		grad: func(g *Graph, n kernels.Node, dy kernels.Value) []kernels.Value {
			dx := applyHost(g.Builder, back, append([]kernels.Value{dy}, n.In...)...)
			return []kernels.Value{dx, kernels.None, kernels.None, kernels.None}
		}}
	return &rule{in: in, build: func(v []kernels.Value) (kernels.Value, error) {
		return applyHost(r.Builder, f, v...), nil
	}}, nil
}

// run returns the loss of all samples. It writes dy times the gradient by the logProbs to dx,
// unless dx is nil.
func (c *ctc) run(in [][]float64, dx []float64, dy float64) (loss float64, err error) {
	logProbs, targets, steps, lengths := in[0], in[1], in[2], in[3]
	first := 0 // element of targets
	for b := range c.samples {
		n, length := int(steps[b]), int(lengths[b])
		if c.width > 0 {
			first = b * c.width
		}
		if n < 1 || n > c.steps || length < 0 || first+length > len(targets) || c.width > 0 && length > c.width {
			return 0, fmt.Errorf("sample %d has %d steps and %d labels: it can have 1 to %d steps, and the labels of its target",
				b, n, length, c.steps)
		}
		path := make([]int, 2*length+1) // blank, label, blank, label, … blank
		for i, label := range targets[first : first+length] {
			if label < 0 || int(label) >= c.labels {
				return 0, fmt.Errorf("label %d of sample %d is %v: not in 0..%d", i, b, label, c.labels-1)
			}
			path[2*i+1] = int(label)
		}
		first += length
		weight := 1.0
		if c.mean {
			weight = 1 / float64(max(length, 1)*c.samples)
		}
		loss += weight * c.sample(path, n, logProbs[b*c.labels:], dx, b*c.labels, weight*dy)
	}
	return loss, nil
}

// sample returns the loss of one sample, whose logProbs of step t begin at t·N·C. Its part of dx
// begins at element first: dy times the gradient is added there.
//
// alpha[t][s] is the logarithm of the probability of all alignments that are at place s of the path
// after step t, beta[t][s] that of all that go on from there.
func (c *ctc) sample(path []int, steps int, logProbs, dx []float64, first int, dy float64) (loss float64) {
	stride, last := c.samples*c.labels, len(path)-1
	row := func() []float64 {
		r := make([]float64, len(path))
		for i := range r {
			r[i] = math.Inf(-1)
		}
		return r
	}
	skips := func(s int) bool { return s >= 2 && path[s] != 0 && path[s] != path[s-2] } // from s-2 to s
	alpha := make([][]float64, steps)
	for t := range alpha {
		alpha[t] = row()
		for s, label := range path {
			before := math.Inf(-1)
			switch {
			case t == 0 && s < 2:
				before = 0
			case t > 0:
				before = alpha[t-1][s]
				if s > 0 {
					before = logAdd(before, alpha[t-1][s-1])
				}
				if skips(s) {
					before = logAdd(before, alpha[t-1][s-2])
				}
			}
			alpha[t][s] = before + logProbs[t*stride+label]
		}
	}
	total := alpha[steps-1][last]
	if last > 0 {
		total = logAdd(total, alpha[steps-1][last-1])
	}
	if dx == nil {
		return -total
	}
	beta := row()
	beta[last] = 0
	if last > 0 {
		beta[last-1] = 0
	}
	for t := steps - 1; t >= 0; t-- {
		next := row()
		for s, label := range path {
			dx[first+t*stride+label] -= dy * math.Exp(alpha[t][s]+beta[s]-total)
			from := beta[s] + logProbs[t*stride+label]
			next[s] = logAdd(next[s], from)
			if s > 0 {
				next[s-1] = logAdd(next[s-1], from)
			}
			if skips(s) {
				next[s-2] = logAdd(next[s-2], from)
			}
		}
		beta = next
	}
	return -total
}

// logAdd returns log(eᵃ + eᵇ).
func logAdd(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if math.IsInf(b, -1) {
		return a
	}
	return a + math.Log1p(math.Exp(b-a))
}
