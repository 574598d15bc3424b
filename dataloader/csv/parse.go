package csv

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"unicode"

	"github.com/evenkeel/evenkeel/dataloader/internal/number"
	"github.com/evenkeel/evenkeel/dataloader/internal/values"
)

// parser walks over the values of some records.
type parser struct {
	file    *file
	from    int64 // offset of buf
	line    int   // number of the line of from
	buf     []byte
	pos     int
	start   int    // of the last value
	scratch []byte // of a value with quotes inside

	counted, ends int // ends lines of buf[:counted]
}

// problem returns the error for the last value.
func (p *parser) problem(what, want, got string) error {
	eol := []byte{p.file.eol}
	p.ends += bytes.Count(p.buf[min(p.counted, p.start):p.start], eol) - bytes.Count(p.buf[min(p.counted, p.start):p.counted], eol)
	p.counted = p.start
	return p.file.problem(p.from+int64(p.start), p.line+p.ends, what, want, got)
}

// skip passes over a blank line or a comment, and reports whether it has.
func (p *parser) skip() bool {
	if p.pos >= len(p.buf) {
		return false
	}
	switch c := p.buf[p.pos]; {
	case c == p.file.eol:
		p.pos++
		return true
	case c == '\r' && (p.pos+1 == len(p.buf) || p.buf[p.pos+1] == '\n'):
		p.pos = min(p.pos+2, len(p.buf))
		return true
	case c == p.file.comment && c != 0:
		for p.pos < len(p.buf) && p.buf[p.pos] != p.file.eol {
			p.pos++
		}
		return true
	}
	return false
}

// value returns the next value, which is valid until the next call.
func (p *parser) value() ([]byte, error) {
	b, i, comma, eol := p.buf, p.pos, p.file.comma, p.file.eol
	p.start = i
	if i < len(b) && b[i] == '"' {
		return p.quoted()
	}
	for i < len(b) {
		c := b[i]
		if c == comma || c == eol || c == '\r' {
			break
		}
		if c == '"' {
			return nil, p.problem("quote", "quotes around the whole value", fmt.Sprintf("one inside, after %q", values.Shorten(b[p.start:i])))
		}
		i++
	}
	p.pos = i
	return b[p.start:i], nil
}

// quoted returns a value in quotes.
func (p *parser) quoted() ([]byte, error) {
	b, from := p.buf, p.pos+1
	p.scratch = p.scratch[:0]
	for i := from; i < len(b); i++ {
		if b[i] != '"' {
			continue
		}
		if i+1 < len(b) && b[i+1] == '"' {
			p.scratch = append(p.scratch, b[from:i+1]...)
			i++
			from = i + 1
			continue
		}
		p.pos = i + 1
		if len(p.scratch) == 0 {
			return b[from:i], nil
		}
		p.scratch = append(p.scratch, b[from:i]...)
		return p.scratch, nil
	}
	return nil, p.problem("quote", "a quote that closes it", "none")
}

// separator passes over what follows a value, and reports whether it is the end of the record.
func (p *parser) separator() (last bool, err error) {
	if p.pos == len(p.buf) {
		return true, nil
	}
	c := p.buf[p.pos]
	p.pos++
	switch {
	case c == p.file.comma:
		return false, nil
	case c == p.file.eol:
		return true, nil
	case c == '\r' && p.pos == len(p.buf):
		return true, nil
	case c == '\r' && p.buf[p.pos] == '\n':
		p.pos++
		return true, nil
	}
	p.start = p.pos - 1
	return false, p.problem("value", "a separator or the end of the line", fmt.Sprintf("%q", c))
}

// block is the decoded records of a piece.
type block struct {
	values.Block
	parser parser // its memory
}

// newBlock returns a block of the fields, without memory.
func newBlock(fields []*field) *block {
	b := &block{Block: values.Block{Columns: make([]values.Column, len(fields))}}
	for k, f := range fields {
		b.Columns[k] = values.Column{Name: f.Name, Bytes: f.bytes, Decoder: f.Decoder}
	}
	return b
}

// makeRoom empties the block and makes room for rows.
func (b *block) makeRoom(rows int) {
	b.Reset()
	for k := range b.Columns {
		x := &b.Columns[k]
		if n := rows * x.Bytes; cap(x.Data) < n {
			x.Data = make([]byte, n)
		} else {
			x.Data = x.Data[:n]
		}
	}
}

// load decodes a piece into the block. A record that is bad has its error in the block.
func (t *tables) load(ctx context.Context, p *piece, b *block) error {
	buf, err := p.read(ctx, b.parser.buf)
	if err != nil {
		return err
	}
	if p.rows > (len(buf)+1)/len(t.names) { // too few bytes for all values: find the record, without room for them
		ignore := func(_, _ int, _ []byte) error { return nil }
		if err := t.records(p, &b.parser, buf, ignore, func(_ int, err error) error { return err }); err != nil {
			return err
		}
	}
	b.makeRoom(p.rows)
	store := func(row, column int, v []byte) error {
		for _, x := range t.targets[column] {
			if err := b.store(&b.parser, row, x, v, t.missing); err != nil {
				return err
			}
		}
		return nil
	}
	return t.records(p, &b.parser, buf, store, func(row int, err error) error { return b.Fail(row, p.rows, err) })
}

