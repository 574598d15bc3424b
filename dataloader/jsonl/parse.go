package jsonl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/number"
	"github.com/evenkeel/evenkeel/dataloader/internal/values"
)

// block is the decoded lines of a piece.
type block struct {
	values.Block
	fields []*field
	text   []byte // of the piece
	seen   []bool // by field: the line has it
	value  []byte // of a string
	full   bool   // a text was one more than the classes that are found
}

// newBlock returns a block of the fields, without memory.
func newBlock(fields []*field) *block {
	b := &block{Block: values.Block{Columns: make([]values.Column, len(fields))}, fields: fields, seen: make([]bool, len(fields))}
	for k, f := range fields {
		b.Columns[k] = values.Column{Name: f.Name, Bytes: f.bytes, Decoder: f.Decoder}
	}
	return b
}

// Load implements dataloader.BlockSource. A line that is bad has its error in the block.
func (l *lines) Load(ctx context.Context, i int, old dataloader.Block) (dataloader.Block, error) {
	b, ok := old.(*block)
	if !ok {
		b = newBlock(l.fields)
	}
	p := &l.pieces[i]
	var err error
	if b.text, err = l.read(ctx, p, b.text); err != nil {
		return nil, err
	}
	b.Reset()
	b.full = false
	for k := range b.Columns {
		x := &b.Columns[k]
		// A value takes two bytes of text or more, so that lines too short for theirs reserve no room.
		if n := int(min(int64(p.rows)*int64(x.Bytes), 4*int64(len(b.text)))); cap(x.Data) < n {
			x.Data = make([]byte, 0, n)
		}
	}
	row, number, offset := 0, p.line, p.from
	for line := range bytes.SplitAfterSeq(b.text, []byte{'\n'}) {
		if !blank(line) {
			if row == p.rows { // the file has changed
				return nil, problem(p.file.Name(), offset, number, fmt.Sprintf("%d lines in the piece, as before", p.rows), "more")
			}
			if !b.grow(b.Place(row)+1, l.opt.Memory) {
				return nil, problem(p.file.Name(), offset, number, fmt.Sprintf("values of a piece of at most %d bytes (Options.Memory)", l.opt.Memory), "more")
			}
			if at, want, got := b.parse(l, b.Place(row), line); want != "" {
				err := problem(p.file.Name(), offset+at, number, want, got)
				if b.full {
					return nil, err
				}
				if err := b.Fail(row, p.rows, err); err != nil {
					return nil, err
				}
			}
			row++
		}
		number, offset = number+1, offset+int64(len(line))
	}
	if row < p.rows {
		return nil, problem(p.file.Name(), offset, number, fmt.Sprintf("%d lines in the piece, as before", p.rows), fmt.Sprint(row))
	}
	return b, nil
}

// grow makes room for the values of some lines, unless all would take more than some bytes.
func (b *block) grow(lines int, most int64) bool {
	for _, x := range b.Columns {
		if x.Decoder != nil {
			most -= int64(len(x.Data))
		}
		most -= int64(lines) * int64(x.Bytes)
	}
	if most < 0 {
		return false
	}
	for k := range b.Columns {
		x := &b.Columns[k]
		if x.Decoder == nil {
			n := lines * x.Bytes
			x.Data = slices.Grow(x.Data, max(0, n-len(x.Data)))[:n]
		}
	}
	return true
}

// parse decodes a line into a place. want is "", or what was wanted at byte at of the line.
func (b *block) parse(l *lines, place int, line []byte) (at int64, want, got string) {
	if n := len(bytes.TrimRight(line, "\r\n")); n > l.opt.Line {
		return 0, fmt.Sprintf("at most %d bytes (Options.Line)", l.opt.Line), fmt.Sprint(n)
	}
	clear(b.seen)
	d := jsontext.NewDecoder(bytes.NewBuffer(line))
	if d.PeekKind() != '{' {
		if _, err := d.ReadValue(); err != nil {
			return syntax(d, err)
		}
		return 0, "an object", "another value"
	}
	if at, want, got = b.object(d, l.root, place); want != "" {
		return at, want, got
	}
	end := d.InputOffset()
	if _, err := d.ReadToken(); err != io.EOF {
		return end, "nothing after the object", "more text"
	}
	for k, f := range l.fields {
		if b.seen[k] {
			continue
		}
		if want, _ = b.missing(k, place); want != "" {
			return d.InputOffset(), want, fmt.Sprintf("no member %q", f.Path)
		}
	}
	return 0, "", ""
}

// syntax describes an error of the decoder.
func syntax(d *jsontext.Decoder, err error) (at int64, want, got string) {
	var bad *jsontext.SyntacticError
	if errors.As(err, &bad) && bad.Err != nil {
		return bad.ByteOffset, "JSON", bad.Err.Error()
	}
	return d.InputOffset(), "JSON", err.Error()
}

