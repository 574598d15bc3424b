//go:build gpu && cgo

package main

import (
	"fmt"
	"testing"

	"github.com/evenkeel/evenkeel/examples/internal/runtest"
)

// Sums in another order move float32 losses by 1e-7 a step, and Adam's quotients carry that on.
func TestAGPULearnsWhatTheHostLearns(t *testing.T) {
	for name, args := range map[string][]string{
		"streaming": nil, "resident": {"-resident"}, "lean": {"-lean"}, "momentum": {"-optimizer", "momentum", "-rate", "0.05"},
	} {
		t.Run(name, func(t *testing.T) { runtest.Alike(t, example, "cuda", 8, 20, 1e-4, args...) })
	}
}

func TestOnAGPUMemoryIsFlat(t *testing.T) {
	const batch, samples = 4, 4*64 + 3
	r := runtest.Trains(t, example, samples, 2, "-device", "cuda", "-batch", fmt.Sprint(batch))
	if r.UploadBytesPerEpoch != samples*785 {
		t.Errorf("%d bytes crossed in an epoch of %d samples, want 785 each", r.UploadBytesPerEpoch, samples)
	}
	t.Logf("%+v", r)
}
