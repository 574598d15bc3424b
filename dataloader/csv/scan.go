package csv

import (
	"bytes"
	"context"
	"fmt"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/storage"
)

// pieceBytes is about the size of a piece, which ends with a record.
const pieceBytes = 1 << 20

// piece is whole records of a file.
type piece struct {
	file     *file
	from, to int64 // bytes of the file
	rows     int   // without blank lines and comments
	line     int   // number of the first line, from 1
}

// file is an open file.
type file struct {
	storage.File
	comma, comment, eol byte
	start               int64 // of the first record: after a byte order mark
	line                int   // number of the line of start, from 1
}

// scanner divides a file into pieces.
type scanner struct {
	*file
	most int // bytes of a record

	at      int64 // offset of the buffer
	record  int64 // offset of the record
	first   byte  // of the record
	inside  bool  // of quotes
	quote   int64 // offset where they opened
	closed  int64 // offset after the last quote that closed, 0: none
	pieces  []piece
	current piece

	line, recordLine, quoteLine int // numbers of the lines of the buffer, record and quote
}

// scan returns the pieces of a file.
func scan(ctx context.Context, f *file, most int) ([]piece, error) {
	s := &scanner{file: f, most: most, at: f.start, record: f.start, current: piece{file: f, from: f.start, line: f.line}, line: f.line, recordLine: f.line}
	buf := make([]byte, min(pieceBytes, f.Size()-f.start))
	for s.at < f.Size() {
		b := buf[:min(int64(len(buf)), f.Size()-s.at)]
		if err := storage.ReadAt(ctx, f, b, s.at); err != nil {
			return nil, err
		}
		if err := s.lines(b); err != nil {
			return nil, err
		}
		s.at += int64(len(b))
	}
	if s.inside {
		return nil, s.open()
	}
	if s.record < f.Size() { // no line end after the last record
		s.end(f.Size(), f.Size())
	}
	s.cut(f.Size())
	return s.pieces, nil
}

// lines finds the ends of records in a buffer.
func (s *scanner) lines(b []byte) error {
	for i := 0; i < len(b); {
		if s.at+int64(i) == s.record {
			s.first = b[i]
		}
		rest := b[i:]
		n := bytes.IndexByte(rest, s.eol)
		if n < 0 {
			n = len(rest)
		}
		remark := s.comment != 0 && s.first == s.comment && !s.inside
		for at := 0; !remark; { // quotes up to the line end
			q := bytes.IndexByte(rest[at:n], '"')
			if q < 0 {
				break
			}
			at += q + 1
			place := s.at + int64(i+at-1)
			if s.inside = !s.inside; !s.inside {
				s.closed = place + 1
			} else if s.closed != place || place == s.record { // not the second of two
				s.quote, s.quoteLine = place, s.line
			}
		}
		i += n
		if i == len(b) {
			break
		}
		i++
		s.line++
		end := s.at + int64(i)
		if err := s.tooLong(end - 1); err != nil {
			return err
		}
		if !s.inside {
			s.end(end-1, end)
		}
	}
	return s.tooLong(s.at + int64(len(b)))
}

// end ends a record before offset to; the next one begins at next.
func (s *scanner) end(to, next int64) {
	n := to - s.record
	blank := n == 0 || n == 1 && s.first == '\r'
	if !blank && (s.comment == 0 || s.first != s.comment) {
		s.current.rows++
	}
	s.record, s.recordLine = next, s.line
	if next-s.current.from >= pieceBytes {
		s.cut(next)
	}
}

// cut ends the piece.
func (s *scanner) cut(to int64) {
	if s.current.to = to; s.current.rows > 0 {
		s.pieces = append(s.pieces, s.current)
	}
	s.current = piece{file: s.file, from: to, line: s.line}
}

// tooLong returns an error if the record that is not finished at offset to is too long.
func (s *scanner) tooLong(to int64) error {
	if to-s.record <= int64(s.most) {
		return nil
	}
	if s.inside {
		return s.open()
	}
	return s.problem(s.record, s.recordLine, "record", fmt.Sprintf("at most %d bytes (Options.Record)", s.most), "more")
}

