package cpu_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/kerneltest"
)

func TestDevice(t *testing.T) {
	kerneltest.Test(t, func() (kernels.Device, error) { return cpu.Open(cpu.Options{Instructions: cputest.Instructions(t)}) })
}
