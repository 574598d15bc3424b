// Package values keeps the decoded samples of a block: what formats of text make of their lines.
package values

import (
	"context"
	"fmt"

	"github.com/evenkeel/evenkeel/dataloader"
)

// Column is one field of the samples of a block: values of Bytes bytes each, or texts for a Decoder.
type Column struct {
	Name    string
	Bytes   int                // of a sample, 0 with a Decoder
	Decoder dataloader.Decoder // nil: values
	Data    []byte             // sample after sample
	Ends    []int              // with a Decoder: where each text ends in Data
}

// Columns are the samples of a block.
type Columns []Column

// Reset empties the columns, which keep their memory.
func (c Columns) Reset() {
	for k := range c {
		c[k].Data, c[k].Ends = c[k].Data[:0], c[k].Ends[:0]
	}
}

// EndText ends a text that was appended to Data.
func (c *Column) EndText() { c.Ends = append(c.Ends, len(c.Data)) }

// Fetch writes the sample in a row, as dataloader.Block does.
func (c Columns) Fetch(_ context.Context, row int, at dataloader.At, dst [][]byte) error {
	for k := range c {
		x := &c[k]
		if x.Decoder == nil {
			copy(dst[k], x.Data[row*x.Bytes:][:x.Bytes])
			continue
		}
		from := 0
		if row > 0 {
			from = x.Ends[row-1]
		}
		if err := x.Decoder.Decode(at, x.Data[from:x.Ends[row]], dst[k]); err != nil {
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
