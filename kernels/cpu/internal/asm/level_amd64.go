//go:build amd64 && !purego

package asm

import "golang.org/x/sys/cpu"

//go:generate go -C ../../../../internal/gen run ./hint -dir ../../kernels/cpu/internal/asm

// Best returns the highest level that this processor has.
func Best() Level {
	x := &cpu.X86
	switch {
	case !x.HasAVX2 || !x.HasFMA || !x.HasBMI2 || !x.HasF16C:
		return Portable
	case !x.HasAVX512F || !x.HasAVX512BW || !x.HasAVX512DQ || !x.HasAVX512VL:
		return AVX2
	}
	return AVX512
}

// HasBFloat16Dot reports whether this processor is at level AVX512 and also multiplies pairs of
// bfloat16 (AVX512-BF16).
func HasBFloat16Dot() bool { return Best() == AVX512 && cpu.X86.HasAVX512BF16 }
