//go:build !amd64 || purego

package pool2d

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// At returns the kernels of level l: the Go twins.
func At(asm.Level) *Kernels { return portable }
