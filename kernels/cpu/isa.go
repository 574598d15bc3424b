package cpu

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// An isa is a set of matmul kernels for one element type: one for each instruction set that was generated, and
// the portable one in Go. The assembly ones give the same bits: tiles sum in the order of k, dots in eight or four lanes.
type isa struct {
	name  string
	typ   arena.DType
	rows  int // most rows of a tile
	cols  int // columns of a tile, and of a packed panel of B
	lanes int // rows that packCols transposes at once: a divisor of cols

	// tiles holds the kernels by rows: for up to cols columns, and for up to half of that (nil: none).
	tiles, halves []func(t *tile)
	packs         bool // tiles of cols columns can pack the panel of B as they read it
	// packRows copies k rows of n bytes, stride bytes apart, to rows of cols elements, filled up with zeros.
	packRows func(dst, src []byte, k, stride, n int)
	// packCols transposes n <= lanes rows of k elements, stride bytes apart, to k rows of lanes, pitch bytes apart.
	// Elements of rows from n on can be anything.
	packCols func(dst, src []byte, k, stride, n, pitch int)
	// prefetch brings the first n bytes of rows that lie stride bytes apart into the second-level cache. Nil: cannot.
	prefetch func(src []byte, rows, stride, n int)
	// line is a tile of one row and so many columns that all exist, several times cols, with B as it lies in memory: it
	// reads more at a time of rows that are used only once. Nil: none.
	line              func(t *tile)
	lineCols          int
	bfloat16, float16 *rounding // of factors that are rounded. Nil: none
	// plain is the isa of float32 beside one of pairs of bfloat16, which are then its elements of A and B. Nil: elements are single.
	plain *isa
	// dots multiplies row a with n <= 8 rows of B, stepB bytes apart, into neighbours in c. It knows flagAdd only. Nil: none.
	dots func(t *tile)
}

// A tile is the arguments of a kernel: up to rows x cols elements of C. The assembly knows the fields' offsets.
type tile struct {
	a, b, c []byte // first element of each
	bias    []byte // of the tile's first column
	k       int    // steps
	rowA    int    // bytes from row to row of A
	stepA   int    // bytes from column to column of A
	stepB   int    // bytes from row to row of B, whose full rows of cols elements can be read
	rowC    int    // bytes from row to row of C
	n       int    // columns that exist
	flags   int
	rows    int // rows that exist
	more    int // tiles of as many rows below this one, to be computed too; the kernel counts them down
	//lint:ignore U1000 the assembly keeps them here
	mxcsr [2]uint32 // the control register as the kernel found it, and as it set it
	panel []byte    // where a tile of an isa that packs puts the rows of B, unless nil; more is then 0
	kind  int       // how lines, dots and tiles that pack make float32 of B
}

// Kinds of B.
const (
	kindFloat         = iota // as it lies
	kindRoundBfloat16        // float32, to be rounded
	kindRoundFloat16
	kindWidenBfloat16 // stored in 16 bits
	kindWidenFloat16
)

// What a kernel does with its sums besides storing them, in this order.
const (
	flagAdd  = 1 << iota // add what C holds
	flagBias             // add the bias
	flagRelu             // clear what is below zero
)

// size is the bytes of an element.
func (s *isa) size() int { return int(s.typ.Size()) }

// single is s, or the isa of float32 beside one of pairs.
func (s *isa) single() *isa {
	if s.plain != nil {
		return s.plain
	}
	return s
}

// step is the steps of k in an element of A and B.
func (s *isa) step() int {
	if s.plain != nil {
		return 2
	}
	return 1
}

// elems returns the elements of A and B that so many steps of k take.
func (s *isa) elems(steps int) int { return over(steps, s.step()) }

// whole reports whether there is a kernel for just n columns, none included: such a tile needs no edge.
func (s *isa) whole(n int) bool {
	return n == 0 || n == s.cols || s.halves != nil && 2*n == s.cols
}

// isaFor returns the kernels for t at a level that the processor has, nil for a type that has none.
func isaFor(l asm.Level, t arena.DType) *isa {
	for _, s := range isasAt(l) {
		if s.typ == t {
			return s
		}
	}
	return nil
}

// isas lists the kernels that this processor can run, fastest first.
func isas() []*isa {
	var list []*isa
	for l := int(asm.Best()); l >= 0; l-- {
		list = append(list, isasAt(asm.Level(l))...)
	}
	return list
}
