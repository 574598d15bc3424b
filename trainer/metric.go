package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// MetricResult is what a pass measured of a metric of Model.Metrics.
type MetricResult struct {
	Name  string
	Value float64   // of layers.Metric.Value; NaN if the pass has no samples, or did not measure it
	Sum   []float64 // total of each element of layers.Metric.Sum over the pass; in a Result the caller owns it
}

// Metric returns the metric called name. ok is false if the pass did not measure it: the model has no
// such metric, or Fit ran without Options.TrainMetrics.
func (r Result) Metric(name string) (m MetricResult, ok bool) {
	for _, m := range r.Metrics {
		if m.Name == name {
			return m, true
		}
	}
	return MetricResult{}, false
}

// metricSet is the list of a model's metrics, as the first program of the plan has them.
type metricSet struct {
	rows  int // of the batch of that program
	all   []metric
	elems int // of all distinct sums together
}

// metric is a metric of a model and its place among the totals of a pass.
type metric struct {
	name   string
	value  func(sum []float64) float64
	sum    string // name of the metric whose result this sum is: the first one with the same node
	shape  kernels.Shape
	offset int // of its total among those of a pass, in elements; metrics of one node share it
}

// newMetricSet returns the metrics of a model for a batch of rows.
func newMetricSet(m Model, rows int) *metricSet {
	s := &metricSet{rows: rows, all: make([]metric, 0, len(m.Metrics))}
	for i, metricOf := range m.Metrics {
		x := metric{name: metricOf.Name, value: metricOf.Value, sum: metricOf.Name,
			shape: slices.Clone(kernels.Shape(metricOf.Sum.Shape())), offset: s.elems}
		if k := slices.IndexFunc(m.Metrics[:i], func(o layers.Metric) bool { return o.Sum == metricOf.Sum }); k >= 0 {
			x.sum, x.offset = s.all[k].sum, s.all[k].offset
		} else {
			s.elems += x.shape.Elems()
		}
		s.all = append(s.all, x)
	}
	return s
}

// differing returns an error for each metric of s that is not the same in o.
func (s *metricSet) differing(o *metricSet) error {
	c := mistakes{class: ErrModel}
	if len(s.all) != len(o.all) {
		c.addf("the model has %d metrics at batch %d and %d at batch %d: it must have the same ones for every batch size",
			len(s.all), s.rows, len(o.all), o.rows)
		return c.errs[0]
	}
	for i, m := range s.all {
		n := o.all[i]
		switch {
		case m.name != n.name || m.sum != n.sum:
			c.addf("metric %d is %q, a result of %q, at batch %d, and %q, a result of %q, at batch %d: "+
				"the model must have the same metrics for every batch size", i, m.name, m.sum, s.rows, n.name, n.sum, o.rows)
		case !m.shape.Equal(n.shape):
			c.addf("metric %q is %v at batch %d and %v at batch %d: its Sum must be a sum over the rows, whose shape "+
				"does not depend on the batch", m.name, m.shape, s.rows, n.shape, o.rows)
		}
	}
	return errors.Join(c.errs...)
}

// recordMetrics records the metrics of the first model that is compiled, and checks that those of
// others are the same. m is for a batch of rows.
func (p *planned) recordMetrics(ctx context.Context, m Model, rows int) error {
	set := newMetricSet(m, rows)
	if p.metrics != nil {
		return p.metrics.differing(set)
	}
	// A plan may have programs of one batch size only: the shapes of another one show what depends on
	// it. A model for one batch size has no other.
	if len(set.all) > 0 {
		twice, err := callModel(ctx, p.model, gorgonia.NewGraph(), 2*rows)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			err = set.differing(newMetricSet(twice, 2*rows))
		default:
			err = nil
		}
		if err != nil {
			return err
		}
	}
	p.metrics = set
	return nil
}

// measures reports whether programs of a mode compute metrics.
func (o *Options) measures(mode compile.Mode) bool {
	return mode == compile.Evaluate || mode == compile.Train && o.TrainMetrics
}

// sums returns the distinct sums of the model's metrics.
func sums(m Model) []frontend.Metric {
	var all []frontend.Metric
	for _, x := range m.Metrics {
		if !slices.ContainsFunc(all, func(o frontend.Metric) bool { return o.Sum == x.Sum }) {
			all = append(all, frontend.Metric{Name: x.Name, Sum: x.Sum})
		}
	}
	return all
}

// metrics checks the metrics of a model.
func (c *modelCheck) metrics(all []layers.Metric) {
	for i, m := range all {
		switch {
		case m.Name == "":
			c.addf("metric %d has no name", i)
		case slices.ContainsFunc(all[:i], func(o layers.Metric) bool { return o.Name == m.Name }):
			c.addf("two metrics are called %q: set Metric.Name of one", m.Name)
		}
		if m.Sum == nil {
			c.addf("metric %q has no Sum", m.Name)
			continue
		}
		c.inGraph(fmt.Sprintf("metric %q", m.Name), m.Sum)
		if m.Sum.Shape().TotalSize() == 0 {
			c.addf("metric %q is %v: it has no elements", m.Name, m.Sum.Shape())
		}
	}
}

// metricSum is the result of a program that belongs to a metric, and its place in the totals.
type metricSum struct {
	value  ir.Value
	offset int
}

// metricSums returns the sums of prog.
func (s *metricSet) metricSums(prog *ir.Program) []metricSum {
	var all []metricSum
	for _, m := range s.all {
		if v, ok := prog.Result(compile.MetricName(m.sum)); ok && m.sum == m.name {
			all = append(all, metricSum{v, m.offset})
		}
	}
	return all
}

// addMetrics adds the sums of the step in slot s to the totals of the pass. Trainer.Step has no totals.
func (p *epochPass) addMetrics(s *slot) {
	if p.totals == nil {
		return
	}
	for i := range s.program.metrics {
		m := &s.program.metrics[i]
		s.addTo(p.totals[m.offset:], &m.value)
	}
}

// addTo adds the elements of a result to sum.
func (s *slot) addTo(sum []float64, v *ir.Value) {
	b := s.results[v.Ref.Offset : v.Ref.Offset+int64(v.Spec.Shape.Elems())*v.Spec.Type.Size()]
	switch v.Spec.Type {
	case arena.Float32:
		addElements[float32](sum, b)
	case arena.Float64:
		addElements[float64](sum, b)
	case arena.Int64:
		addElements[int64](sum, b)
	case arena.Int32:
		addElements[int32](sum, b)
	default:
		addElements[uint8](sum, b)
	}
}

// addElements adds the elements in b to sum.
func addElements[T float32 | float64 | int64 | int32 | uint8](sum []float64, b []byte) {
	for i, x := range dataloader.View[T](b) {
		sum[i] += float64(x)
	}
}

// metricResults returns what the pass has measured so far: nil if its programs measure nothing.
func (p *epochPass) metricResults() []MetricResult {
	set := p.t.plan.metrics
	if len(p.source.full.metrics) == 0 {
		return nil
	}
	all, sum := make([]MetricResult, len(set.all)), slices.Clone(p.totals)
	for i, m := range set.all {
		n := m.shape.Elems()
		r := MetricResult{Name: m.name, Value: math.NaN(), Sum: sum[m.offset : m.offset+n : m.offset+n]}
		switch {
		case p.samples == 0:
		case m.value != nil:
			r.Value = m.value(r.Sum)
		case n == 1:
			r.Value = r.Sum[0] / float64(p.samples)
		}
		all[i] = r
	}
	return all
}
