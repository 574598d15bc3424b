package values

import "fmt"

// mostBad is the number of rows of a block that may be bad, in addition to one in badShare: their
// errors are in memory.
const (
	mostBad  = 1024
	badShare = 16
)

// Bad holds the errors of the rows of a block that cannot be decoded. The zero value has none. One
// goroutine adds to it; then Row and First may be called by many at once.
type Bad struct {
	rows  map[int]error
	first error
}

// Reset removes all errors.
func (b *Bad) Reset() {
	clear(b.rows)
	b.first = nil
}

// Add notes err as the error of a row, unless it has one. If more than 1,024 and a sixteenth of all
// rows of the block are bad, it returns an error for the whole block, which wraps the first one.
func (b *Bad) Add(row, rows int, err error) error {
	if b.rows[row] != nil {
		return nil
	}
	if b.rows == nil {
		b.rows = map[int]error{}
	}
	if b.first == nil {
		b.first = err
	}
	b.rows[row] = err
	if len(b.rows) > mostBad+rows/badShare {
		return fmt.Errorf("more than %d of %d rows are bad, the first: %w", len(b.rows)-1, rows, b.first)
	}
	return nil
}

// Row returns the error of a row, or nil.
func (b *Bad) Row(row int) error { return b.rows[row] }

// First returns the error that was added first, or nil.
func (b *Bad) First() error { return b.first }
