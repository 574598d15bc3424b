package cpu_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// Products of operands near 1e-20 are denormal in float32, whichever way a convolution is computed.
func TestConvolutionsFlushDenormalsAndRestoreTheProcessor(t *testing.T) {
	r, _ := random(t)
	for _, d := range levels(t, 1)[1:] {
		for name, g := range map[string]geometry{
			"depthwise": {2, 32, 32, 9, 3, 1, 1, 1, 32},
			"winograd":  {2, 32, 32, 12, 3, 1, 1, 1, 1},
			"few tiles": {1, 32, 64, 14, 3, 1, 1, 1, 1},
			"panels":    {2, 3, 5, 9, 3, 2, 1, 1, 1},
		} {
			for _, op := range convOps {
				attrs, in := g.call(op, arena.Float32)
				u := newUse(t, r, d, op, kernels.Case{Attrs: attrs, In: in, Fill: func(_ *rand.Rand, _ int, v []float64) {
					for i := range v {
						v[i] = 1e-21
					}
				}})
				u.launch(t)
				if out := u.results()[0]; len(bytes.Trim(out, "\x00\x80")) != 0 { // 0 or -0
					level, _ := d.Instructions()
					t.Errorf("%v, %s of a convolution, %s: denormal products did not become 0", level, op.Name, name)
				}
				if half := float32(tiny) * 2; half == 0 {
					t.Fatalf("%s: denormal numbers are still taken for 0 after the launch", op.Name)
				}
				u.close(t)
			}
		}
	}
}
