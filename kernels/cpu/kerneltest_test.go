package cpu_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/kerneltest"
)

func TestDevice(t *testing.T) {
	o := cpu.Options{Instructions: cputest.Instructions(t)}
	kerneltest.Test(t, func() kernels.Device { return cpu.OpenWith(o) })
}