// object walks over the members of an object.
func (b *block) object(d *jsontext.Decoder, n *node, place int) (at int64, want, got string) {
	if _, err := d.ReadToken(); err != nil { // {
		return syntax(d, err)
	}
	for d.PeekKind() == '"' {
		key, err := d.ReadToken()
		if err != nil {
			return syntax(d, err)
		}
		child := n.children[key.String()]
		switch {
		case child == nil:
			if err := d.SkipValue(); err != nil {
				return syntax(d, err)
			}
		case child.children != nil && d.PeekKind() == '{':
			if at, want, got = b.object(d, child, place); want != "" {
				return at, want, got
			}
		default:
			at := d.InputOffset()
			v, err := d.ReadValue()
			if err != nil {
				return syntax(d, err)
			}
			if child.children != nil && v.Kind() != 'n' {
				return at, "an object, for a path leads into this member", values.Shorten(v)
			}
			for _, k := range child.fields {
				if want, got := b.store(k, place, v); want != "" {
					return at, fmt.Sprintf("%s in %q", want, b.fields[k].Path), got
				}
			}
		}
	}
	if _, err := d.ReadToken(); err != nil { // }
		return syntax(d, err)
	}
	return 0, "", ""
}

// missing fills a field of a line that has no value for it.
func (b *block) missing(k, place int) (want, got string) {
	f := b.fields[k]
	if f.found != nil {
		return "", ""
	}
	if f.Decoder != nil {
		return "a value for the Decoder", "null"
	}
	if f.Fill == nil {
		return "a value, or Field.Fill for missing ones", "null"
	}
	for i := range f.elems {
		number.Put(f.Type, b.Columns[k].Data[place*f.bytes+i*f.size:], *f.Fill)
	}
	return "", ""
}

// store writes a value of a field.
func (b *block) store(k, place int, v jsontext.Value) (want, got string) {
	f := b.fields[k]
	b.seen[k] = true
	if v.Kind() == 'n' {
		return b.missing(k, place)
	}
	if f.Decoder != nil {
		x := &b.Columns[k]
		if v.Kind() == '"' {
			var err error
			if x.Data, err = jsontext.AppendUnquote(x.Data, v); err != nil {
				return "a string", err.Error()
			}
		} else {
			x.Data = append(x.Data, v...)
		}
		x.EndText()
		return "", ""
	}
	rest, want, got := b.list(f, f.Shape, b.Columns[k].Data[place*f.bytes:][:f.bytes], v)
	if want == "" && len(rest) > 0 {
		return "a value", "less"
	}
	return want, got
}

// list writes the elements of nested lists to dst, and returns what is left of it.
func (b *block) list(f *field, shape []int, dst []byte, v jsontext.Value) (rest []byte, want, got string) {
	if len(shape) == 0 {
		want, got = b.element(f, dst[:f.size], v)
		return dst[f.size:], want, got
	}
	if v.Kind() != '[' {
		return nil, fmt.Sprintf("a list of %d", shape[0]), values.Shorten(v)
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(v))
	d.ReadToken() // the text is valid
	n := 0
	for ; d.PeekKind() != ']'; n++ {
		inner, err := d.ReadValue()
		if err != nil || n == shape[0] {
			return nil, fmt.Sprintf("a list of %d", shape[0]), "more"
		}
		if dst, want, got = b.list(f, shape[1:], dst, inner); want != "" {
			return nil, want, got
		}
	}
	if n < shape[0] {
		return nil, fmt.Sprintf("a list of %d", shape[0]), fmt.Sprint(n)
	}
	return dst, "", ""
}

// element writes one value.
func (b *block) element(f *field, dst []byte, v jsontext.Value) (want, got string) {
	kind := v.Kind()
	switch {
	case kind == 'n' && f.Fill != nil:
		number.Put(f.Type, dst, *f.Fill)
		return "", ""
	case kind == 'n' && f.found != nil: // an error when the value is read
		return "", ""
	case f.labels.Used() && kind == '"':
		b.value, _ = jsontext.AppendUnquote(b.value[:0], v) // the text is valid
		if f.found != nil {
			want = f.found.Add(b.value)
			b.full = b.full || want != ""
			return want, "more of them"
		}
		i, ok := f.labels.Of(b.value)
		if !ok {
			return fmt.Sprintf("one of %d classes", f.labels.Len()), values.Shorten(v)
		}
		number.PutInt(f.Type, dst, int64(i))
		return "", ""
	case f.labels.Used():
		return "a string", values.Shorten(v)
	case kind == 't' || kind == 'f':
		x := 0.0
		if kind == 't' {
			x = 1
		}
		number.Put(f.Type, dst, x)
		return "", ""
	case kind == '"':
		return "a number", values.Shorten(v) + ": for texts set Field.FindClasses, for a missing value write null and set Field.Fill"
	case kind != '0':
		return "a number", values.Shorten(v)
	}
	if wrong := number.Store(f.Type, dst, v); wrong != "" {
		return fmt.Sprintf("a number that %v holds", f.Type), fmt.Sprintf("%s, %s", values.Shorten(v), wrong)
	}
	return "", ""
}
