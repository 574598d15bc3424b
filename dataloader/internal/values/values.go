// Package values keeps the decoded samples of a block: what formats of text make of their lines, and
// the errors of those that cannot be decoded.
package values

import (
	"context"
	"fmt"
	"sort"

	"github.com/evenkeel/evenkeel/dataloader"
)

// Column is one field of the samples of a block: values of Bytes bytes each, or texts for a Decoder.
type Column struct {
	Name    string
	Bytes   int                // of a sample, 0 with a Decoder
	Decoder dataloader.Decoder // nil: values
	Data    []byte             // good sample after good sample
	Ends    []int              // with a Decoder: where each text ends in Data
}

// EndText ends a text that was appended to Data.
func (c *Column) EndText() { c.Ends = append(c.Ends, len(c.Data)) }

// textStart returns where the text in a place begins in Data.
func (c *Column) textStart(place int) int {
	if place == 0 {
		return 0
	}
	return c.Ends[place-1]
}

// Block is the samples of a block. It implements dataloader.Block. A bad row has no place in the
// columns.
type Block struct {
	Columns []Column
	Bad     Bad
	skipped []int // bad rows, in increasing order
}

// Reset empties the block, which keeps its memory.
func (b *Block) Reset() {
	for k := range b.Columns {
		b.Columns[k].Data, b.Columns[k].Ends = b.Columns[k].Data[:0], b.Columns[k].Ends[:0]
	}
	b.Bad.Reset()
	b.skipped = b.skipped[:0]
}

// Place returns the number of good rows before a row: its place in the columns if it is good.
func (b *Block) Place(row int) int { return row - sort.SearchInts(b.skipped, row) }

// Fail notes the error of a row, the last one so far, and takes its texts out of the columns. It
// returns an error if the whole block of rows samples is bad, as [Bad.Add] does.
func (b *Block) Fail(row, rows int, err error) error {
	place := b.Place(row)
	for k := range b.Columns {
		if x := &b.Columns[k]; x.Decoder != nil {
			x.Data, x.Ends = x.Data[:x.textStart(place)], x.Ends[:place]
		}
	}
	b.skipped = append(b.skipped, row)
	return b.Bad.Add(row, rows, err)
}

// Fetch writes the sample in a row, as dataloader.Block does.
func (b *Block) Fetch(_ context.Context, row int, at dataloader.At, dst [][]byte) error {
	if err := b.Bad.Row(row); err != nil {
		return err
	}
	place := b.Place(row)
	for k := range b.Columns {
		x := &b.Columns[k]
		if x.Decoder == nil {
			copy(dst[k], x.Data[place*x.Bytes:][:x.Bytes])
			continue
		}
		if err := x.Decoder.Decode(at, x.Data[x.textStart(place):x.Ends[place]], dst[k]); err != nil {
			return fmt.Errorf("field %q: %w", x.Name, err)
		}
	}
	return nil
}

// Shorten bounds a text from a file for an error.
func Shorten(b []byte) string {
	const most = 60
	if len(b) <= most {
		return string(b)
	}
	return string(b[:most]) + "…"
}
