package pack

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/fnv"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/storage"
)

// newHash returns the hash of the fingerprint.
func newHash() hash.Hash64 { return fnv.New64a() }

// Verify reads the whole file and compares it with its checksums. The first chunk that differs is a
// *dataloader.FormatError with its offset. It also checks that encoded values lie within the file.
// progress, unless nil, is called after each chunk with the bytes read and the bytes of all chunks.
// It needs one chunk of memory, 1 MiB in files of [Write].
func (d *Dataset) Verify(ctx context.Context, progress func(done, total int64)) error {
	return verify(ctx, d.file, d.layout, progress)
}

// Verify is [Dataset.Verify] of the pack at path, without decoders.
func Verify(ctx context.Context, path string, progress func(done, total int64)) (err error) {
	if ctx == nil {
		return fmt.Errorf("verify: no context: use context.Background(): %w", dataloader.ErrOption)
	}
	f, err := storage.OpenFile(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	l, err := decode(f.Name(), f.Size(), func(p []byte, at int64) error { return storage.ReadAt(ctx, f, p, at) })
	if err != nil {
		return err
	}
	return verify(ctx, f, l, progress)
}

// verify compares the chunks of records, then those of values.
func verify(ctx context.Context, f storage.File, l *layout, progress func(done, total int64)) error {
	v := &verifier{ctx: ctx, f: f, l: l, progress: progress, fingerprint: newHash(), chunk: make([]byte, min(l.Chunk, max(l.Count*l.Record, l.ValueBytes)))}
	if err := v.part("records", l.Records, l.Count*l.Record); err != nil {
		return err
	}
	if err := v.part("values", l.Values, l.ValueBytes); err != nil {
		return err
	}
	if got := fmt.Sprintf("%016x", v.fingerprint.Sum64()); got != l.Fingerprint {
		return problem(f.Name(), l.Sums, "checksums", "fingerprint "+l.Fingerprint, got+": the file is damaged", nil)
	}
	return nil
}

// verifier compares a file with its checksums.
type verifier struct {
	ctx         context.Context // of one call of Verify
	f           storage.File
	l           *layout
	progress    func(done, total int64)
	fingerprint hash.Hash64
	chunk       []byte
	done, sums  int64 // bytes and chunks compared
}

// part compares the chunks of n bytes from an offset on.
func (v *verifier) part(what string, start, n int64) error {
	var sum [4]byte
	for at := start; at < start+n; at += v.l.Chunk {
		p := v.chunk[:min(v.l.Chunk, start+n-at)]
		if err := storage.ReadAt(v.ctx, v.f, p, at); err != nil {
			return err
		}
		if err := storage.ReadAt(v.ctx, v.f, sum[:], v.l.Sums+4*v.sums); err != nil {
			return err
		}
		v.fingerprint.Write(sum[:])
		if want, got := binary.LittleEndian.Uint32(sum[:]), crc32.Checksum(p, castagnoli); got != want {
			return problem(v.f.Name(), at, fmt.Sprintf("checksum of %d bytes of %s", len(p), what),
				fmt.Sprintf("%08x", want), fmt.Sprintf("%08x: the file is damaged", got), nil)
		}
		v.sums++
		v.done += int64(len(p))
		if v.progress != nil {
			v.progress(v.done, v.l.Count*v.l.Record+v.l.ValueBytes)
		}
	}
	return nil
}
