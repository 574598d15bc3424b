package runs

import (
	"runtime/metrics"

	"github.com/evenkeel/evenkeel/trainer/internal/process"
)

// heapMetric is the memory of live and dead objects on the Go heap.
const heapMetric = "/memory/classes/heap/objects:bytes"

// readMemory returns what a run's source and the process use now.
func readMemory(s *Source) Memory {
	m := Memory{Arena: -1, Used: -1, Free: -1, Pinned: -1, Heap: -1, Resident: -1}
	if n, ok := process.Resident(); ok {
		m.Resident = n
	}
	sample := [1]metrics.Sample{{Name: heapMetric}}
	metrics.Read(sample[:])
	if sample[0].Value.Kind() == metrics.KindUint64 {
		m.Heap = int64(sample[0].Value.Uint64())
	}
	if s == nil {
		return m
	}
	if s.Trainer != nil {
		stats := s.Trainer.Stats()
		m.Arena, m.Pinned = stats.Arena.Reserved, stats.Pinned
	}
	if s.Device != nil {
		if info, err := s.Device.Info(); err == nil { // a closed device has none
			m.Used, m.Free = info.Total-info.Free, info.Free
		}
	}
	return m
}

// values calls add for each known number, with its chart and series.
func (m Memory) values(add func(chart, name string, v float64)) {
	for _, n := range []struct {
		chart, name string
		bytes       int64
	}{
		{deviceChart, "arena", m.Arena}, {deviceChart, "used by all", m.Used}, {deviceChart, "free", m.Free},
		{hostChart, "pinned", m.Pinned}, {hostChart, "Go heap", m.Heap}, {hostChart, "resident", m.Resident},
	} {
		if n.bytes >= 0 {
			add(n.chart, n.name, float64(n.bytes))
		}
	}
}
