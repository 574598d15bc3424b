package parquet

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/evenkeel/evenkeel/dataloader"
)

// Kinds of pages.
const (
	pageData   = 0
	pageIndex  = 1
	pageDict   = 2
	pageDataV2 = 3
)

// Encodings of pages.
const (
	encodingPlain      = 0
	encodingPlainDict  = 2
	encodingRLE        = 3
	encodingDelta      = 5
	encodingDeltaBytes = 6
	encodingRLEDict    = 8
	encodingSplit      = 9
)

var encodingNames = map[int]string{4: "BIT_PACKED", 7: "DELTA_BYTE_ARRAY"}

// pageHeader describes a page.
type pageHeader struct {
	kind         int
	uncompressed int64
	compressed   int64
	crc          uint32
	hasCRC       bool
	values       int64
	encoding     int
	defEncoding  int
	repEncoding  int
	defBytes     int64 // version 2 only
	repBytes     int64 // version 2 only
	packed       bool  // the values are compressed, if the column is
}

// pageHeader reads a PageHeader.
func (c *compact) pageHeader() pageHeader {
	h := pageHeader{kind: -1, packed: true, defEncoding: encodingRLE, repEncoding: encodingRLE}
	c.each(func(id int, typ byte) {
		switch {
		case id == 1:
			h.kind = int(int32(c.number(typ)))
		case id == 2:
			h.uncompressed = c.number(typ)
		case id == 3:
			h.compressed = c.number(typ)
		case id == 4:
			h.crc, h.hasCRC = uint32(c.number(typ)), true
		case (id == 5 || id == 7) && typ == cStruct:
			c.each(func(id int, typ byte) {
				switch id {
				case 1:
					h.values = c.number(typ)
				case 2:
					h.encoding = int(int32(c.number(typ)))
				case 3:
					h.defEncoding = int(int32(c.number(typ)))
				case 4:
					h.repEncoding = int(int32(c.number(typ)))
				default:
					c.skip(typ)
				}
			})
		case id == 8 && typ == cStruct:
			c.headerV2(&h)
		default:
			c.skip(typ)
		}
	})
	return h
}

// headerV2 reads a DataPageHeaderV2.
func (c *compact) headerV2(h *pageHeader) {
	c.each(func(id int, typ byte) {
		switch id {
		case 1:
			h.values = c.number(typ)
		case 4:
			h.encoding = int(int32(c.number(typ)))
		case 5:
			h.defBytes = c.number(typ)
		case 6:
			h.repBytes = c.number(typ)
		case 7:
			h.packed = typ != cFalse
			c.skip(typ)
		default:
			c.skip(typ)
		}
	})
}

// Sizes of reads.
const (
	readAtOnce = 256 << 10 // bytes
	maxHeader  = 1 << 20   // bytes of a page header
)

// pageReader reads the pages of one column chunk in order. It keeps a page of the file in memory.
type pageReader struct {
	file   *file
	column string
	group  int
	codec  int
	limit  int64 // bytes of a page

	window []byte // bytes of the file from base on
	base   int64
	at     int   // place of the next page in window
	end    int64 // of the chunk in the file
	start  int64 // of the current page
	plain  []byte
	inflaters
}

// open begins a chunk.
func (r *pageReader) open(f *file, column string, group int, k chunk, limit int64) error {
	r.file, r.column, r.group, r.codec, r.limit = f, column, group, k.codec, limit
	from := k.data
	if k.dict >= int64(len(magic)) && k.dict < from {
		from = k.dict
	}
	r.window, r.at, r.base, r.start = r.window[:0], 0, from, from
	r.end = from + k.compressed
	if r.end > f.size-tail || r.end < from {
		return r.fail("column chunk", fmt.Sprintf("an end before byte %d", f.size-tail), fmt.Sprintf("%d bytes from %d on", k.compressed, from), nil)
	}
	return nil
}

// fail returns the error for the current page.
func (r *pageReader) fail(what, want, got string, err error) error {
	return &dataloader.FormatError{File: r.file.name, Offset: r.start, Err: err, Want: want, Got: got,
		What: fmt.Sprintf("column %q, row group %d: %s", r.column, r.group, what)}
}

