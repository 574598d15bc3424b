package numeric_test

import (
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

func TestCodesGrowFrom0To1AndAreTheNearest(t *testing.T) {
	r := seed.Rand(t, 0)
	for _, top := range []int{numeric.TopSigned, numeric.TopUnsigned} {
		values := make([]float64, 2<<top)
		for code := range values {
			values[code] = numeric.Decode8[float64](code, top)
			if code > 0 && !(values[code] > values[code-1]) {
				t.Errorf("top %d: code %d is %v, the one before %v", top, code, values[code], values[code-1])
			}
			if got := numeric.Encode8(values[code], top); got != code {
				t.Errorf("top %d: code %d is %v, whose code is %d", top, code, values[code], got)
			}
			if got := numeric.Encode8(float32(values[code]), top); got != code {
				t.Errorf("top %d: code %d is %v, whose code as a float32 is %d", top, code, values[code], got)
			}
		}
		last := len(values) - 1
		if values[0] != 0 || values[last] != 1 || values[1] != math.Pow(8, -float64(top)) {
			t.Errorf("top %d: codes 0, 1 and %d are %v, %v and %v", top, last, values[0], values[1], values[last])
		}
		for range 10_000 {
			x := math.Pow(8, -float64(top)*r.Float64()) // the first interval, below, is that of one code
			got := math.Abs(numeric.Decode8[float64](numeric.Encode8(x, top), top) - x)
			for code, v := range values {
				if math.Abs(v-x) < got-1e-15 {
					t.Fatalf("top %d: %v has the code %d, %d is nearer", top, x, numeric.Encode8(x, top), code)
				}
			}
		}
		for _, x := range []float64{1, 1.5, math.Inf(1), math.NaN()} {
			if got := numeric.Encode8(x, top); got != last {
				t.Errorf("top %d: the code of %v is %d, want %d", top, x, got, last)
			}
		}
	}
}
