package gemm

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// Most steps of k that a packed panel of B holds.
const (
	StepsFloat32 = 320 // the panel then fills half of the first-level cache
	stepsFloat64 = 256 // the same for elements of twice the size
)

// Distances at which rows compete for the same cache sets.
const (
	// Added to the row pitch of a packed block, so that its rows lie in different cache sets.
	PackedPitch = asm.CacheLine
	aliasPitch  = 4096 // bytes: rows that lie a multiple of this apart share cache sets
	// Most rows of a tile that may share them, of 8 ways that B needs too.
	aliasRows = 4
)

// RowPitch returns the bytes from row to row of n elements in a packed block.
func (s *Kernels) RowPitch(n int) int {
	pitch := asm.AlignLine(n * s.Size())
	if pitch%(4*PackedPitch) == 0 {
		pitch += PackedPitch
	}
	return pitch
}

// PanelBytes returns the size of a packed panel of B of kc elements along k.
func (s *Kernels) PanelBytes(kc int) int { return asm.AlignLine(kc * s.Cols * s.Size()) }

// DotBytes returns the size of the packed row that Dots reads, of kc elements.
func (s *Kernels) DotBytes(kc int) int { return asm.AlignLine(kc * s.Size()) }

// MaxSteps returns the most steps of k that a panel of B holds.
func (s *Kernels) MaxSteps() int {
	if s.Size() == 8 {
		return stepsFloat64
	}
	return StepsFloat32 * s.StepsPerElem()
}

// Aliases reports whether the rows of a tile of A compete for the same few cache sets where they
// lie lda bytes apart.
func (s *Kernels) Aliases(lda int) bool {
	return s.Rows*min(aliasPitch, lda&-lda)/aliasPitch > aliasRows
}

// AliasStride returns the least distance in bytes at which rows of a tile alias; they also do at
// each multiple of it. 0: rows never alias.
func (s *Kernels) AliasStride() int {
	for apart := s.Size(); apart <= aliasPitch; apart *= 2 {
		if s.Aliases(apart) {
			return apart
		}
	}
	return 0
}
