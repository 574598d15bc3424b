package emu_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/kernels/kerneltest"
)

// TestDevice makes every other device a lazy one.
func TestDevice(t *testing.T) {
	opened := 0
	kerneltest.Test(t, func() (kernels.Device, error) {
		opened++
		return emu.Open(emu.Options{Lazy: opened%2 == 0})
	})
}
