package python_test

import (
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/internal/peer/python"
)

// The runs stay in their order, and of two in the middle the larger one counts.
func TestTheMedianIsTheRunInTheMiddle(t *testing.T) {
	runs := []string{"cccc", "a", "bb", "dddddd"}
	if got := python.Median(runs, func(s string) float64 { return float64(len(s)) }); got != "cccc" || !slices.Equal(runs, []string{"cccc", "a", "bb", "dddddd"}) {
		t.Errorf("got %q of %q, want cccc", got, runs)
	}
	if got := python.Median(runs[:3], func(s string) float64 { return -float64(len(s)) }); got != "bb" {
		t.Errorf("got %q of three, want bb", got)
	}
}
