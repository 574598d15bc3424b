//go:build !amd64 || purego

package dropout

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// kernel32 returns the kernel of a level for float32.
func kernel32(asm.Level) func(*Args[float32]) { return goDrop[float32] }
