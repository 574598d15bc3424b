package cuda

import "testing"

// lanes are how many multiplications and additions of float32 a multiprocessor of a compute
// capability begins in a cycle, and how many its tensor cores do of TF32, without sparsity; of
// bfloat16 and float16 twice as many. Source: CUDA C++ Programming Guide, table "Throughput of
// Native Arithmetic Instructions"; NVIDIA's white papers of each architecture.
var lanes = []struct{ capability, float32, tf32 int }{
	{70, 64, 0}, {75, 64, 0}, {80, 64, 512}, {86, 128, 128}, {87, 128, 256}, {89, 128, 128}, {90, 128, 1024}, {100, 128, 2048}, {103, 128, 2048}, {120, 128, 128},
}

// limits are what a GPU can do at most, from what it says of itself.
type limits struct {
	bandwidth float64              // bytes a second, of its memory
	rates     [Float16 + 1]float64 // operations a second by Precision of the factors; 0: not known
}

// limitsOf computes limits: memory moves data twice in each of its cycles.
func limitsOf(p *properties, clockKHz, memoryKHz, busBits int) limits {
	l := limits{bandwidth: 2 * 1e3 * float64(memoryKHz) * float64(busBits) / 8}
	cycles := 2 * 1e3 * float64(clockKHz) * float64(p.processors) // times lanes: operations a second
	for _, row := range lanes {
		if row.capability == p.capability {
			tensor := cycles * float64(row.tf32)
			l.rates = [...]float64{Full: cycles * float64(row.float32), TF32: tensor, BFloat16: 2 * tensor, Float16: 2 * tensor}
		}
	}
	return l
}

// The figures of data sheets, which hold at the clocks that the sheets state: within 1 %.
func TestLimitsAreThoseOfDataSheets(t *testing.T) {
	for _, c := range []struct {
		name                                     string
		capability, processors, clock, mem, bits int
		bandwidth, float32, tf32                 float64
	}{
		{"A100-SXM4-80GB", 80, 108, 1410000, 1593000, 5120, 2039e9, 19.5e12, 156e12},
		{"H100-SXM5-80GB", 90, 132, 1980000, 2619000, 5120, 3352e9, 66.9e12, 535e12}, // at boost: the sheet's 494.7e12 is at 1.83 GHz
		{"GeForce RTX 3090", 86, 82, 1695000, 9751000, 384, 936e9, 35.6e12, 35.6e12},
		{"V100-SXM2", 70, 80, 1530000, 877000, 4096, 898e9, 15.7e12, 0},
	} {
		l := limitsOf(&properties{capability: c.capability, processors: c.processors}, c.clock, c.mem, c.bits)
		for what, pair := range map[string][2]float64{"bytes": {l.bandwidth, c.bandwidth}, "float32": {l.rates[Full], c.float32}, "tf32": {l.rates[TF32], c.tf32}} {
			if got, want := pair[0], pair[1]; got < 0.99*want || got > 1.01*want {
				t.Errorf("%s: %s a second: %.4g, want %.4g", c.name, what, got, want)
			}
		}
	}
}