// fill makes n bytes available from at on, or as many as the chunk has.
func (r *pageReader) fill(ctx context.Context, n int) error {
	have := len(r.window) - r.at
	left := r.end - r.base - int64(len(r.window)) // bytes of the chunk that follow the window
	if have >= n || left == 0 {
		return nil
	}
	more := int(min(max(int64(n-have), readAtOnce), left))
	r.base += int64(r.at)
	if need := have + more; need > cap(r.window) {
		grown := make([]byte, have, need)
		copy(grown, r.window[r.at:])
		r.window = grown
	} else {
		r.window = r.window[:copy(r.window, r.window[r.at:])]
	}
	r.at = 0
	r.window = r.window[:have+more]
	if err := r.file.read(ctx, r.window[have:], r.base+int64(have)); err != nil {
		r.window = r.window[:have]
		return err
	}
	return nil
}

// next returns the header and the bytes of the next page: as they are in the file if it is of
// version 2, else uncompressed. They are valid until the next call. At the end it returns io.EOF.
func (r *pageReader) next(ctx context.Context) (h pageHeader, body []byte, err error) {
	if err := ctx.Err(); err != nil {
		return h, nil, err
	}
	r.start = r.base + int64(r.at)
	if r.start == r.end {
		return h, nil, io.EOF
	}
	if h, err = r.header(ctx); err != nil {
		return h, nil, err
	}
	left := r.end - r.base - int64(r.at)
	switch {
	case h.compressed < 0 || h.compressed > left:
		return h, nil, r.fail("compressed size of a page", fmt.Sprintf("0 to %d bytes, the rest of the chunk", left), fmt.Sprint(h.compressed), nil)
	case h.uncompressed < 0 || max(h.uncompressed, h.compressed-h.compressed/8) > r.limit:
		return h, nil, r.fail("size of a page", fmt.Sprintf("0 to %d bytes (Options.Limit)", r.limit), fmt.Sprint(h.uncompressed), nil)
	case h.values < 0:
		return h, nil, r.fail("values of a page", "0 or more", fmt.Sprint(h.values), nil)
	}
	if err := r.fill(ctx, int(h.compressed)); err != nil {
		return h, nil, err
	}
	body = r.window[r.at : r.at+int(h.compressed)]
	r.at += int(h.compressed)
	if h.hasCRC {
		if sum := crc32.ChecksumIEEE(body); sum != h.crc {
			return h, nil, r.fail("checksum of a page", fmt.Sprintf("%08x", h.crc), fmt.Sprintf("%08x", sum), nil)
		}
	}
	if h.kind == pageData || h.kind == pageDict {
		body, err = r.inflate(body, h.uncompressed)
	}
	return h, body, err
}

// header reads the header at the current place, with more of the file if it is cut.
func (r *pageReader) header(ctx context.Context) (h pageHeader, err error) {
	for n := 4 << 10; ; n *= 4 {
		if err := r.fill(ctx, n); err != nil {
			return h, err
		}
		c := compact{b: r.window[r.at:]}
		h = c.pageHeader()
		if c.err == nil {
			r.at += c.at
			return h, nil
		}
		whole := r.base+int64(len(r.window)) == r.end
		if !errors.Is(c.err, errCut) || whole || n >= maxHeader {
			return h, r.fail("page header", "a header of Thrift's compact protocol", "something else", c.err)
		}
	}
}

// inflate returns the uncompressed bytes of a page or of its values, size of them.
func (r *pageReader) inflate(body []byte, size int64) ([]byte, error) {
	if r.codec == codecNone {
		if int64(len(body)) != size {
			return nil, r.fail("size of an uncompressed page", fmt.Sprint(len(body)), fmt.Sprint(size), nil)
		}
		return body, nil
	}
	if size == 0 {
		return nil, nil
	}
	if most := maxRatio(r.codec, int64(len(body))); size > most {
		return nil, r.fail("size of a page", fmt.Sprintf("at most %d bytes from %d compressed ones", most, len(body)), fmt.Sprint(size), nil)
	}
	if int64(cap(r.plain)) < size {
		r.plain = make([]byte, size)
	}
	r.plain = r.plain[:size]
	if err := r.decompress(r.codec, r.plain, body); err != nil {
		return nil, r.fail("compressed page", fmt.Sprintf("%d bytes of %s", size, codecName(r.codec)), "something else", err)
	}
	return r.plain, nil
}
