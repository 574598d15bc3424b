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
)

// block is the decoded lines of a piece.
type block struct {
	fields []*field
	text   []byte   // of the piece
	data   [][]byte // by field: numbers, or texts for a Decoder
	ends   [][]int  // by field with a Decoder: where each text ends
	seen   []bool   // by field: the line has it
	value  []byte   // of a string
}

// Fetch copies a sample.
func (b *block) Fetch(_ context.Context, row int, at dataloader.At, dst [][]byte) error {
	for k, f := range b.fields {
		if f.Decoder == nil {
			copy(dst[k], b.data[k][row*f.bytes:][:f.bytes])
			continue
		}
		from := 0
		if row > 0 {
			from = b.ends[k][row-1]
		}
		if err := f.Decoder.Decode(at, b.data[k][from:b.ends[k][row]], dst[k]); err != nil {
			return fmt.Errorf("field %q: %w", f.Name, err)
		}
	}
	return nil
}

// Load implements dataloader.BlockSource.
func (l *lines) Load(ctx context.Context, i int, old dataloader.Block) (dataloader.Block, error) {
	b, ok := old.(*block)
	if !ok {
		n := len(l.fields)
		b = &block{fields: l.fields, data: make([][]byte, n), ends: make([][]int, n), seen: make([]bool, n)}
	}
	p := &l.pieces[i]
	var err error
	if b.text, err = l.read(ctx, p, b.text); err != nil {
		return nil, err
	}
	for k, f := range l.fields {
		// A value takes two bytes of text or more, so that lines too short for theirs reserve no room.
		if n := int(min(int64(p.rows)*int64(f.bytes), 4*int64(len(b.text)))); cap(b.data[k]) < n {
			b.data[k] = make([]byte, 0, n)
		}
		b.data[k], b.ends[k] = b.data[k][:0], b.ends[k][:0]
	}
	row, number, offset := 0, p.line, p.from
	for line := range bytes.SplitAfterSeq(b.text, []byte{'\n'}) {
		if !blank(line) {
			if row == p.rows { // the file has changed
				return nil, problem(p.file.Name(), offset, number, fmt.Sprintf("%d lines in the piece, as before", p.rows), "more")
			}
			if !b.grow(l.opt.Memory) {
				return nil, problem(p.file.Name(), offset, number, fmt.Sprintf("values of a piece of at most %d bytes (Options.Memory)", l.opt.Memory), "more")
			}
			if at, want, got := b.parse(l, row, line); want != "" {
				return nil, problem(p.file.Name(), offset+at, number, want, got)
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

// grow makes room for the values of a line, unless all would take more than some bytes.
func (b *block) grow(most int64) bool {
	for k, f := range b.fields {
		most -= int64(len(b.data[k]) + f.bytes)
	}
	if most < 0 {
		return false
	}
	for k, f := range b.fields {
		n := len(b.data[k]) + f.bytes
		b.data[k] = slices.Grow(b.data[k], f.bytes)[:n]
	}
	return true
}

// parse decodes a line. want is "", or what was wanted at byte at of the line.
func (b *block) parse(l *lines, row int, line []byte) (at int64, want, got string) {
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
	if at, want, got = b.object(d, l.root, row); want != "" {
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
		if want, _ = b.missing(k, row); want != "" {
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
func (b *block) object(d *jsontext.Decoder, n *node, row int) (at int64, want, got string) {
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
			if at, want, got = b.object(d, child, row); want != "" {
				return at, want, got
			}
		default:
			at := d.InputOffset()
			v, err := d.ReadValue()
			if err != nil {
				return syntax(d, err)
			}
			if child.children != nil && v.Kind() != 'n' {
				return at, "an object, for a path leads into this member", shorten(v)
			}
			for _, k := range child.fields {
				if want, got := b.store(k, row, v); want != "" {
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
func (b *block) missing(k, row int) (want, got string) {
	f := b.fields[k]
	if f.Decoder != nil {
		return "a value for the Decoder", "null"
	}
	if f.Fill == nil {
		return "a value, or Field.Fill for missing ones", "null"
	}
	for i := range f.elems {
		number.Put(f.Type, b.data[k][row*f.bytes+i*f.size:], *f.Fill)
	}
	return "", ""
}

// store writes a value of a field.
func (b *block) store(k, row int, v jsontext.Value) (want, got string) {
	f := b.fields[k]
	b.seen[k] = true
	if v.Kind() == 'n' {
		return b.missing(k, row)
	}
	if f.Decoder != nil {
		if v.Kind() == '"' {
			var err error
			if b.data[k], err = jsontext.AppendUnquote(b.data[k], v); err != nil {
				return "a string", err.Error()
			}
		} else {
			b.data[k] = append(b.data[k], v...)
		}
		b.ends[k] = append(b.ends[k], len(b.data[k]))
		return "", ""
	}
	rest, want, got := b.list(f, f.Shape, b.data[k][row*f.bytes:][:f.bytes], v)
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
		return nil, fmt.Sprintf("a list of %d", shape[0]), shorten(v)
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
	case f.Classes != nil && kind == '"':
		b.value, _ = jsontext.AppendUnquote(b.value[:0], v) // the text is valid
		i, ok := f.classes[string(b.value)]
		if !ok {
			return fmt.Sprintf("one of %d classes", len(f.Classes)), shorten(v)
		}
		number.PutInt(f.Type, dst, int64(i))
		return "", ""
	case f.Classes != nil:
		return "a string", shorten(v)
	case kind == 't' || kind == 'f':
		x := 0.0
		if kind == 't' {
			x = 1
		}
		number.Put(f.Type, dst, x)
		return "", ""
	case kind == 'n' && f.Fill != nil:
		number.Put(f.Type, dst, *f.Fill)
		return "", ""
	case kind != '0':
		return "a number", shorten(v)
	}
	if wrong := number.Store(f.Type, dst, v); wrong != "" {
		return fmt.Sprintf("a number that %v holds", f.Type), fmt.Sprintf("%s, %s", shorten(v), wrong)
	}
	return "", ""
}

// shorten bounds a text from a file for an error.
func shorten(b []byte) string {
	const most = 60
	if len(b) <= most {
		return string(b)
	}
	return string(b[:most]) + "…"
}
