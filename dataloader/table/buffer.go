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
	bad    []*Problem
}

// Reset empties the buffer, which keeps its memory, for the given number of rows of a target and at
// most limit bytes.
func (b *Buffer) Reset(t *Target, rows, limit int) {
	b.target, b.rows, b.limit, b.values = t, rows, limit, 0
	b.data, b.ends, b.bad = b.data[:0], b.ends[:0], b.bad[:0]
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

// Bad returns the problems of the rows that are bad because of their values, one of each row, in order. At
// is the number of a value in the buffer. Such values have a place in it, whose bytes have no meaning.
func (b *Buffer) Bad() []*Problem { return b.bad }

// Fail makes a row bad, unless it is: value number p.At is one of its values.
func (b *Buffer) Fail(p *Problem) {
	if n := len(b.bad); n == 0 || b.bad[n-1].At/b.target.Elements < p.At/b.target.Elements {
		b.bad = append(b.bad, p)
	}
}

// Append adds n values of a fixed size, packed in src. As with the other methods that add values, one
// that cannot be stored makes its row bad, and a Problem is one of the whole block: too many values or
// bytes, or more classes than are found.
func (b *Buffer) Append(src []byte, n int) *Problem {
	dst, p := b.room(n)
	if p != nil {
		return b.placed(p)
	}
	size, width := b.target.Size(), b.target.width
	for done := 0; done < n; {
		p := b.target.Convert(dst[done*size:], src[done*width:], n-done)
		if p == nil {
			break
		}
		done += p.At + 1
		p.At = b.values + done - 1
		b.Fail(p)
	}
	b.values += n
	return nil
}

// placed completes a problem of the next value.
func (b *Buffer) placed(p *Problem) *Problem {
	p.At += b.values
	return p
}

// AppendMissing adds n missing values.
func (b *Buffer) AppendMissing(n int) *Problem {
	if p := b.target.Missing(nil, 0); p != nil {
		return b.AppendBad(n, p.Want, p.Got)
	}
	dst, p := b.room(n)
	if p != nil {
		return b.placed(p)
	}
	b.target.Missing(dst, n) // no problem, as above
	b.values += n
	return nil
}

// AppendBad adds n bad values: want and got say why they are.
func (b *Buffer) AppendBad(n int, want, got string) *Problem {
	if b.target.Encoded() {
		for range n {
			if p := b.AppendBytes(nil); p != nil {
				return p
			}
			b.Fail(&Problem{At: b.values - 1, Want: want, Got: got})
		}
		return nil
	}
	if _, p := b.room(n); p != nil {
		return b.placed(p)
	}
	for to := b.values + n; b.values < to; b.values += min(b.target.Elements, to-b.values) {
		b.Fail(&Problem{At: b.values, Want: want, Got: got})
	}
	return nil
}

// AppendBytes adds one value of any length: a text, or bytes for the Decoder.
func (b *Buffer) AppendBytes(v []byte) *Problem {
	if b.target.Encoded() {
		if b.values >= b.rows {
			return b.placed(&Problem{Want: fmt.Sprintf("%d values", b.rows), Got: "more"})
		}
		if cap(b.ends) < b.rows && cap(b.ends) == len(b.ends) {
			b.ends = append(make([]int, 0, min(b.rows, 2*len(b.ends)+16)), b.ends...)
		}
		dst, p := b.grow(len(v), b.limit)
		if p != nil {
			return b.placed(p)
		}
		copy(dst, v)
		b.ends = append(b.ends, len(b.data))
		b.values++
		return nil
	}
	dst, p := b.room(1)
	if p != nil {
		return b.placed(p)
	}
	if p := b.target.Text(dst, v); p != nil {
		if b.target.Finding() { // more classes than are found
			return b.placed(p)
		}
		b.Fail(b.placed(p))
	}
	b.values++
	return nil
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
