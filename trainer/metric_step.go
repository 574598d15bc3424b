package trainer

import "math"

// stepMetrics is the memory of Step.Metrics, for the steps of one pass.
type stepMetrics struct {
	set     *metricSet
	sums    []float64 // of the distinct sums, one after another
	results []MetricResult
}

// newStepMetrics returns the memory, nil if training measures no metrics.
func (p *planned) newStepMetrics() *stepMetrics {
	if !p.opt.TrainMetrics || len(p.metrics.all) == 0 {
		return nil
	}
	m := &stepMetrics{set: p.metrics, sums: make([]float64, p.metrics.elems)}
	for _, x := range m.set.all {
		end := x.offset + x.shape.Elems()
		m.results = append(m.results, MetricResult{Name: x.name, Sum: m.sums[x.offset:end:end]})
	}
	return m
}

// read returns the metrics that the step in slot s has left. It allocates nothing unless the value
// of a metric does. A nil m has none.
func (m *stepMetrics) read(s *slot) []MetricResult {
	if m == nil {
		return nil
	}
	for i := range m.sums {
		m.sums[i] = math.NaN() // of what the program does not compute
	}
	for i := range m.results {
		m.results[i].Value = math.NaN()
	}
	for i := range s.program.metrics {
		sum := &s.program.metrics[i]
		clear(m.sums[sum.offset : sum.offset+sum.value.Spec.Shape.Elems()])
		s.addTo(m.sums[sum.offset:], &sum.value)
		for k := range m.results {
			x, r := &m.set.all[k], &m.results[k]
			switch {
			case x.offset != sum.offset:
			case x.value != nil:
				r.Value = x.value(r.Sum)
			case len(r.Sum) == 1:
				r.Value = r.Sum[0] / float64(s.rows)
			}
		}
	}
	return m.results
}
