package storage

import (
	"context"
	"crypto/sha256"
	"hash/fnv"
	"io"
	"path"
	"strconv"
)

// Versioned is an optional method of a [File]: a text that changes when the contents change, such as
// the ETag of an object or the checksum of an entry of an archive; "" if there is none.
type Versioned interface {
	Version() string
}

// Version returns the version of f, or "" if it has none, as a local file.
func Version(f File) string { return version(f) }

func version(f any) string {
	if v, ok := f.(Versioned); ok {
		return v.Version()
	}
	return ""
}

// Fingerprint returns a number of 64 bits that depends on the last element of f's name, on its size
// and on its version, and reads nothing. Two files with different fingerprints are different; a
// local file whose bytes change in place keeps its fingerprint: [Digest] tells those apart.
func Fingerprint(f File) uint64 {
	h := fnv.New64a()
	io.WriteString(h, path.Base(f.Name())+"\x00"+strconv.FormatInt(f.Size(), 10)+"\x00"+Version(f))
	return h.Sum64()
}

// Digest returns the SHA-256 of f's contents, which it reads in full, 256 KiB at a time.
func Digest(ctx context.Context, f File) ([sha256.Size]byte, error) {
	h := sha256.New()
	buf := make([]byte, min(f.Size(), 256<<10))
	for off := int64(0); off < f.Size(); off += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), f.Size()-off)]
		if err := ReadAt(ctx, f, buf, off); err != nil {
			return [sha256.Size]byte{}, err
		}
		h.Write(buf)
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}
