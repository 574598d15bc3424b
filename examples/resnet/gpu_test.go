//go:build gpu && cgo

package main

import (
	"testing"

	"github.com/evenkeel/evenkeel/examples/internal/runtest"
)

func TestAGPULearnsWhatTheHostLearns(t *testing.T) {
	runtest.Alike(t, example, "cuda", 4, 3, 1e-4, "-seed", "2")
}
