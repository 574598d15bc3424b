package parquet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codecs of compressed pages.
const (
	codecNone   = 0
	codecSnappy = 1
	codecGzip   = 2
	codecBrotli = 4
	codecZstd   = 6
	codecLZ4    = 7
)

var codecNames = [...]string{"no compression", "Snappy", "gzip", "LZO", "Brotli", "LZ4 with Hadoop's frames", "zstd", "LZ4"}

// codecName returns the name of a codec.
func codecName(codec int) string {
	if codec >= 0 && codec < len(codecNames) {
		return codecNames[codec]
	}
	return fmt.Sprintf("codec %d", codec)
}

// readable reports whether decompress knows the codec.
func readable(codec int) bool {
	switch codec {
	case codecNone, codecSnappy, codecGzip, codecBrotli, codecZstd, codecLZ4:
		return true
	}
	return false
}

// maxRatio returns the most bytes that n compressed bytes can become, so that a size which a file
// claims is not believed.
func maxRatio(codec int, n int64) int64 {
	switch codec {
	case codecSnappy: // a copy of 64 bytes takes 3
		return 22*n + 64
	case codecGzip: // zlib technical details
		return 1032 * n
	case codecLZ4: // each byte of a length adds 255
		return 255*n + 64
	}
	return math.MaxInt64
}

// errSize: a page has other bytes than its header says.
var errSize = errors.New("another number of bytes")

// inflaters are the decoders of compressed pages, made when they are needed.
type inflaters struct {
	src    bytes.Reader
	gzip   *gzip.Reader
	brotli *brotli.Reader
	zstd   *zstd.Decoder
}

// decompress fills dst from src. Bytes that are left over or missing are an error. It never writes
// more than dst, whatever src says.
func (i *inflaters) decompress(codec int, dst, src []byte) (err error) {
	i.src.Reset(src)
	switch codec {
	case codecSnappy:
		if n, err := snappy.DecodedLen(src); err != nil || n != len(dst) {
			return errors.Join(errSize, err)
		}
		_, err := snappy.Decode(dst, src)
		return err
	case codecGzip:
		if i.gzip == nil {
			i.gzip, err = gzip.NewReader(&i.src)
		} else {
			err = i.gzip.Reset(&i.src)
		}
		if err != nil {
			i.gzip = nil
			return err
		}
		return exactly(i.gzip, dst)
	case codecBrotli:
		if i.brotli == nil {
			i.brotli = brotli.NewReader(&i.src)
		} else if err := i.brotli.Reset(&i.src); err != nil {
			return err
		}
		return exactly(i.brotli, dst)
	case codecZstd:
		if i.zstd == nil {
			if i.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true)); err != nil {
				return err
			}
		}
		out, err := i.zstd.DecodeAll(src, dst[:0:len(dst)])
		if err == nil && len(out) != len(dst) {
			err = errSize
		}
		return err
	case codecLZ4:
		n, err := lz4.UncompressBlock(src, dst)
		if err == nil && n != len(dst) {
			err = errSize
		}
		return err
	}
	return fmt.Errorf("%s is not read: write the file with zstd, Snappy or LZ4_RAW", codecName(codec))
}

// exactly fills dst from r, which must then be at its end.
func exactly(r io.Reader, dst []byte) error {
	if _, err := io.ReadFull(r, dst); err != nil {
		if err == io.EOF {
			return io.ErrUnexpectedEOF
		}
		return err
	}
	var more [1]byte
	switch n, err := r.Read(more[:]); {
	case n > 0:
		return errSize
	case err != nil && err != io.EOF:
		return err
	}
	return nil
}
