package pack

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/storage"
)

// Fetch reads one sample. An encoded value that lies outside the part of the values is a
// *dataloader.FormatError; an error of a decoder names the file and the offset of the value.
func (d *Dataset) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	if at.Index < 0 || int64(at.Index) >= d.layout.Count {
		return fmt.Errorf("%s: sample %d of %d: %w", d.file.Name(), at.Index, d.layout.Count, dataloader.ErrOption)
	}
	s := d.scratch.Get().(*scratch)
	err := d.fetch(ctx, at, dst, s)
	d.scratch.Put(s) // ReadAt and Decode do not keep it
	return err
}

// fetch is Fetch with memory for the record and the values.
func (d *Dataset) fetch(ctx context.Context, at dataloader.At, dst [][]byte, s *scratch) error {
	start := d.layout.Records + int64(at.Index)*d.layout.Record
	if !d.direct {
		if err := storage.ReadAt(ctx, d.file, s.record, start); err != nil {
			return err
		}
	}
	for k := range d.layout.Fields {
		f := &d.layout.Fields[k]
		encoded := d.decoders[k] != nil
		place := dst[k]
		if encoded {
			place = s.record[:encodedBytes]
		}
		if d.direct {
			if err := storage.ReadAt(ctx, d.file, place, start+f.Offset); err != nil {
				return err
			}
		} else {
			stored := s.record[f.Offset:][:d.bytes[k]]
			if !encoded {
				copy(place, stored)
			} else {
				place = stored
			}
		}
		if encoded {
			if err := d.decode(ctx, at, k, place, dst[k], s); err != nil {
				return err
			}
			continue
		}
		if bigEndian {
			swap(dst[k], d.fields[k].Type.Size())
		}
	}
	return nil
}

// decode reads the value of an encoded field, whose place is in entry, and decodes it to dst.
func (d *Dataset) decode(ctx context.Context, at dataloader.At, k int, entry, dst []byte, s *scratch) error {
	l := d.layout
	off, n := binary.LittleEndian.Uint64(entry), binary.LittleEndian.Uint64(entry[8:])
	if off < uint64(l.Values) || n > uint64(l.Longest) || off > uint64(l.Values+l.ValueBytes)-n {
		return problem(d.file.Name(), l.Records+int64(at.Index)*l.Record+l.Fields[k].Offset,
			fmt.Sprintf("place of the value of field %q of sample %d", l.Fields[k].Name, at.Index),
			fmt.Sprintf("at most %d bytes from %d to %d", l.Longest, l.Values, l.Values+l.ValueBytes),
			fmt.Sprintf("%d bytes at %d", n, off), nil)
	}
	if uint64(cap(s.value)) < n {
		s.value = make([]byte, n)
	}
	value := s.value[:n]
	if err := storage.ReadAt(ctx, d.file, value, int64(off)); err != nil {
		return err
	}
	if err := d.decoders[k].Decode(at, value, dst); err != nil {
		return fmt.Errorf("%s: field %q of sample %d, %d bytes at byte %d: %w", d.file.Name(), l.Fields[k].Name, at.Index, n, off, err)
	}
	return nil
}

// bigEndian reports whether this machine stores the most significant byte first.
var bigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// swap reverses the bytes of each element of size bytes.
func swap(b []byte, size int64) {
	n := int(size)
	for i := 0; i+n <= len(b); i += n {
		for j, k := i, i+n-1; j < k; j, k = j+1, k-1 {
			b[j], b[k] = b[k], b[j]
		}
	}
}
