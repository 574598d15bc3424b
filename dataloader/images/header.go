package images

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/evenkeel/evenkeel/dataloader"
)

// format is the kind of an encoded picture, found from its first bytes.
type format uint8

const (
	jpegFile format = iota + 1
	pngFile
	gifFile
	webpFile
	bmpFile
)

func (f format) String() string {
	return [...]string{"unknown", "JPEG", "PNG", "GIF", "WebP", "BMP"}[f]
}

// header is what a picture says of itself before it is decoded.
type header struct {
	format      format
	w, h        int // as stored
	orientation int // of EXIF, 1 to 8; 1 where there is none
}

// bad returns a *dataloader.FormatError of an encoded picture.
func bad(f format, what string, offset int, want, got string, args ...any) error {
	if f != 0 {
		what = f.String() + " " + what
	}
	return &dataloader.FormatError{Offset: int64(offset), What: what, Want: want, Got: fmt.Sprintf(got, args...)}
}

// readHeader finds the format and the size of a picture. It decodes nothing.
func readHeader(b []byte) (header, error) {
	h := header{orientation: 1}
	var err error
	switch {
	case len(b) == 0:
		return h, bad(0, "picture", 0, "JPEG, PNG, GIF, WebP or BMP", "an empty file")
	case bytes.HasPrefix(b, []byte("\xff\xd8")):
		h.format = jpegFile
		err = h.jpeg(b)
	case bytes.HasPrefix(b, []byte("\x89PNG\r\n\x1a\n")):
		h.format = pngFile
		err = h.png(b)
	case bytes.HasPrefix(b, []byte("GIF87a")), bytes.HasPrefix(b, []byte("GIF89a")):
		h.format = gifFile
		err = h.gif(b)
	case len(b) >= 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP":
		h.format = webpFile
		err = h.webp(b)
	case bytes.HasPrefix(b, []byte("BM")):
		h.format = bmpFile
		err = h.bmp(b)
	default:
		return h, bad(0, "picture", 0, "JPEG, PNG, GIF, WebP or BMP", "bytes %q", b[:min(len(b), 16)])
	}
	if err == nil && (h.w <= 0 || h.h <= 0) {
		err = bad(h.format, "size", 0, "1 or more rows and columns", "%d × %d pixels", h.w, h.h)
	}
	return h, err
}

// check refuses pictures of more than limit pixels, and sizes that a file of n bytes cannot hold,
// before memory is allocated for them.
func (h header) check(n, limit int) error {
	pixels := uint64(h.w) * uint64(h.h)
	if pixels > uint64(limit) {
		return bad(h.format, "size", 0, fmt.Sprintf("at most %d pixels: raise MaxPixels to accept more", limit),
			"%d × %d = %d", h.w, h.h, pixels)
	}
	most := uint64(limit)
	switch h.format {
	case jpegFile: // a block of 64 samples takes a bit or more
		most = uint64(n) * 8 * 64
	case pngFile: // deflate shrinks to 1/1032 or more, a pixel has a bit or more
		most = uint64(n) * 1032 * 8
	case gifFile: // a code of 3 bits or more stands for up to 4096 pixels
		most = uint64(n) * 8 / 3 * 4096
	case bmpFile: // not compressed; a pixel has a bit or more
		most = uint64(n) * 8
	}
	if pixels > most {
		return bad(h.format, "size", 0, fmt.Sprintf("at most %d pixels in %d bytes", most, n), "%d × %d = %d", h.w, h.h, pixels)
	}
	return nil
}

// png reads the size from IHDR, which is the first chunk.
func (h *header) png(b []byte) error {
	if len(b) < 24 || string(b[12:16]) != "IHDR" {
		return bad(pngFile, "header", 8, "a chunk IHDR", "none")
	}
	w, rows := binary.BigEndian.Uint32(b[16:]), binary.BigEndian.Uint32(b[20:])
	if w >= 1<<31 || rows >= 1<<31 {
		return bad(pngFile, "size", 16, "at most 2147483647 rows and columns", "%d × %d", w, rows)
	}
	h.w, h.h = int(w), int(rows)
	return nil
}

// gif reads the size of the first frame.
func (h *header) gif(b []byte) error {
	at := 13
	if len(b) > 10 && b[10]&0x80 != 0 {
		at += 3 << (b[10]&7 + 1)
	}
	for at < len(b) {
		switch b[at] {
		case 0x2c:
			if at+9 > len(b) {
				return bad(gifFile, "frame", at, "9 bytes", "%d", len(b)-at)
			}
			h.w, h.h = int(binary.LittleEndian.Uint16(b[at+5:])), int(binary.LittleEndian.Uint16(b[at+7:]))
			return nil
		case 0x21:
			at += 2
			for at < len(b) && b[at] != 0 {
				at += 1 + int(b[at])
			}
			at++
		default:
			return bad(gifFile, "block", at, "an extension (0x21) or a frame (0x2c)", "%#x", b[at])
		}
	}
	return bad(gifFile, "frame", len(b), "one or more", "none")
}

// webp reads the size of a still picture.
func (h *header) webp(b []byte) error {
	if len(b) < 30 {
		return bad(webpFile, "header", 12, "18 bytes", "%d", len(b)-12)
	}
	switch kind := string(b[12:16]); kind {
	case "VP8X":
		if b[20]&0x02 != 0 {
			return bad(webpFile, "feature", 20, "one still picture: extract a frame and encode it again", "an animation")
		}
		h.w = 1 + int(uint32(b[24])|uint32(b[25])<<8|uint32(b[26])<<16)
		h.h = 1 + int(uint32(b[27])|uint32(b[28])<<8|uint32(b[29])<<16)
	case "VP8L":
		bits := binary.LittleEndian.Uint32(b[21:])
		h.w, h.h = 1+int(bits&0x3fff), 1+int(bits>>14&0x3fff)
	case "VP8 ":
		h.w, h.h = int(binary.LittleEndian.Uint16(b[26:])&0x3fff), int(binary.LittleEndian.Uint16(b[28:])&0x3fff)
	default:
		return bad(webpFile, "chunk", 12, `"VP8 ", "VP8L" or "VP8X"`, "%q", kind)
	}
	return nil
}

// bmp reads the size; a negative height means that rows go down.
func (h *header) bmp(b []byte) error {
	if len(b) < 26 {
		return bad(bmpFile, "header", 0, "26 bytes or more", "%d", len(b))
	}
	w, rows := int32(binary.LittleEndian.Uint32(b[18:])), int32(binary.LittleEndian.Uint32(b[22:]))
	h.w, h.h = int(w), int(rows)
	if rows < 0 {
		h.h = -int(rows)
	}
	return nil
}
