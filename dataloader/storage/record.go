package storage

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// records reads the records of an archive's directory.
type records struct {
	r    io.Reader
	at   int64 // offset in the file of the next byte
	text [3 * math.MaxUint16]byte
}

// read fills p. The directory ends where its size says.
func (r *records) read(f File, p []byte) error {
	n, err := io.ReadFull(r.r, p)
	r.at += int64(n)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return zipError(f, r.at, "directory", fmt.Sprintf("%d bytes more", len(p)-n), "its end")
	}
	return err
}

// next reads the next record of directory d.
func (r *records) next(f File, d directory) (entry, error) {
	var b [centralBytes]byte
	start := r.at
	if err := r.read(f, b[:]); err != nil {
		return entry{}, err
	}
	if string(b[:4]) != "PK\x01\x02" {
		return entry{}, zipError(f, start, "directory", `a record "PK\1\2"`, fmt.Sprintf("%q", b[:4]))
	}
	le := binary.LittleEndian
	name, extra, comment := int(le.Uint16(b[28:])), int(le.Uint16(b[30:])), int(le.Uint16(b[32:]))
	text := r.text[:name+extra+comment]
	if err := r.read(f, text); err != nil {
		return entry{}, err
	}
	e := entry{name: string(text[:name]), flags: le.Uint16(b[8:]), method: le.Uint16(b[10:]), modified: le.Uint32(b[12:]), crc: le.Uint32(b[16:])}
	if system := b[5]; system == 3 || system == 19 { // Unix, macOS: the upper half is st_mode
		typ := b[41] & 0xf0
		e.special = typ != 0 && typ != 0x80 && typ != 0x40
	}
	size, packed, header := uint64(le.Uint32(b[24:])), uint64(le.Uint32(b[20:])), uint64(le.Uint32(b[42:]))
	if err := large(f, start, text[name:name+extra], &size, &packed, &header); err != nil {
		return entry{}, err
	}
	if header > uint64(d.start-d.base) || packed > uint64(d.start) || size > math.MaxInt64 {
		return entry{}, zipError(f, start, fmt.Sprintf("file %q", e.name), fmt.Sprintf("to lie before the directory at byte %d", d.start),
			fmt.Sprintf("%d bytes (%d unpacked) from byte %d on", packed, size, header))
	}
	e.size, e.packed, e.header = int64(size), int64(packed), int64(header)+d.base
	if e.method == methodStored && e.size != e.packed && e.flags&flagEncrypted == 0 {
		return entry{}, zipError(f, start, fmt.Sprintf("size of the stored file %q", e.name), fmt.Sprint(e.packed), e.size)
	}
	return e, nil
}

// large replaces numbers that are all ones by those of 64 bits in the extra fields, if there are any.
func large(f File, at int64, extra []byte, numbers ...*uint64) error {
	le := binary.LittleEndian
	for len(extra) >= 4 {
		tag, n := le.Uint16(extra), int(le.Uint16(extra[2:]))
		if extra = extra[4:]; n > len(extra) {
			return zipError(f, at, "extra field", fmt.Sprintf("at most %d bytes", len(extra)), n)
		}
		field := extra[:n]
		if extra = extra[n:]; tag != 1 {
			continue
		}
		for _, p := range numbers {
			if *p != math.MaxUint32 {
				continue
			}
			if len(field) < 8 {
				return zipError(f, at, "extra field of a large file", "8 bytes a number", fmt.Sprintf("%d bytes", n))
			}
			*p, field = le.Uint64(field), field[8:]
		}
		return nil
	}
	return nil
}
