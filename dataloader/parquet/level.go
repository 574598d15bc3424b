package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/parquet-go/parquet-go/encoding/rle"
)

// Repetition and definition levels, and indices of dictionaries, are runs: a number of equal values,
// or a group of 8 values or more packed into bits. The library decodes them. It believes the length
// of a run, so that runs checks them first.
// https://parquet.apache.org/docs/file-format/data-pages/encodings/#RLE

// maxPadding limits the values beyond those of the page that the last packed group may have.
const maxPadding = 512

// runs returns the part of src that has n values of width bits, and how many it has in all, which
// are n or, if the last run is packed, a few more.
func runs(src []byte, width, n int) (part []byte, values int, err error) {
	at := 0
	for values < n {
		u, k := binary.Uvarint(src[at:])
		if k <= 0 {
			return nil, 0, fmt.Errorf("runs of %d values end after %d", n, values)
		}
		at += k
		count, size := u>>1, uint64(width+7)/8
		if u&1 != 0 {
			if count > uint64(len(src)) {
				return nil, 0, fmt.Errorf("a packed run of %d × 8 values in %d bytes", count, len(src))
			}
			size = count * uint64(width)
			count *= 8
		}
		if size > uint64(len(src)-at) {
			return nil, 0, fmt.Errorf("a run of %d bytes where %d are left", size, len(src)-at)
		}
		if count > uint64(n-values) && (u&1 == 0 || count >= uint64(n-values+maxPadding)) {
			return nil, 0, fmt.Errorf("a run of %d values where %d are left", count, n-values)
		}
		at += int(size)
		values += int(count)
	}
	return src[:at], values, nil
}

// levels decodes n levels up to most to dst, whose memory it reuses.
func levels(dst []byte, src []byte, most, n int) ([]byte, error) {
	width := bits.Len(uint(most))
	src, all, err := runs(src, width, n)
	if err != nil {
		return dst, err
	}
	if cap(dst) < all {
		dst = make([]byte, all)
	}
	e := rle.Encoding{BitWidth: width}
	if dst, err = e.DecodeLevels(dst[:0], src); err != nil {
		return dst, err
	}
	if len(dst) < n {
		return dst, errors.New("fewer levels than values")
	}
	dst = dst[:n]
	for _, v := range dst {
		if int(v) > most {
			return dst, fmt.Errorf("level %d: at most %d", v, most)
		}
	}
	return dst, nil
}

// indices decodes n indices of a dictionary to dst, whose memory it reuses. The first byte of src is
// their width in bits.
func indices(dst []int32, src []byte, n int) ([]int32, error) {
	if cap(dst) < n {
		dst = make([]int32, n+maxPadding)
	}
	if n == 0 {
		return dst[:0], nil
	}
	if len(src) == 0 {
		return dst, errors.New("no indices")
	}
	width := int(src[0])
	if width > 32 {
		return dst, fmt.Errorf("indices of %d bits", width)
	}
	if width == 0 {
		clear(dst[:n]) // a dictionary of one value; some writers cut the runs
		return dst[:n], nil
	}
	src, _, err := runs(src[1:], width, n)
	if err != nil {
		return dst, err
	}
	e := rle.Encoding{BitWidth: width}
	if dst, err = e.DecodeInt32(dst[:cap(dst)], src); err != nil {
		return dst, err
	}
	if len(dst) < n {
		return dst, errors.New("fewer indices than values")
	}
	return dst[:n], nil
}
