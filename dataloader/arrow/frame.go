package arrow

import (
	"errors"
	"fmt"

	flatbuffers "github.com/google/flatbuffers/go"
	"github.com/klauspost/compress/zstd"
)

// Slots of the compression of a record batch, and codecs.
const (
	slotCodec = 4
	codecZstd = 1
)

// verifyWindows checks that no frame of zstd in a compressed message asks for a window of more than
// limit bytes, which the library would allocate.
func verifyWindows(meta, body []byte, limit int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("an offset outside of the message: %v", p)
		}
	}()
	root := flatbuffers.Table{Bytes: meta, Pos: flatbuffers.GetUOffsetT(meta)}
	batch, _ := child(root, slotHeader)
	if root.GetByteSlot(slotHeaderKind, 0) == kindDictionary {
		batch, _ = child(batch, slotData)
	}
	compression, _ := child(batch, slotCompression)
	if compression.GetByteSlot(slotCodec, 0) != codecZstd {
		return nil
	}
	n, at, err := vector(batch, slotBuffers, 16)
	if err != nil {
		return err
	}
	for i := range n {
		place := at + flatbuffers.UOffsetT(16*i)
		from, size := batch.GetInt64(place), batch.GetInt64(place+8)
		if size == 0 {
			continue
		}
		if from < 0 || size < 8 || from > int64(len(body)) || size > int64(len(body))-from {
			return fmt.Errorf("a buffer of %d bytes at byte %d of %d", size, from, len(body))
		}
		if buf := body[from : from+size]; flatbuffers.GetInt64(buf) != -1 { // -1: this one is not compressed
			if err := verifyFrames(buf[8:], limit); err != nil {
				return err
			}
		}
	}
	return nil
}

// verifyFrames walks over the frames of zstd in b.
// https://github.com/facebook/zstd/blob/dev/doc/zstd_compression_format.md
func verifyFrames(b []byte, limit int) error {
	for len(b) > 0 {
		var h zstd.Header
		if err := h.Decode(b); err != nil {
			return fmt.Errorf("a frame of zstd: %w", err)
		}
		if h.WindowSize > uint64(limit) {
			return fmt.Errorf("a frame of zstd with a window of %d bytes: %w", h.WindowSize, errLimit)
		}
		if b = b[h.HeaderSize:]; h.Skippable {
			if uint64(h.SkippableSize) > uint64(len(b)) {
				return errFrame
			}
			b = b[h.SkippableSize:]
			continue
		}
		for last := false; !last; {
			if len(b) < 3 {
				return errFrame
			}
			block := int(b[0]) | int(b[1])<<8 | int(b[2])<<16
			last = block&1 != 0
			size := block >> 3
			if block>>1&3 == 1 { // one byte, repeated
				size = 1
			}
			if b = b[3:]; size > len(b) {
				return errFrame
			}
			b = b[size:]
		}
		if h.HasCheckSum {
			if len(b) < 4 {
				return errFrame
			}
			b = b[4:]
		}
	}
	return nil
}

// errFrame: a frame is cut.
var errFrame = errors.New("a frame of zstd that is cut")
