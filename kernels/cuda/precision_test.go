package cuda

import (
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
)

func TestPrecisionsNeedTheirGPU(t *testing.T) {
	for _, c := range []struct {
		major int
		x     Precision
		ok    bool
	}{{7, Full, true}, {7, TF32, false}, {8, TF32, true}, {9, BFloat16, true}, {8, Float16, true}, {8, Float16 + 1, false}, {8, -1, false}} {
		p := gpu(80)
		p.major = c.major
		err := p.choose(c.x)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, kernels.ErrUnsupported) || err == nil && p.precision != c.x {
			t.Errorf("%v on %d.0: %v", c.x, c.major, err)
		}
	}
}
