package layout

import (
	"errors"

	"github.com/evenkeel/evenkeel/internal/ir"
)

// Sentinels of packages trainer and vm. Both export them.
var (
	ErrModel = errors.New("bad model")
	ErrData  = errors.New("data do not fit the model")
	ErrIndex = errors.New("index outside the rows")
	// ErrDivision is the error of a division of integers by 0.
	ErrDivision = errors.New("division of an integer by 0")
)

// BadIndex is an index outside the rows of a table, or a divisor of 0, which a step has met.
type BadIndex struct {
	ir.Indices
	Index int64
	At    int // its position among all indices of the step
}

// FindBadIndex decodes the status word of a step. It returns false if the word names no bad index. indices are those of
// the program.
//
//	status: | code | position | index, low 32 bits | index, high 32 bits |
//
// A code of ir.FirstIndices - i stands for indices[i]. It is negative; the codes of values that are not finite are not.
func FindBadIndex(indices []ir.Indices, status []int32) (BadIndex, bool) {
	if len(status) == 0 || status[0] >= 0 {
		return BadIndex{}, false
	}
	return BadIndex{
		Indices: indices[ir.FirstIndices-status[0]],
		Index:   int64(uint32(status[2])) | int64(status[3])<<32,
		At:      int(status[1]),
	}, true
}
