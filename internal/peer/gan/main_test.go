package main

import (
	"strings"
	"testing"
)

func TestTheTableHasTheTimeOfAStep(t *testing.T) {
	var out strings.Builder
	if err := compare(t.Context(), flags{rounds: 1, steps: 1, threads: 2}, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "\nEvenkeel ") || !strings.Contains(out.String(), " 1.00 ") {
		t.Errorf("table:\n%s", &out)
	}
	if err := compare(t.Context(), flags{steps: 1, threads: 1}, &out); err == nil {
		t.Error("no rounds: no error")
	}
}
