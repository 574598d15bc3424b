//go:build !amd64 || purego

package cpu

// bfloat16At returns the conversions of a level.
func bfloat16At(level) *conversions { return goBfloat16 }

// float16At returns the conversions of a level.
func float16At(level) *conversions { return goFloat16 }
