//go:build !amd64 || purego

package conv

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"

// For returns the functions that work with the tile kernels of s.
func For(s *gemm.Kernels) *Kernels { return portable(s) }
