package main

import (
	"strings"
	"testing"
)

func TestTheTableHasALineForEachNetAndNumberOfCallers(t *testing.T) {
	var out strings.Builder
	if err := compare(t.Context(), flags{rounds: 1, seconds: 0.01}, &out); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "Evenkeel"); n != 6 {
		t.Errorf("%d lines, want 6:\n%s", n, &out)
	}
	out.Reset()
	if err := compare(t.Context(), flags{rounds: 1, seconds: 0.01, net: "mlp", callers: 8}, &out); err != nil {
		t.Fatal(err)
	}
	if s := out.String(); strings.Count(s, "Evenkeel") != 1 || !strings.Contains(s, "mlp        8") {
		t.Errorf("one net and 8 callers:\n%s", s)
	}
	if err := compare(t.Context(), flags{callers: 3}, &out); err == nil {
		t.Error("3 callers are measured")
	}
	out.Reset()
	slow, fast := []speed{{Rate: 2}, {Rate: 3}, {Rate: 9}}, []speed{{Rate: 1}, {Rate: 6}, {Rate: 7}}
	show(&out, "mlp", 1, map[string][]speed{"Evenkeel, threads 1": slow, "Evenkeel, threads 2": fast,
		"onnxruntime, threads 1": slow, "onnxruntime, threads 2": {{Rate: 1}, {Rate: 1}, {Rate: 1}}})
	if s := out.String(); !strings.Contains(s, "2.00 ×") || strings.Contains(s, "onnxruntime, threads 2") || strings.Contains(s, "Evenkeel, threads 1") {
		t.Errorf("medians, and the faster of each only:\n%s", s)
	}
}
