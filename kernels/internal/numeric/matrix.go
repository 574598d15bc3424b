package numeric

import (
	"math"

	"github.com/evenkeel/evenkeel/arena"
)

// MostSquare is the upper limit of Adafactor's means of squares: the largest number of their type,
// or for float64 a smaller one, so that sums of means are finite.
func MostSquare(t arena.DType) float64 {
	if t == arena.Float32 {
		return math.MaxFloat32
	}
	return 0x1p960
}

// Matrices returns how Adafactor divides a parameter of a shape into matrices: those of its last
// two dimensions. A vector is one matrix of one column, for which the product of its means is the
// mean itself: it is not factored.
func Matrices(param []int) (matrices, rows, columns int) {
	product := func(dims []int) int {
		n := 1
		for _, d := range dims {
			n *= d
		}
		return n
	}
	n := len(param)
	if n < 2 {
		return 1, product(param), 1
	}
	return product(param[:n-2]), param[n-2], param[n-1]
}
