package pack

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/atomicfile"
)

// EncodedSource is a dataset that also has the encoded bytes of its fields, such as JPEG files.
type EncodedSource interface {
	dataloader.Dataset
	// FetchEncoded is Fetch, except for the fields whose dst is nil: it appends the encoded bytes of
	// such a field k to encoded[k][:0] and stores the result in encoded[k]. A field without encoded
	// bytes is an error that wraps dataloader.ErrOption.
	FetchEncoded(ctx context.Context, at dataloader.At, dst, encoded [][]byte) error
}

// WriteOptions of Write.
type WriteOptions struct {
	// Encoded names the fields that keep their encoded bytes; the dataset must be an EncodedSource.
	// Such a pack is smaller, and its samples are decoded, with new random draws, when they are read.
	Encoded []string
	// Workers is the number of goroutines that fetch, as in dataloader.Options. The file does not
	// depend on it.
	Workers int
	// Seed is that of the random draws of the samples, which are those of epoch 0.
	Seed uint64
	// Classes lists the names of the labels of fields, which are stored in the description: field y is
	// an index in Classes["y"], or negative for none. They must be UTF-8, and such fields integers that
	// are not encoded.
	Classes map[string][]string
	// Notes are stored in the file, for people and programs, such as sources.
	Notes map[string]string
	// Progress, unless nil, is called after each batch of samples, by the goroutine that called Write.
	Progress func(Progress)
}

// Progress is the state of Write.
type Progress struct {
	Done, Total int   // samples
	Bytes       int64 // written
}

const (
	writeSlots   = 3
	writeBytes   = 1 << 20 // of a batch, about
	writeSamples = 4096    // in a batch, at most
	encodedRows  = 64      // samples in a batch with encoded fields, at most
)

// Write stores all samples of ds at path, in the order of their indices. The file appears under its
// name when it is complete and on the disk; before, or after an error, what was there stays. The
// same samples give the same file.
//
// Workers fetch while Write computes checksums and writes. It needs memory for three batches of
// about 1 MiB or one sample each, or three times 64 encoded values. A done ctx ends it with its
// error.
func Write(ctx context.Context, path string, ds dataloader.Dataset, opt WriteOptions) (err error) {
	if ctx == nil {
		return fmt.Errorf("pack: no context: use context.Background(): %w", dataloader.ErrOption)
	}
	r, err := newRows(ds, opt)
	if err != nil {
		return err
	}
	f, err := atomicfile.Create(nil, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := &writer{f: f, rows: r, records: summer{chunk: chunkBytes}, values: summer{chunk: chunkBytes}, progress: opt.Progress}
	if err := w.samples(ctx, opt); err != nil {
		return err
	}
	if err := w.finish(); err != nil {
		return err
	}
	return f.Commit()
}

// writer writes one file.
type writer struct {
	f               *atomicfile.File
	rows            *rows
	records, values summer
	progress        func(Progress)
}

// samples writes the records and the values.
func (w *writer) samples(ctx context.Context, opt WriteOptions) (err error) {
	r := w.rows
	l, err := dataloader.New(r.dataset(), dataloader.Options{Batch: r.batch, Workers: opt.Workers, Seed: opt.Seed})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	slots := make([]dataloader.Slot, writeSlots)
	for i := range slots {
		slots[i].Fields = [][]byte{make([]byte, int(r.layout.Record)*r.batch)}
	}
	run, err := l.Epoch(ctx, 0, slots)
	if err != nil {
		return err
	}
	for done := 0; ; {
		b, err := run.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("pack: %w", err)
		}
		if err := w.batch(done, slots[b.Slot].Fields[0][:b.Rows*int(r.layout.Record)]); err != nil {
			return err
		}
		done += b.Rows
		if w.progress != nil {
			w.progress(Progress{Done: done, Total: r.Len(), Bytes: w.records.n + w.values.n})
		}
		if err := run.Release(b.Slot, nil); err != nil {
			return err
		}
	}
}

