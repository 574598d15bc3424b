package table

import (
	"fmt"

	"github.com/evenkeel/evenkeel/dataloader"
)

// Buffer holds the decoded values of a column for the rows of one block, in the storage type of the
// field, or encoded for a Decoder. One goroutine fills it; then Fetch is safe for concurrent use.
// The zero value is ready for Reset.
type Buffer struct {
	target *Target
	data   []byte
	ends   []int // Variable and Encoded only: the end of each row in data
	rows   int   // rows that it will hold
	limit  int   // bytes that it may hold
	values int   // values so far
}

// Reset empties the buffer, which keeps its memory, for the given number of rows of a target and at
// most limit bytes.
func (b *Buffer) Reset(t *Target, rows, limit int) {
	b.target, b.rows, b.limit, b.values = t, rows, limit, 0
	b.data, b.ends = b.data[:0], b.ends[:0]
}

// Values returns the number of values so far, missing ones included.
func (b *Buffer) Values() int { return b.values }

// Used returns the bytes of the values so far.
func (b *Buffer) Used() int64 { return int64(len(b.data)) }

// room makes room for n values of a fixed size and returns it.
func (b *Buffer) room(n int) ([]byte, *Problem) {
	if n > b.rows*b.target.Elements-b.values {
		return nil, &Problem{Want: fmt.Sprintf("%d values", b.rows*b.target.Elements), Got: "more"}
	}
	size := b.target.Size()
	return b.grow(n*size, b.rows*b.target.Elements*size)
}

// grow makes data n bytes longer and returns those. It will get no longer than most bytes.
func (b *Buffer) grow(n, most int) ([]byte, *Problem) {
	at := len(b.data)
	if n > b.limit-at {
		return nil, &Problem{Want: fmt.Sprintf("at most %d bytes of the column in a block (Options.Limit)", b.limit), Got: "more"}
	}
	if need := at + n; need > cap(b.data) {
		grown := make([]byte, at, min(max(need, 2*cap(b.data)), max(need, most), b.limit))
		copy(grown, b.data)
		b.data = grown
	}
	b.data = b.data[:at+n]
	return b.data[at:], nil
}

// Append adds n values of a fixed size, packed in src.
func (b *Buffer) Append(src []byte, n int) *Problem {
	dst, p := b.room(n)
	if p == nil {
		p = b.target.Convert(dst, src, n)
	}
	return b.added(n, p)
}

// added counts n values, or completes the problem of one.
func (b *Buffer) added(n int, p *Problem) *Problem {
	if p != nil {
		p.At += b.values
		return p
	}
	b.values += n
	return nil
}

// AppendMissing adds n missing values.
func (b *Buffer) AppendMissing(n int) *Problem {
	if b.target.filled == nil {
		return b.added(n, b.target.Missing(nil, n))
	}
	dst, p := b.room(n)
	if p == nil {
		p = b.target.Missing(dst, n)
	}
	return b.added(n, p)
}

// AppendBytes adds one value of any length: a text, or bytes for the Decoder.
func (b *Buffer) AppendBytes(v []byte) *Problem {
	var dst []byte
	var p *Problem
	if b.target.Encoded() {
		if b.values >= b.rows {
			return &Problem{At: b.values, Want: fmt.Sprintf("%d values", b.rows), Got: "more"}
		}
		if cap(b.ends) < b.rows && cap(b.ends) == len(b.ends) {
			b.ends = append(make([]int, 0, min(b.rows, 2*len(b.ends)+16)), b.ends...)
		}
		if dst, p = b.grow(len(v), b.limit); p == nil {
			copy(dst, v)
			b.ends = append(b.ends, len(b.data))
		}
		return b.added(1, p)
	}
	if dst, p = b.room(1); p == nil {
		p = b.target.Text(dst, v)
	}
	return b.added(1, p)
}

// Fetch writes the field of a row; at is its sample.
func (b *Buffer) Fetch(row int, at dataloader.At, dst []byte) error {
	t := b.target
	if !t.Encoded() {
		copy(dst, b.data[row*t.bytes:(row+1)*t.bytes])
		return nil
	}
	return t.Decode(at, b.Encoded(row), dst)
}

// Encoded returns the bytes of a row of an Encoded target, which are the buffer's.
func (b *Buffer) Encoded(row int) []byte {
	from := 0
	if row > 0 {
		from = b.ends[row-1]
	}
	return b.data[from:b.ends[row]]
}
