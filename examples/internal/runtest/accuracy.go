package runtest

import (
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/examples/internal/run"
)

// KeepsItsAccuracy trains e for some epochs in float32 and with activations in 16 bits, and fails t where the accuracies on the test set are more
// than 0.3 points apart: what a different seed makes.
func KeepsItsAccuracy(t *testing.T, e run.Example, epochs int) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs minutes: run without -short")
	}
	want := 0.0
	for _, precision := range []string{"float32", "bfloat16", "float16"} {
		r := Trains(t, e, 0, epochs, "-precision", precision)
		if r.TestAccuracy == nil {
			t.Fatalf("%s: no accuracy in %+v", precision, r)
		}
		if precision == "float32" {
			want = *r.TestAccuracy
		} else if off := math.Abs(*r.TestAccuracy - want); !(off <= 0.003) {
			t.Errorf("%s: accuracy %v, %v in float32", precision, *r.TestAccuracy, want)
		}
		t.Logf("%s: accuracy %v", precision, *r.TestAccuracy)
	}
}
