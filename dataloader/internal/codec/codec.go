// Package codec decompresses files of gzip and zstd, member by member.
package codec

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/evenkeel/evenkeel/dataloader/storage"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Kind is how a file is compressed.
type Kind uint8

const (
	Plain Kind = iota // not at all
	Gzip              // members of gzip, one after another
	Zstd              // frames of zstd, one after another
	Kinds             // number of the above
)

// mostWindow is the most bytes of the window of a zstd frame, as zstd --long=27 makes them.
const mostWindow = 128 << 20

// ErrPadding: the members of gzip are followed by zeros and by another byte, the one before Offset.
var ErrPadding = errors.New("something other than zeros after zeros")

// Reader decompresses parts of files of one kind, Gzip or Zstd, one at a time. It keeps the memory of
// its decoder from one part to the next. It is for one goroutine.
type Reader struct {
	Kind Kind
	off  int64 // of the part in the file
	in   counted
	buf  *bufio.Reader // of in
	gz   *gzip.Reader
	zst  *zstd.Decoder
}

// counted counts the bytes that are read.
type counted struct {
	r io.Reader
	n int64
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// Open begins with the n bytes of f from off on: frames of zstd, or a member of gzip, which other bytes
// may follow. Reads end when ctx is done.
func (r *Reader) Open(ctx context.Context, f storage.File, off, n int64) (err error) {
	defer recovered(&err)
	r.off, r.in = off, counted{r: storage.Section(ctx, f, off, n)}
	if r.buf == nil {
		r.buf = bufio.NewReaderSize(&r.in, 64<<10)
	} else {
		r.buf.Reset(&r.in)
	}
	switch {
	case r.Kind == Gzip:
		return r.member()
	case r.zst == nil:
		r.zst, err = zstd.NewReader(r.buf, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(mostWindow))
		return err
	}
	return r.zst.Reset(r.buf)
}

// member begins with a member of gzip.
func (r *Reader) member() (err error) {
	if r.gz == nil {
		r.gz, err = gzip.NewReader(r.buf)
	} else {
		err = r.gz.Reset(r.buf)
	}
	if err == nil {
		r.gz.Multistream(false)
	}
	return err
}

// Read reads the contents of the member, or of all frames. io.EOF is their end.
func (r *Reader) Read(p []byte) (n int, err error) {
	defer recovered(&err)
	if r.Kind == Gzip {
		return r.gz.Read(p)
	}
	return r.zst.Read(p)
}

// Next begins with the member of gzip that follows the one just read, without a gap. It returns false
// if only zeros are left, or nothing.
func (r *Reader) Next() (more bool, err error) {
	defer recovered(&err)
	if r.Kind != Gzip {
		return false, nil
	}
	for zeros := false; ; zeros = true {
		switch c, err := r.buf.ReadByte(); {
		case err == io.EOF:
			return false, nil
		case err != nil:
			return false, err
		case c == 0:
		case zeros:
			return false, ErrPadding
		default:
			r.buf.UnreadByte() // of what was just read
			return true, r.member()
		}
	}
}

// Offset returns the offset in the file of what follows the member that was read to its end.
func (r *Reader) Offset() int64 { return r.off + r.in.n - int64(r.buf.Buffered()) }

// Close frees memory. The Reader must not be used any more.
func (r *Reader) Close() {
	if r.zst != nil {
		r.zst.Close()
	}
}

// recovered turns a panic of a decoder into an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the decoder panicked: %v", p)
	}
}
