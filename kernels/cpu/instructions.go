package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

// Instructions is a set of processor instructions that kernels use. Each includes the sets before
// it.
type Instructions uint8

// The sets. AVX2 and AVX512 give the same bits, and AVX512BF16 does except in products of bfloat16.
// Portable, plain Go, rounds differently.
const (
	Best       Instructions = iota // the last of the sets below that this processor has
	Portable                       // plain Go
	AVX2                           // AVX2 and FMA, 256 bits
	AVX512                         // AVX-512 F, BW, DQ and VL, 512 bits
	AVX512BF16                     // AVX512 and products of bfloat16
)

// instructionNames holds the names of the sets.
var instructionNames = [...]string{"best", "portable", "avx2", "avx512", "avx512bf16"}

// String returns the name that UnmarshalText reads.
func (i Instructions) String() string {
	if int(i) < len(instructionNames) {
		return instructionNames[i]
	}
	return fmt.Sprintf("Instructions(%d)", uint8(i))
}

// MarshalText returns the name.
func (i Instructions) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText sets i by its name: best, portable, avx2, avx512 or avx512bf16. An empty name is
// best.
func (i *Instructions) UnmarshalText(name []byte) error {
	if len(name) == 0 {
		*i = Best
		return nil
	}
	for at, s := range instructionNames {
		if s == string(name) {
			*i = Instructions(at)
			return nil
		}
	}
	return fmt.Errorf("instructions %q: there are %v", name, instructionNames)
}

// InstructionsError is the error of Open for instructions that this build or processor lacks.
// It wraps kernels.ErrUnsupported.
type InstructionsError struct {
	Want, Have Instructions
}

// Error names the instructions that were asked for and the best that there are.
func (e *InstructionsError) Error() string {
	return fmt.Sprintf("needs %v instructions, this build and processor have %v at most", e.Want, e.Have)
}

// Unwrap returns kernels.ErrUnsupported.
func (e *InstructionsError) Unwrap() error { return kernels.ErrUnsupported }

// bestInstructions returns the last set that this build and processor have.
func bestInstructions() Instructions {
	if gemm.BFloat16Pairs() != nil {
		return AVX512BF16
	}
	return Portable + Instructions(asm.Best())
}

// resolve returns the set for i on this processor, which is never Best. It returns an error where
// the processor does not have it.
func (i Instructions) resolve() (Instructions, error) {
	best := bestInstructions()
	switch {
	case i == Best:
		return best, nil
	case i > best:
		return Portable, &InstructionsError{Want: i, Have: best}
	}
	return i, nil
}

// level returns the level of the kernels, except of products of bfloat16.
func (i Instructions) level() asm.Level { return min(asm.Level(i-Portable), asm.AVX512) }
