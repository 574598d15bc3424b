package parquet

import (
	"context"
	"fmt"
	"sync"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/values"
	"github.com/evenkeel/evenkeel/dataloader/table"
)

// source is the row groups of all files, as blocks.
type source struct {
	columns []column
	fields  []dataloader.Field
	blocks  []place
	sizes   []int
	limit   int64

	mu   sync.Mutex
	idle []*columnReader // those that no Load uses
}

// place is where a block is: a row group of a file.
type place struct {
	file  *file
	group int
}

// block is a decoded row group.
type block struct {
	columns []table.Buffer
	fields  []dataloader.Field
	at      place
	bad     values.Bad
}

// Fields implements dataloader.BlockSource.
func (s *source) Fields() []dataloader.Field { return s.fields }

// Sizes implements dataloader.BlockSource.
func (s *source) Sizes() []int { return s.sizes }

// Load implements dataloader.BlockSource.
func (s *source) Load(ctx context.Context, i int, old dataloader.Block) (_ dataloader.Block, err error) {
	b, _ := old.(*block)
	if b == nil || len(b.columns) != len(s.columns) {
		b = &block{columns: make([]table.Buffer, len(s.columns))}
	}
	r := s.reader()
	at := s.blocks[i]
	b.fields, b.at = s.fields, at
	b.bad.Reset()
	left := s.limit
	for k := range s.columns {
		c := &s.columns[k]
		if !c.Encoded() {
			left -= int64(s.sizes[i]) * s.fields[k].Bytes()
		}
	}
	for k := range s.columns {
		c, buf := &s.columns[k], &b.columns[k]
		limit := left
		if !c.Encoded() {
			limit = int64(s.sizes[i]) * s.fields[k].Bytes()
		}
		buf.Reset(c.Target, s.sizes[i], int(limit))
		if err := r.loadSafely(ctx, at, k, c, s, s.sizes[i], buf, &b.bad); err != nil {
			return nil, err // r may be in any state: it is dropped
		}
		if c.Encoded() {
			left -= buf.Used()
		}
	}
	s.release(r)
	return b, nil
}

// reader returns an idle reader or a new one.
func (s *source) reader() *columnReader {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.idle); n > 0 {
		r := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return r
	}
	return &columnReader{}
}

// release keeps a reader for the next Load.
func (s *source) release(r *columnReader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, r)
}

// loadSafely loads column k of a row group. A panic of a decoder of others becomes an error.
func (r *columnReader) loadSafely(ctx context.Context, at place, k int, c *column, s *source, rows int, buf *table.Buffer, bad *values.Bad) (err error) {
	if err := r.open(at.file, c.leaf.name, at.group, at.file.groups[at.group].chunks[k], s.limit); err != nil {
		return err
	}
	defer r.recovered(&err)
	return r.load(ctx, c, rows, buf, bad)
}

// recovered turns a panic into an error at the current page.
func (r *columnReader) recovered(err *error) {
	if p := recover(); p != nil {
		*err = r.fail("page", "values that can be decoded", "a panic of the decoder", fmt.Errorf("%v", p))
	}
}

// Fetch implements dataloader.Block. dst has a place for each field, followed by a place for its
// encoded bytes, or not.
func (b *block) Fetch(_ context.Context, row int, at dataloader.At, dst [][]byte) error {
	if err := b.bad.Row(row); err != nil {
		return err
	}
	n := len(b.columns)
	for k := range b.columns {
		if len(dst) == 2*n && dst[k] == nil {
			dst[n+k] = append(dst[n+k][:0], b.columns[k].Encoded(row)...)
			continue
		}
		if err := b.columns[k].Fetch(row, at, dst[k]); err != nil {
			return fmt.Errorf("%s: field %q, row group %d: row %d of the group: %w", b.at.file.name, b.fields[k].Name, b.at.group, row, err)
		}
	}
	return nil
}
