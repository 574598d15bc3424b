package arrow

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/table"
)

// column is a selected column.
type column struct {
	*table.Target
	leaf leaf
}

// place is where a block is: a record batch of a file.
type place struct {
	file  *file
	batch int // among the record batches of the file
}

// message returns the message of the batch.
func (p place) message() message { return p.file.messages[p.file.batches[p.batch]] }

// needed returns the messages that the batch is decoded from: the schema, the dictionaries before
// the batch, and the batch.
func (p place) needed() []message {
	f, last := p.file, p.file.batches[p.batch]
	list := []message{f.messages[0]}
	for _, k := range f.dictionaries {
		if k > last {
			break
		}
		list = append(list, f.messages[k])
	}
	return append(list, f.messages[last])
}

// batch is a record batch, decoded or in a mapped file.
type batch struct {
	at     place
	record arrow.RecordBatch
	views  []*view
	body   []byte // memory of the message
	memory pool
}

// open makes the views of the columns.
func (b *batch) open(at place, record arrow.RecordBatch, columns []column) (err error) {
	b.at, b.record = at, record
	defer at.file.recovered(at.message(), &err)
	b.views = b.views[:0]
	for k := range columns {
		v, err := newView(&columns[k], record)
		if err != nil {
			return at.file.fail(at.message(), "record batch", "the columns of the schema", "something else", err)
		}
		b.views = append(b.views, v)
	}
	return nil
}

// Fetch implements dataloader.Block. Without dst it reads the columns whose classes are to be found.
func (b *batch) Fetch(_ context.Context, row int, at dataloader.At, dst [][]byte) (err error) {
	k := 0
	defer b.recovered(row, &k, &err)
	if b.at.file.mapped != nil { // a file that another process has shortened faults
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	}
	for ; k < len(b.views); k++ {
		var field []byte
		if dst != nil {
			field = dst[k]
		} else if !b.views[k].column.Finding() {
			continue
		}
		if err := b.views[k].fetch(row, at, field); err != nil {
			var p *table.Problem
			if errors.As(err, &p) {
				return b.fail(row, k, p.Want, p.Got, nil)
			}
			return err
		}
	}
	return nil
}

// fail returns the error for a value.
func (b *batch) fail(row, k int, want, got string, err error) error {
	return b.at.file.fail(b.at.message(), fmt.Sprintf("column %q, record batch %d, row %d", b.views[k].column.leaf.Name, b.at.batch, row), want, got, err)
}

// recovered turns a panic, of an offset outside of the data, into an error.
func (b *batch) recovered(row int, k *int, err *error) {
	if p := recover(); p != nil {
		*err = b.fail(row, *k, "offsets within the data", "others", fmt.Errorf("%v", p))
	}
}

// readAll returns all record batches of a mapped file, in place. Dictionaries that are compressed
// or in parts are in memory of m.
func readAll(f *file, columns []column, m *pool) (all []*batch, err error) {
	at := f.messages[0]
	defer f.recovered(at, &err)
	r, err := ipc.NewReaderFromMessageReader(&replay{f: f, list: f.messages, ctx: context.Background(), limit: m.limit}, ipc.WithAllocator(m))
	if err != nil {
		return nil, f.fail(at, "schema", "a schema", "something else", err)
	}
	defer r.Release()
	for i := range f.batches {
		p := place{f, i}
		at = p.message()
		if !r.Next() {
			return nil, f.fail(at, "record batch", fmt.Sprintf("batch %d", i), "something else", limited(r.Err(), m))
		}
		record := r.RecordBatch()
		record.Retain() // for as long as the file is mapped
		b := &batch{}
		if err := b.open(p, record, columns); err != nil {
			return nil, err
		}
		if record.NumRows() != at.rows {
			return nil, f.fail(at, "record batch", fmt.Sprintf("%d rows", at.rows), fmt.Sprint(record.NumRows()), nil)
		}
		all = append(all, b)
	}
	return all, nil
}

// limited adds errLimit to an error if the memory was the reason.
func limited(err error, m *pool) error {
	if m.exceeded && !errors.Is(err, errLimit) {
		return errors.Join(errLimit, err)
	}
	return err
}

// source is the record batches of all files, as blocks.
type source struct {
	columns []column
	fields  []dataloader.Field
	blocks  []place
	sizes   []int
	limit   int
}

// Fields implements dataloader.BlockSource.
func (s *source) Fields() []dataloader.Field { return s.fields }

// Sizes implements dataloader.BlockSource.
func (s *source) Sizes() []int { return s.sizes }

// Load implements dataloader.BlockSource.
func (s *source) Load(ctx context.Context, i int, old dataloader.Block) (_ dataloader.Block, err error) {
	b, _ := old.(*batch)
	if b == nil {
		b = &batch{}
	}
	at := s.blocks[i]
	defer at.file.recovered(at.message(), &err)
	if b.record != nil {
		b.record.Release()
		b.record = nil
	}
	b.memory.limit, b.memory.used, b.memory.exceeded = s.limit, 0, false
	fail := func(err error) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return at.file.fail(at.message(), "record batch", fmt.Sprintf("batch %d", at.batch), "something else", limited(err, &b.memory))
	}
	r, err := ipc.NewReaderFromMessageReader(&replay{f: at.file, list: at.needed(), ctx: ctx, limit: s.limit, body: &b.body}, ipc.WithAllocator(&b.memory))
	if err != nil {
		return nil, fail(err)
	}
	defer r.Release()
	if !r.Next() {
		return nil, fail(r.Err())
	}
	record := r.RecordBatch()
	if record.NumRows() != int64(s.sizes[i]) {
		return nil, at.file.fail(at.message(), "record batch", fmt.Sprintf("%d rows", s.sizes[i]), fmt.Sprint(record.NumRows()), nil)
	}
	record.Retain()
	return b, b.open(at, record, s.columns)
}
