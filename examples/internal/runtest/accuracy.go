package runtest

import (
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/examples/internal/run"
	"github.com/evenkeel/evenkeel/internal/seed"
)

// KeepsItsAccuracy trains e on that many samples in float32, bfloat16 and float16, and fails t if
// the accuracies on the test set differ by more than a point, or 0.3 points if all cases are computed: two
// seeds differ as much.
func KeepsItsAccuracy(t *testing.T, e run.Example, samples, epochs int) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs minutes: run without -short")
	}
	want, most := 0.0, seed.Cases(0.01, 0.003)
	for _, precision := range []string{"float32", "bfloat16", "float16"} {
		r := Trains(t, e, samples, epochs, "-precision", precision)
		if r.TestAccuracy == nil {
			t.Fatalf("%s: no accuracy in %+v", precision, r)
		}
		if precision == "float32" {
			want = *r.TestAccuracy
		} else if off := math.Abs(*r.TestAccuracy - want); !(off <= most) {
			t.Errorf("%s: accuracy %v, %v in float32", precision, *r.TestAccuracy, want)
		}
		t.Logf("%s: accuracy %v", precision, *r.TestAccuracy)
	}
}
