package run

import "testing"

// One interval of two may have rare objects of the runtime.
func TestTheMedianOfTwoIsTheLower(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{2, 0}, 0}, {[]float64{5, 1, 3}, 3}} {
		if got := median(c.of); got != c.want {
			t.Errorf("median of %v: %v, want %v", c.of, got, c.want)
		}
	}
}
