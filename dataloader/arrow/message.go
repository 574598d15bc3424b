package arrow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/dataloader"
	flatbuffers "github.com/google/flatbuffers/go"
)

// A stream is a sequence of messages: the schema, dictionaries, record batches. A file is the magic
// number and two bytes of padding, a stream, a footer, and the magic number again. Both are read as
// streams, so that the footer is not needed.
//
//	message: ff ff ff ff, length of the metadata, metadata, body
//
// https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc
const (
	magic        = "ARROW1"
	continuation = 0xffffffff
	maxMetadata  = 64 << 20 // bytes
	maxMessages  = 1 << 24
)

// Kinds of messages.
const (
	kindSchema     = 1
	kindDictionary = 2
	kindBatch      = 3
)

// message is where a message is, and what its metadata says.
type message struct {
	kind       byte
	compressed bool
	meta       int64 // offset of the metadata
	metaBytes  int64
	body       int64 // offset of the body
	bodyBytes  int64
	rows       int64 // of a record batch
}

// index lists the messages of a file of the given size. read fills p from an offset.
func index(name string, size int64, read func(p []byte, off int64) error) ([]message, error) {
	fail := func(at int64, what, want, got string, err error) ([]message, error) {
		return nil, &dataloader.FormatError{File: name, Offset: at, What: what, Want: want, Got: got, Err: err}
	}
	var head [8]byte
	if size < 8 {
		return fail(0, "size", "8 bytes or more", fmt.Sprint(size), nil)
	}
	if err := read(head[:], 0); err != nil {
		return nil, err
	}
	at := int64(0)
	file := string(head[:6]) == magic
	if file {
		at = 8
	} else if string(head[:4]) == "FEA1" {
		return fail(0, "magic number", `"ARROW1"`, `"FEA1", a Feather file of version 1: write it as version 2`, nil)
	}
	var all []message
	var meta []byte
	for at < size {
		n, header, err := messageLength(at, size, read)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		if n < 0 || n > min(maxMetadata, size-at-header) || len(all) == maxMessages {
			return fail(at, "length of a message", fmt.Sprintf("0 to %d bytes", min(maxMetadata, size-at-header)), fmt.Sprint(n), nil)
		}
		if int64(cap(meta)) < n {
			meta = make([]byte, n)
		}
		meta = meta[:n]
		if err := read(meta, at+header); err != nil {
			return nil, err
		}
		m, err := parse(meta)
		if err != nil {
			return fail(at, "message", "the metadata of a schema, a dictionary or a record batch", "something else", err)
		}
		m.meta, m.metaBytes, m.body = at+header, n, at+header+n
		if m.bodyBytes < 0 || m.bodyBytes > size-m.body {
			return fail(at, "length of a body", fmt.Sprintf("0 to %d bytes", size-m.body), fmt.Sprint(m.bodyBytes), nil)
		}
		if (m.kind == kindSchema) != (len(all) == 0) {
			return fail(at, "message", "one schema, which comes first", fmt.Sprintf("kind %d", m.kind), nil)
		}
		all = append(all, m)
		at = m.body + m.bodyBytes
	}
	if len(all) == 0 {
		return fail(0, "stream", "a schema", "none", nil)
	}
	if file {
		return all, checkEnd(name, size, read)
	}
	return all, nil
}

// messageLength returns the length of the metadata of the message at an offset and the bytes before
// it; 0 at the end of the stream.
func messageLength(at, size int64, read func(p []byte, off int64) error) (n, header int64, err error) {
	var b [8]byte
	k := min(8, size-at)
	if k < 4 {
		return -1, 0, nil
	}
	if err := read(b[:k], at); err != nil {
		return 0, 0, err
	}
	first := binary.LittleEndian.Uint32(b[:])
	if first != continuation {
		return int64(int32(first)), 4, nil // before version 0.15
	}
	if k < 8 {
		return -1, 0, nil
	}
	return int64(int32(binary.LittleEndian.Uint32(b[4:]))), 8, nil
}

// checkEnd checks that a file ends as one, so that a cut file is found.
func checkEnd(name string, size int64, read func(p []byte, off int64) error) error {
	var end [6]byte
	if err := read(end[:], size-6); err != nil {
		return err
	}
	if string(end[:]) != magic {
		return &dataloader.FormatError{File: name, Offset: size - 6, What: "end", Want: fmt.Sprintf("a footer and %q", magic),
			Got: fmt.Sprintf("%q: the file is cut", end[:])}
	}
	return nil
}

// Slots of the flatbuffers that are read.
const (
	slotHeaderKind  = 6
	slotHeader      = 8
	slotBody        = 10
	slotRows        = 4  // of a record batch
	slotCompression = 10 // of a record batch
	slotData        = 6  // of a dictionary: its record batch
	slotEndianness  = 4  // of a schema
)

// errBigEndian: numbers are stored the other way round.
var errBigEndian = errors.New("big-endian numbers: write the file on a little-endian machine")

// parse reads the metadata of a message.
func parse(meta []byte) (m message, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("an offset outside of the metadata: %v", p)
		}
	}()
	if len(meta) < 8 {
		return m, errors.New("too short")
	}
	root := flatbuffers.Table{Bytes: meta, Pos: flatbuffers.GetUOffsetT(meta)}
	m.kind = root.GetByteSlot(slotHeaderKind, 0)
	m.bodyBytes = root.GetInt64Slot(slotBody, 0)
	header, ok := child(root, slotHeader)
	if !ok || m.kind < kindSchema || m.kind > kindBatch {
		return m, fmt.Errorf("a message of kind %d", m.kind)
	}
	if _, _, err := vector(root, slotKVs, 4); err != nil {
		return m, err
	}
	switch m.kind {
	case kindSchema:
		if header.GetInt16Slot(slotEndianness, 0) != 0 {
			return m, errBigEndian
		}
		return m, verifySchema(header)
	case kindDictionary:
		if header, ok = child(header, slotData); !ok {
			return m, errors.New("a dictionary without data")
		}
	}
	m.rows = header.GetInt64Slot(slotRows, 0)
	_, m.compressed = child(header, slotCompression)
	if m.rows < 0 || m.rows > math.MaxInt {
		return m, fmt.Errorf("%d rows", m.rows)
	}
	return m, verifyBatch(header)
}

// child returns the table in a slot.
func child(t flatbuffers.Table, slot flatbuffers.VOffsetT) (flatbuffers.Table, bool) {
	o := flatbuffers.UOffsetT(t.Offset(slot))
	if o == 0 {
		return flatbuffers.Table{}, false
	}
	return flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(o + t.Pos)}, true
}
