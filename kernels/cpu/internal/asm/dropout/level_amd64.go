//go:build amd64 && !purego

package dropout

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

//go:generate go -C ../../../../../internal/gen run ./norm -package dropout -dir ../../kernels/cpu/internal/asm/dropout

// kernels32 holds the kernels for float32 by level.
var kernels32 = [...]func(*Args[float32]){goDrop[float32], drop, wideDrop}

// kernel32 returns the kernel of a level for float32.
func kernel32(l asm.Level) func(*Args[float32]) { return kernels32[l] }