// batch writes the records from a sample on, and their values.
func (w *writer) batch(first int, records []byte) error {
	l := w.rows.layout
	if len(w.rows.encoded) > 0 {
		for i := range len(records) / int(l.Record) {
			values := w.rows.values[(first+i)%len(w.rows.values)]
			for _, k := range w.rows.encoded {
				entry := records[i*int(l.Record)+int(l.Fields[k].Offset):]
				binary.LittleEndian.PutUint64(entry, uint64(l.Values+w.values.n))
				binary.LittleEndian.PutUint64(entry[8:], uint64(len(values[k])))
				if _, err := w.f.WriteAt(values[k], l.Values+w.values.n); err != nil {
					return err
				}
				w.values.add(values[k])
				l.Longest = max(l.Longest, int64(len(values[k])))
			}
		}
	}
	if _, err := w.f.WriteAt(records, l.Records+w.records.n); err != nil {
		return err
	}
	w.records.add(records)
	return nil
}

// finish writes the checksums and the description.
func (w *writer) finish() error {
	l := w.rows.layout
	l.ValueBytes = w.values.n
	if l.ValueBytes > math.MaxInt64>>2 {
		return fmt.Errorf("pack: %d bytes of values: too large for a file: %w", l.ValueBytes, dataloader.ErrOption)
	}
	l.Sums = up(l.Values+l.ValueBytes, sumsAlign)
	sums := append(w.records.end(), w.values.end()...)
	h := newHash()
	h.Write(sums)
	l.Fingerprint = fmt.Sprintf("%016x", h.Sum64())
	if _, err := w.f.WriteAt(sums, l.Sums); err != nil {
		return err
	}
	header, err := l.encode(l.Records - fixedBytes)
	if err != nil {
		return err
	}
	_, err = w.f.WriteAt(header, 0)
	return err
}

// summer computes the checksums of chunks of bytes that arrive in pieces.
type summer struct {
	chunk int64
	n     int64 // bytes so far
	crc   uint32
	sums  []byte
}

// add adds the next bytes.
func (s *summer) add(p []byte) {
	for len(p) > 0 {
		m := min(int64(len(p)), s.chunk-s.n%s.chunk)
		s.crc = crc32.Update(s.crc, castagnoli, p[:m])
		s.n += m
		p = p[m:]
		if s.n%s.chunk == 0 {
			s.sums, s.crc = binary.LittleEndian.AppendUint32(s.sums, s.crc), 0
		}
	}
}

// end returns the checksums of all chunks.
func (s *summer) end() []byte {
	if s.n%s.chunk != 0 {
		return binary.LittleEndian.AppendUint32(s.sums, s.crc)
	}
	return s.sums
}

// describe returns the layout of a file of the samples of ds, with the parts up to Values in place.
func describe(ds dataloader.Dataset, opt WriteOptions, encoded map[string]bool) (*layout, error) {
	l := &layout{Version: 1, Count: int64(ds.Len()), Chunk: chunkBytes, Notes: maps.Clone(opt.Notes)}
	for _, f := range ds.Fields() {
		g := field{Name: f.Name, Type: f.Type.String(), Shape: append([]int{}, f.Shape...), Scale: f.Scale, Shift: f.Shift}
		if encoded[f.Name] {
			g = field{Name: f.Name, Type: encodedType, Shape: []int{}}
		}
		g.Classes = slices.Clone(opt.Classes[f.Name])
		l.Fields = append(l.Fields, g)
	}
	// The description must have room for all numbers, which are known only at the end.
	most := *l
	most.Fields = append([]field(nil), l.Fields...)
	for k := range most.Fields {
		most.Fields[k].Offset = math.MaxInt64
	}
	for _, n := range []*int64{&most.Count, &most.Record, &most.Records, &most.Values, &most.ValueBytes, &most.Longest, &most.Sums, &most.Chunk} {
		*n = math.MaxInt64
	}
	most.Fingerprint = fmt.Sprintf("%016x", 0)
	text, err := most.encode(0)
	if err != nil {
		return nil, err
	}
	return l, l.place(int64(len(text)) - fixedBytes)
}
