package images

import (
	"bytes"
	"encoding/binary"
)

// jpeg reads the markers up to the start of the frame and of the first scan: the size, the
// orientation, and features that no decoder here has.
func (h *header) jpeg(b []byte) error {
	at, frame := 2, false
	for {
		for at < len(b) && b[at] != 0xff { // stray bytes between segments, as decoders accept them
			at++
		}
		for at+1 < len(b) && b[at+1] == 0xff { // fill
			at++
		}
		if at+2 > len(b) {
			return bad(jpegFile, "marker", len(b), "a frame and a scan", "the end of the file")
		}
		marker := b[at+1]
		at += 2
		if marker == 0 || marker == 0x01 || marker >= 0xd0 && marker <= 0xd8 { // without a segment
			continue
		}
		if marker == 0xd9 {
			return bad(jpegFile, "marker", at-2, "a frame and a scan", "the end of the picture")
		}
		if at+2 > len(b) {
			return bad(jpegFile, "segment", at, "its length", "the end of the file")
		}
		n := int(binary.BigEndian.Uint16(b[at:]))
		if n < 2 || n > len(b)-at {
			return bad(jpegFile, "segment", at, "2 bytes or more, within the file", "%d", n)
		}
		body := b[at+2 : at+n]
		switch {
		case marker == 0xe1 && bytes.HasPrefix(body, []byte("Exif\x00\x00")):
			h.orientation = orientation(body[6:])
		case marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc:
			if err := h.frame(marker, body, at-2); err != nil {
				return err
			}
			frame = true
		case marker == 0xda:
			if !frame {
				return bad(jpegFile, "marker", at-2, "a frame before the first scan", "a scan")
			}
			return nil
		}
		at += n
	}
}

// frame reads the segment SOF.
func (h *header) frame(marker byte, body []byte, offset int) error {
	switch {
	case marker >= 0xc9:
		return bad(jpegFile, "feature", offset, "Huffman coding: encode the picture again", "arithmetic coding (SOF%d)", marker-0xc0)
	case marker > 0xc2:
		return bad(jpegFile, "feature", offset, "a baseline or progressive frame: encode the picture again", "SOF%d", marker-0xc0)
	case len(body) < 6:
		return bad(jpegFile, "frame", offset, "6 bytes or more", "%d", len(body))
	case body[0] != 8:
		return bad(jpegFile, "feature", offset, "8 bits a sample: encode the picture again", "%d", body[0])
	}
	h.h, h.w = int(binary.BigEndian.Uint16(body[1:])), int(binary.BigEndian.Uint16(body[3:]))
	if h.h == 0 || h.w == 0 {
		return bad(jpegFile, "size", offset, "1 or more rows and columns", "%d × %d pixels", h.w, h.h)
	}
	return nil
}

// orientation returns the orientation, 1 to 8, of the TIFF file in an EXIF segment, or 1 if it has
// none or is damaged.
//
// Source: Exif 2.3, 4.6.4: tag 0x0112 of the first directory, a SHORT.
func orientation(b []byte) int {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(b, []byte("II*\x00")):
		order = binary.LittleEndian
	case bytes.HasPrefix(b, []byte("MM\x00*")):
		order = binary.BigEndian
	default:
		return 1
	}
	if len(b) < 8 {
		return 1
	}
	at := uint64(order.Uint32(b[4:]))
	if at+2 > uint64(len(b)) {
		return 1
	}
	entries := b[at+2:]
	for range order.Uint16(b[at:]) {
		if len(entries) < 12 {
			return 1
		}
		if order.Uint16(entries) == 0x0112 {
			if o := int(order.Uint16(entries[8:])); order.Uint16(entries[2:]) == 3 && o >= 1 && o <= 8 {
				return o
			}
			return 1
		}
		entries = entries[12:]
	}
	return 1
}