// open returns the error for quotes that do not close.
func (s *scanner) open() error {
	return s.problem(s.quote, s.quoteLine, "quote", fmt.Sprintf("a quote that closes it, within a record of %d bytes (Options.Record)", s.most), "none")
}

// problem returns the error for a place in the file.
func (f *file) problem(offset int64, line int, what, want, got string) error {
	return &dataloader.FormatError{File: f.Name(), Offset: offset, What: fmt.Sprintf("%s in line %d", what, line), Want: want, Got: got}
}

// begin looks at the start of a file: byte order mark, kind of line ends.
func begin(ctx context.Context, f storage.File, opt Options) (*file, error) {
	x := &file{File: f, comma: opt.Comma, comment: opt.Comment, eol: '\n', line: 1}
	b := make([]byte, min(f.Size(), pieceBytes))
	if err := storage.ReadAt(ctx, f, b, 0); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(b, []byte("\xff\xfe")) || bytes.HasPrefix(b, []byte("\xfe\xff")) {
		return nil, x.problem(0, 1, "byte order mark", "UTF-8: convert the file", "that of UTF-16")
	}
	if bytes.HasPrefix(b, []byte("\xef\xbb\xbf")) {
		x.start, b = 3, b[3:]
	}
	inside, remark := false, false
	for i, c := range b {
		if i == 0 {
			remark = x.comment != 0 && c == x.comment
		}
		switch {
		case c == '"' && !remark:
			inside = !inside
		case inside:
		case c == '\n':
			return x, nil
		case c == '\r':
			if i+1 < len(b) && b[i+1] != '\n' {
				x.eol = '\r'
			}
			return x, nil
		}
	}
	return x, nil
}

// read returns the bytes of a piece, in buf if it is large enough.
func (p *piece) read(ctx context.Context, buf []byte) ([]byte, error) {
	n := int(p.to - p.from)
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	if err := storage.ReadAt(ctx, p.file, buf, p.from); err != nil {
		return buf, err
	}
	return buf, p.file.zero(buf, p.from, p.line)
}

// zero returns an error if text from an offset and line on has a zero byte.
func (f *file) zero(text []byte, from int64, line int) error {
	i := bytes.IndexByte(text, 0)
	if i < 0 {
		return nil
	}
	return f.problem(from+int64(i), line+bytes.Count(text[:i], []byte{f.eol}), "zero byte", "text", "a zero byte")
}

// header reads the first record of a file, and moves its start behind it.
func (f *file) header(ctx context.Context, most int) ([]string, error) {
	b := make([]byte, min(f.Size()-f.start, int64(most)+2))
	if err := storage.ReadAt(ctx, f, b, f.start); err != nil {
		return nil, err
	}
	p := parser{file: f, from: f.start, line: f.line, buf: b}
	for p.skip() {
	}
	if p.pos >= len(b) {
		if int64(len(b)) < f.Size()-f.start {
			return nil, f.problem(f.start, f.line, "record", fmt.Sprintf("one within %d bytes (Options.Record)", most), "none")
		}
		return nil, fmt.Errorf("%s has no record: %w", f.Name(), dataloader.ErrEmpty)
	}
	var names []string
	for last := false; !last; {
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		names = append(names, string(v))
		if last, err = p.separator(); err != nil {
			return nil, err
		}
		if last && p.pos == len(b) && int64(len(b)) < f.Size()-f.start && b[len(b)-1] != f.eol {
			return nil, f.problem(f.start, f.line, "record", fmt.Sprintf("at most %d bytes (Options.Record)", most), "more")
		}
	}
	if err := f.zero(b[:p.pos], f.start, f.line); err != nil {
		return nil, err
	}
	f.start, f.line = f.start+int64(p.pos), f.line+bytes.Count(b[:p.pos], []byte{f.eol})
	return names, nil
}
