package asm

// Level selects a table of kernels. A higher level needs all instructions of the lower ones.
type Level uint8

const (
	Portable Level = iota // plain Go
	AVX2                  // AVX2, FMA, BMI2 and F16C: vectors of 256 bits
	AVX512                // AVX-512 F, BW, DQ and VL: vectors of 512 bits
)
