//go:build amd64 && !purego

package cpu

func planes32(level) *planeKernels[float32] { return goPlanes32 }
func planes64(level) *planeKernels[float64] { return goPlanes64 }
func rows32(level) *rowKernels[float32]     { return goRows32 }
func rows64(level) *rowKernels[float64]     { return goRows64 }
func poolsOf(level) *poolKernels            { return goPools }
func drop32(level) func(*dropCall[float32]) { return goDrop[float32] }
