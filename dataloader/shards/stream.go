package shards

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/codec"
	"github.com/evenkeel/evenkeel/dataloader/storage"
	"github.com/klauspost/compress/zstd"
)

// part is a member of gzip or a frame of zstd: it is decompressed without the others.
type part struct {
	off, n int64 // in the file
	start  int64 // of its contents in the decompressed archive
}

// sniff returns the compression of a file.
func sniff(ctx context.Context, f storage.File) (codec.Kind, error) {
	var b [4]byte
	n := min(f.Size(), 4)
	if err := storage.ReadAt(ctx, f, b[:n], 0); err != nil {
		return codec.Plain, err
	}
	switch magic := binary.LittleEndian.Uint32(b[:]); {
	case magic&0xffff == 0x8b1f:
		return codec.Gzip, nil
	case magic == 0xfd2fb528, magic&^0xf == 0x184d2a50: // a frame, a frame to skip
		return codec.Zstd, nil
	}
	return codec.Plain, nil
}

// stream is the decompressed contents of a shard, part after part. It notes the parts.
type stream struct {
	ctx    context.Context // of one scan
	f      storage.File
	d      codec.Reader
	frames window // reads lengths of zstd frames
	most   int64  // bytes of a part
	pos    int64  // in the contents
	at     int64  // of the part, or of the next one, in the file
	parts  []part
	open   bool // a part is
	back   []byte
}

// position returns the offset in the contents.
func (s *stream) position() int64 { return s.pos }

// unread puts bytes back that were read last.
func (s *stream) unread(b []byte) { s.back, s.pos = b, s.pos-int64(len(b)) }

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	if len(s.back) > 0 {
		n := copy(p, s.back)
		s.back, s.pos = s.back[n:], s.pos+int64(n)
		return n, nil
	}
	for {
		if !s.open {
			more, err := s.next()
			if err != nil {
				return 0, err
			}
			if !more {
				return 0, io.EOF
			}
		}
		n, err := s.d.Read(p)
		s.pos += int64(n)
		part := &s.parts[len(s.parts)-1]
		if s.pos-part.start > s.most {
			return 0, tooLarge(s.f.Name(), s.at, s.most)
		}
		if err == io.EOF {
			s.at, s.open, err = s.d.Offset(), false, nil
			part.n = s.at - part.off
		}
		if n > 0 || err != nil || len(p) == 0 {
			return n, badPart(s.f, s.d.Kind, s.at, err)
		}
	}
}

// tooLarge is the error of a block that exceeds Options.MaxBlock.
func tooLarge(name string, at, most int64) error {
	return &dataloader.FormatError{File: name, Offset: at, What: "decompressed block", Got: "more",
		Want: fmt.Sprintf("at most %d bytes: raise Options.MaxBlock, decompress the shard, or write smaller shards", most)}
}

// badPart names the file and the part in an error of the decompressor. Errors of storage stay.
func badPart(f storage.File, kind codec.Kind, at int64, err error) error {
	var read *storage.ReadError
	if err == nil || errors.As(err, &read) {
		return err
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	e := &dataloader.FormatError{File: f.Name(), Offset: at, What: "compressed block", Want: "gzip data", Got: "damaged data", Err: err}
	if kind == codec.Zstd {
		e.Want = "zstd data"
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		e.Got = "its end too early: the file was cut"
	}
	return e
}

// next begins with the next part. It returns false at the end of the file.
func (s *stream) next() (more bool, err error) {
	n := s.f.Size() - s.at // of a member of gzip, until its end is known
	switch {
	case s.d.Kind == codec.Zstd:
		for skip := true; skip; {
			if s.at == s.f.Size() {
				return false, nil
			}
			if n, skip, err = frame(&s.frames, s.at); err != nil {
				return false, err
			}
			if skip {
				s.at += n
			}
		}
		err = s.d.Open(s.ctx, s.f, s.at, n)
	case len(s.parts) == 0:
		err = s.d.Open(s.ctx, s.f, s.at, n)
	default:
		if more, err = s.d.Next(); !more && err == nil {
			return false, nil
		}
	}
	if err == codec.ErrPadding {
		return false, &dataloader.FormatError{File: s.f.Name(), Offset: s.d.Offset() - 1, What: "padding after gzip data", Want: "zeros", Got: "other bytes"}
	}
	if err != nil {
		return false, badPart(s.f, s.d.Kind, s.at, err)
	}
	s.open, s.parts = true, append(s.parts, part{off: s.at, n: n, start: s.pos})
	return true, nil
}

// frame returns the bytes of the zstd frame at an offset, whose blocks need not be decompressed for
// that. skip is true for frames of other data. Source: RFC 8878, section 3.1.
func frame(w *window, at int64) (n int64, skip bool, err error) {
	bad := func(at int64, want, got string, err error) (int64, bool, error) {
		return 0, false, &dataloader.FormatError{File: w.f.Name(), Offset: at, What: "zstd frame", Want: want, Got: got, Err: err}
	}
	left := w.f.Size() - at
	head := make([]byte, min(left, zstd.HeaderMaxSize))
	if err := w.readAt(head, at); err != nil {
		return 0, false, err
	}
	var h zstd.Header
	if err := h.Decode(head); err != nil {
		return bad(at, "a header of a frame", "other bytes", err)
	}
	cut := func(n int64) (int64, bool, error) {
		return bad(w.f.Size(), fmt.Sprintf("at least %d bytes from byte %d on", n, at), fmt.Sprintf("%d: the file was cut", left), io.ErrUnexpectedEOF)
	}
	n = int64(h.HeaderSize)
	if h.Skippable {
		if n += int64(h.SkippableSize); n > left {
			return cut(n)
		}
		return n, true, nil
	}
	for last := false; !last; {
		var b [4]byte
		if n+3 > left {
			return cut(n + 3)
		}
		if err := w.readAt(b[:3], at+n); err != nil {
			return 0, false, err
		}
		v := binary.LittleEndian.Uint32(b[:])
		n += 3
		last = v&1 != 0
		switch v >> 1 & 3 {
		case 0, 2: // stored, compressed
			n += int64(v >> 3)
		case 1: // one byte, repeated
			n++
		default:
			return bad(at+n-3, "a block of type 0 to 2", "type 3", nil)
		}
	}
	if h.HasCheckSum {
		n += 4
	}
	if n > left {
		return cut(n)
	}
	return n, false, nil
}
