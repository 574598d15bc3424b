package live

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/evenkeel/evenkeel/trainer/runs"
)

// metricsHandler returns the handler of /metrics: the numbers of the run, of the Go runtime and of the
// process.
func metricsHandler(run *runs.Run) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(run), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2})
}

// metric is a number of a run's state, or several with a label.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(s *runs.State, put func(v float64, labels ...string))
}

// collector collects the metrics of a run.
type collector struct {
	run     *runs.Run
	metrics []metric
}

// newCollector returns the collector of a run, whose name is a label of all metrics.
func newCollector(run *runs.Run) *collector {
	c := &collector{run: run}
	add := func(kind prometheus.ValueType, name, help string, labels []string, read func(s *runs.State, put func(v float64, labels ...string))) {
		desc := prometheus.NewDesc("evenkeel_"+name, help, labels, prometheus.Labels{"run": run.Name()})
		c.metrics = append(c.metrics, metric{desc, kind, read})
	}
	one := func(kind prometheus.ValueType, name, help string, read func(s *runs.State) float64) {
		add(kind, name, help, nil, func(s *runs.State, put func(float64, ...string)) { put(read(s)) })
	}
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	one(gauge, "step", "Number of the latest training step.", func(s *runs.State) float64 { return float64(s.Number) })
	one(gauge, "epoch", "Number of the epoch, counted from 0.", func(s *runs.State) float64 { return float64(s.Epoch) })
	one(gauge, "loss", "Mean loss of the epoch so far.", func(s *runs.State) float64 { return float64(s.Loss) })
	one(gauge, "accuracy_ratio", "Share of correct outputs of the epoch so far.", func(s *runs.State) float64 { return float64(s.Accuracy) })
	one(gauge, "learning_rate", "Learning rate of the latest step.", func(s *runs.State) float64 { return float64(s.Rate) })
	one(gauge, "gradient_norm", "L2 norm of the latest gradients.", func(s *runs.State) float64 { return float64(s.Norm) })
	one(counter, "samples_total", "Samples that this process has trained.", func(s *runs.State) float64 { return float64(s.Samples) })
	one(counter, "dropped_steps_total", "Steps that are not recorded, as writing was too slow.", func(s *runs.State) float64 { return float64(s.Dropped) })
	add(gauge, "status", "1 for what the run does now.", []string{"status"}, func(s *runs.State, put func(float64, ...string)) { put(1, string(s.Status)) })
	add(counter, "time_seconds_total", "Time of training: waits for data, copies and compute, and work of the host.", []string{"spent"},
		func(s *runs.State, put func(float64, ...string)) {
			put(s.Time.Data, "data")
			put(s.Time.Copy, "copies")
			put(s.Time.Compute, "compute")
			put(s.Time.Host, "host")
		})
	add(gauge, "memory_bytes", "Memory: the arena, the device's used and free memory, pinned host memory, the Go heap and the process.", []string{"kind"},
		func(s *runs.State, put func(float64, ...string)) {
			for _, m := range []struct {
				kind  string
				bytes int64
			}{{"arena", s.Memory.Arena}, {"device_used", s.Memory.Used}, {"device_free", s.Memory.Free}, {"pinned", s.Memory.Pinned},
				{"go_heap", s.Memory.Heap}, {"resident", s.Memory.Resident}} {
				if m.bytes >= 0 {
					put(float64(m.bytes), m.kind)
				}
			}
		})
	return c
}

// Describe sends the descriptions of all metrics.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		ch <- m.desc
	}
}

// Collect sends the metrics as they are now.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.run.State()
	for _, m := range c.metrics {
		m.read(&s, func(v float64, labels ...string) { ch <- prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...) })
	}
}
