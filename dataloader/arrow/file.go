package arrow

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/storage"
)

// file is an open file.
type file struct {
	storage.File
	name         string
	size         int64
	mapped       []byte // the whole file, or nil
	messages     []message
	batches      []int // places of the record batches in messages
	dictionaries []int // places of the dictionaries in messages
	schema       *arrow.Schema
}

// openFile describes an open file, which it maps if it can and mapping is set.
func openFile(ctx context.Context, f storage.File, mapping bool) (a *file, err error) {
	a = &file{File: f, name: f.Name(), size: f.Size()}
	if mapping {
		m, b, err := storage.Map(f)
		if err == nil {
			a.File, a.mapped = m, b
		} else if !errors.Is(err, errors.ErrUnsupported) {
			return nil, err
		}
	}
	return a, a.describe(ctx)
}

// describe finds the messages and reads the schema.
func (f *file) describe(ctx context.Context) (err error) {
	if f.messages, err = index(f.name, f.size, func(p []byte, off int64) error { return f.read(ctx, p, off) }); err != nil {
		return err
	}
	for i, m := range f.messages {
		switch m.kind {
		case kindDictionary:
			f.dictionaries = append(f.dictionaries, i)
		case kindBatch:
			f.batches = append(f.batches, i)
			if most := 8 * max(m.bodyBytes, 1); !m.compressed && m.rows > most {
				return f.fail(m, "record batch", fmt.Sprintf("at most %d rows in %d bytes", most, m.bodyBytes), fmt.Sprint(m.rows), nil)
			}
		}
	}
	defer f.recovered(f.messages[0], &err)
	r, err := ipc.NewReaderFromMessageReader(&replay{f: f, list: f.messages[:1], ctx: ctx})
	if err != nil {
		return f.fail(f.messages[0], "schema", "a schema", "something else", err)
	}
	defer r.Release()
	f.schema = r.Schema()
	return nil
}

// fail returns the error for a message.
func (f *file) fail(m message, what, want, got string, err error) error {
	return &dataloader.FormatError{File: f.name, Offset: m.meta, What: what, Want: want, Got: got, Err: err}
}

// recovered turns a panic of the library into an error for a message.
func (f *file) recovered(m message, err *error) {
	if p := recover(); p != nil {
		cause, ok := p.(error)
		if !ok {
			cause = fmt.Errorf("%v", p)
		}
		*err = f.fail(m, "message", "values that can be decoded", "offsets outside of the data, or the like", cause)
	}
}

// read fills p from an offset.
func (f *file) read(ctx context.Context, p []byte, off int64) error {
	if err := storage.ReadAt(ctx, f.File, p, off); err != nil {
		return fmt.Errorf("arrow: %w", err)
	}
	return nil
}

// replay hands messages of a file to the library, in order.
type replay struct {
	f     *file
	list  []message
	ctx   context.Context
	limit int     // bytes of a window of zstd
	body  *[]byte // memory for the body of the last message if the file is not mapped; nil: new memory
}

var _ ipc.MessageReader = (*replay)(nil)

// Message implements ipc.MessageReader.
func (r *replay) Message() (*ipc.Message, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	if len(r.list) == 0 {
		return nil, io.EOF
	}
	m := r.list[0]
	r.list = r.list[1:]
	meta, body, err := r.read(m)
	if err == nil && m.compressed {
		if err = verifyWindows(meta, body, r.limit); err != nil {
			err = r.f.fail(m, "compressed message", "frames of zstd", "something else", err)
		}
	}
	if err != nil {
		return nil, err
	}
	return ipc.NewMessage(memory.NewBufferBytes(meta), memory.NewBufferBytes(body)), nil
}

// read returns the metadata and the body of a message.
func (r *replay) read(m message) (meta, body []byte, err error) {
	if all := r.f.mapped; all != nil {
		return all[m.meta:m.body:m.body], all[m.body : m.body+m.bodyBytes : m.body+m.bodyBytes], nil
	}
	meta = make([]byte, m.metaBytes)
	if err := r.f.read(r.ctx, meta, m.meta); err != nil {
		return nil, nil, err
	}
	if len(r.list) > 0 || r.body == nil {
		body = make([]byte, m.bodyBytes)
	} else {
		if int64(cap(*r.body)) < m.bodyBytes {
			*r.body = make([]byte, m.bodyBytes)
		}
		*r.body = (*r.body)[:m.bodyBytes]
		body = *r.body
	}
	return meta, body, r.f.read(r.ctx, body, m.body)
}

// Retain implements ipc.MessageReader.
func (r *replay) Retain() {}

// Release implements ipc.MessageReader.
func (r *replay) Release() {}
