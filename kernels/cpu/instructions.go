package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/kernels"
)

// Instructions is a set of processor instructions that the kernels are written in. Each includes those before it.
type Instructions uint8

// The sets. AVX2 and AVX512 give the same bits; Portable, which is plain Go, rounds otherwise.
const (
	Best     Instructions = iota // the last of the others that the processor has
	Portable                     // plain Go
	AVX2                         // AVX2 and FMA, 256 bits
	AVX512                       // AVX-512 F, BW, DQ and VL, 512 bits
)

var instructionNames = [...]string{"best", "portable", "avx2", "avx512"}

// String returns the name that UnmarshalText reads.
func (i Instructions) String() string {
	if int(i) < len(instructionNames) {
		return instructionNames[i]
	}
	return fmt.Sprintf("Instructions(%d)", uint8(i))
}

// MarshalText returns the name.
func (i Instructions) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText sets i by its name: best or nothing, portable, avx2 or avx512.
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

// InstructionsError says that a device was opened for instructions that this build or processor lacks.
// It wraps kernels.ErrUnsupported.
type InstructionsError struct {
	Want, Have Instructions
}

// Error names both.
func (e *InstructionsError) Error() string {
	return fmt.Sprintf("needs %v instructions, this build and processor have %v at most", e.Want, e.Have)
}

// Unwrap returns kernels.ErrUnsupported.
func (e *InstructionsError) Unwrap() error { return kernels.ErrUnsupported }

// level is what Instructions come down to on this processor: which table of kernels a device uses.
type level uint8

const (
	levelPortable level = iota
	levelAVX2
	levelAVX512
)

// instructions returns the level's public name.
func (l level) instructions() Instructions { return Portable + Instructions(l) }

// level returns the level that i asks for, or an error where it is not available.
func (i Instructions) level() (level, error) {
	best := bestLevel()
	switch {
	case i == Best:
		return best, nil
	case i > best.instructions():
		return levelPortable, &InstructionsError{Want: i, Have: best.instructions()}
	}
	return level(i - Portable), nil
}
