//go:build !amd64 || purego

package cpu

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"

// packerFor returns the packing functions for the tiles of s.
func packerFor(s *gemm.Kernels) *packer { return goPacker(s) }
