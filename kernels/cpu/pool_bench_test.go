package cpu_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// BenchmarkFork measures two parts that do nothing, one after the other without and with work of the caller in between.
// What is reported is without that work.
func BenchmarkFork(b *testing.B) {
	for _, gap := range []time.Duration{0, time.Microsecond, 20 * time.Microsecond, 100 * time.Microsecond, time.Millisecond} {
		b.Run(fmt.Sprintf("gap=%v", gap), func(b *testing.B) {
			p := cpu.NewPool(2)
			defer p.Close()
			var in [2][8]int64
			f := func(i, _ int) { in[i][0]++ }
			var spent time.Duration
			for b.Loop() {
				start := time.Now()
				p.Run(f, 2)
				end := time.Now()
				spent += end.Sub(start)
				for time.Since(end) < gap {
				}
			}
			b.ReportMetric(float64(spent)/float64(b.N), "ns/fork")
		})
	}
}

// BenchmarkForkedWork measures two parts of so much work, against 1 thread.
func BenchmarkForkedWork(b *testing.B) {
	for _, work := range []time.Duration{time.Microsecond, 5 * time.Microsecond, 20 * time.Microsecond, 100 * time.Microsecond} {
		for _, gap := range []time.Duration{0, 100 * time.Microsecond} {
			b.Run(fmt.Sprintf("work=%v/gap=%v", work, gap), func(b *testing.B) {
				p := cpu.NewPool(2)
				defer p.Close()
				spins := calibrate(work)
				f := func(int, int) { spin(spins) }
				var spent time.Duration
				for b.Loop() {
					start := time.Now()
					p.Run(f, 2)
					end := time.Now()
					spent += end.Sub(start)
					for time.Since(end) < gap {
					}
				}
				b.ReportMetric(float64(spent)/float64(b.N)/float64(work), "of-one-part")
			})
		}
	}
}

var sink int

//go:noinline
func spin(n int) {
	x := 0
	for i := range n {
		x ^= i
	}
	if x == -1 {
		sink++
	}
}

// calibrate returns how often spin turns in so long.
func calibrate(d time.Duration) int {
	const n = 1 << 20
	best := time.Hour
	for range 10 {
		start := time.Now()
		spin(n)
		best = min(best, time.Since(start))
	}
	return int(float64(n) * float64(d) / float64(best))
}
