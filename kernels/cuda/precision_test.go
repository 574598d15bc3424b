package cuda

import (
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
)

func TestPrecisionsNeedTheirGPU(t *testing.T) {
	for _, c := range []struct {
		capability int
		x          Precision
		ok         bool
	}{{70, Full, true}, {70, TF32, false}, {80, TF32, true}, {90, BFloat16, true}, {80, Float16, true}, {80, Float16 + 1, false}, {80, -1, false}} {
		p := gpu(80)
		p.capability = c.capability
		err := p.choose(c.x)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, kernels.ErrUnsupported) || err == nil && p.precision != c.x {
			t.Errorf("%v on capability %d: %v", c.x, c.capability, err)
		}
	}
}
