//go:build gpu && cgo

package main

import (
	"testing"

	"github.com/evenkeel/evenkeel/examples/internal/runtest"
)

// The network drops out: were the masks not the host's, losses would differ in their second digit.
func TestAGPULearnsWhatTheHostLearns(t *testing.T) {
	runtest.Alike(t, example, "cuda", 4, 20, 1e-4)
}