// records calls each for every value of the columns that have targets. A record that violates the
// format, or in which each returns an error, is given to bad with that error; records goes on with the
// next one unless bad returns an error.
func (t *tables) records(p *piece, walk *parser, buf []byte, each func(row, column int, v []byte) error, bad func(row int, err error) error) error {
	walk.file, walk.from, walk.line, walk.buf, walk.pos, walk.counted, walk.ends = p.file, p.from, p.line, buf, 0, 0, 0
	for row := 0; row < p.rows; row++ {
		for walk.skip() {
		}
		if walk.pos == len(buf) { // the file has changed
			walk.start = walk.pos
			return walk.problem("record", fmt.Sprintf("%d records in the piece, as before", p.rows), fmt.Sprint(row))
		}
		record := walk.pos
		if err := t.record(walk, row, each); err != nil {
			if err := bad(row, err); err != nil {
				return err
			}
			walk.pos = record
			walk.skipRecord()
		}
	}
	for walk.skip() {
	}
	if walk.start = walk.pos; walk.pos < len(buf) {
		return walk.problem("record", "the end of the piece", "more records than lines")
	}
	return nil
}

// record calls each for the values of a record.
func (t *tables) record(walk *parser, row int, each func(row, column int, v []byte) error) error {
	columns, record := len(t.names), walk.pos
	for column := 0; ; column++ {
		v, err := walk.value()
		if err != nil {
			return err
		}
		if column < columns && t.targets[column] != nil {
			if err := each(row, column, v); err != nil {
				return err
			}
		}
		last, err := walk.separator()
		switch {
		case err != nil:
			return err
		case last && column+1 != columns:
			walk.start = record
			return walk.problem("record", fmt.Sprintf("%d values, as in the first record", columns), fmt.Sprint(column+1))
		case last:
			return nil
		}
	}
}

// skipRecord passes over a record, which ends where the scanner ended it: at the first line end
// that is not between two quotes.
func (p *parser) skipRecord() {
	for inside := false; p.pos < len(p.buf); {
		c := p.buf[p.pos]
		p.pos++
		if c == '"' {
			inside = !inside
		} else if c == p.file.eol && !inside {
			return
		}
	}
}

// store writes a value.
func (b *block) store(p *parser, row int, x target, v []byte, missing map[string]bool) error {
	f, column := x.field, &b.Columns[x.at]
	if f.Decoder != nil {
		column.Data = append(column.Data, v...)
		column.EndText()
		return nil
	}
	dst := column.Data[b.Place(row)*f.bytes+x.place*f.size:][:f.size]
	if f.labels.Used() {
		if i, ok := f.labels.Of(v); ok {
			number.PutInt(f.Type, dst, int64(i))
			return nil
		}
	}
	var wrong string
	switch {
	case len(v) == 0 || len(missing) > 0 && missing[string(v)]:
		if f.Fill == nil {
			return p.problem(f.what(x), "a value, or Field.Fill for missing ones", fmt.Sprintf("%q", v))
		}
		number.Put(f.Type, dst, f.fill)
		return nil
	case f.labels.Used():
		wrong = "another text"
	default:
		wrong = number.Store(f.Type, dst, v)
	}
	if wrong == "" {
		return nil
	}
	if n, ok := nonFinite(v); ok && f.Type.Float() {
		if f.NonFinite {
			number.Put(f.Type, dst, n)
			return nil
		}
		return p.problem(f.what(x), "a finite number, or Field.NonFinite", fmt.Sprintf("%q", v))
	}
	want := fmt.Sprintf("a number that %v holds", f.Type)
	if f.labels.Used() {
		want = fmt.Sprintf("one of %d classes", f.labels.Len())
	}
	hint := ""
	if wrong == "no number" && strings.ContainsFunc(string(v), unicode.IsLetter) {
		hint = ": for texts set Field.FindClasses, for a missing value Field.Fill and Options.Missing"
	}
	return p.problem(f.what(x), want, fmt.Sprintf("%q, %s%s", values.Shorten(v), wrong, hint))
}

// what describes a value.
func (f *field) what(x target) string { return fmt.Sprintf("value of column %q", f.Columns[x.place]) }

// nonFinite returns the NaN or infinity that a text is.
func nonFinite(v []byte) (float64, bool) {
	word, sign := string(v[:min(len(v), 10)]), 1
	if word != "" && (word[0] == '-' || word[0] == '+') {
		if word[0] == '-' {
			sign = -1
		}
		word = word[1:]
	}
	switch {
	case strings.EqualFold(word, "nan"):
		return math.NaN(), true
	case strings.EqualFold(word, "inf"), strings.EqualFold(word, "infinity"):
		return math.Inf(sign), true
	}
	return 0, false
}
