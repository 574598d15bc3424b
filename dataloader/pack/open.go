package pack

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/storage"
)

// Options of Open. The zero value is right for packs without encoded fields.
type Options struct {
	// Decoders decode the encoded fields, by name. Each encoded field needs one.
	Decoders map[string]dataloader.Decoder
	// Verify compares the whole file with its checksums before Open returns.
	Verify bool
	// Mapped reads through a mapping of the file, which must be a file of this machine. Small samples
	// in random order are read about three times as fast. Pages that were read count as resident memory
	// of the process while they are in the page cache.
	Mapped bool
	// MaxValue is the most bytes of one encoded value. A file with a longer one is refused. 0 means
	// 64 MiB.
	MaxValue int64
}

// defaultMaxValue is the default of Options.MaxValue.
const defaultMaxValue = 64 << 20

// Dataset is an open pack: a [dataloader.Dataset]. Its methods are safe for concurrent use.
type Dataset struct {
	file     storage.File
	layout   *layout
	bytes    []int64 // of a field in the record
	fields   []dataloader.Field
	decoders []dataloader.Decoder // by field; nil: not encoded
	direct   bool                 // read each field straight to its place
	scratch  sync.Pool            // of *scratch
}

// scratch is memory of one call of Fetch.
type scratch struct {
	record []byte // empty if the fields are read directly
	value  []byte
}

// Open opens the pack at path. It reads and checks the description only, unless Options.Verify is
// set. A file that is no pack, was cut, or contradicts itself is a *dataloader.FormatError. The
// caller must Close the dataset.
func Open(path string, opt Options) (*Dataset, error) {
	f, err := storage.OpenFile(path)
	if err != nil {
		return nil, err
	}
	return open(context.Background(), f, opt)
}

// OpenFS is Open for a file of a file system, which must have ReadAt.
func OpenFS(fsys fs.FS, name string, opt Options) (*Dataset, error) {
	return OpenContext(context.Background(), fsys, name, opt)
}

// OpenContext is OpenFS for slow storage: it ends with the error of ctx soon after ctx is done.
func OpenContext(ctx context.Context, fsys fs.FS, name string, opt Options) (*Dataset, error) {
	if ctx == nil || fsys == nil {
		return nil, fmt.Errorf("pack: no context or no file system: %w", dataloader.ErrOption)
	}
	f, err := storage.Open(fsys, name)
	if err != nil {
		return nil, err
	}
	return open(ctx, f, opt)
}

// open takes the file over.
func open(ctx context.Context, f storage.File, opt Options) (*Dataset, error) {
	d, err := prepare(ctx, f, opt)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if opt.Verify {
		if err := d.Verify(ctx, nil); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

// prepare reads the description.
func prepare(ctx context.Context, f storage.File, opt Options) (*Dataset, error) {
	if opt.MaxValue < 0 {
		return nil, fmt.Errorf("largest value of %d bytes: must be 0 (default) or more: %w", opt.MaxValue, dataloader.ErrOption)
	}
	if opt.MaxValue == 0 {
		opt.MaxValue = defaultMaxValue
	}
	d := &Dataset{file: f}
	var err error
	d.layout, err = decode(f.Name(), f.Size(), func(p []byte, at int64) error {
		return storage.ReadAt(ctx, f, p, at)
	})
	if err != nil {
		return nil, err
	}
	if n := d.layout.Longest; n > opt.MaxValue {
		return nil, problem(f.Name(), fixedBytes, "longest",
			fmt.Sprintf("at most %d bytes, or a larger Options.MaxValue", opt.MaxValue), fmt.Sprint(n), nil)
	}
	if err := d.match(opt.Decoders); err != nil {
		return nil, err
	}
	if opt.Mapped {
		if d.file, _, err = storage.Map(f); err != nil {
			return nil, err
		}
	}
	d.direct = opt.Mapped || d.layout.Record > directBytes
	d.scratch.New = func() any {
		s := new(scratch)
		switch {
		case !d.direct:
			s.record = make([]byte, d.layout.Record)
		case d.layout.ValueBytes > 0:
			s.record = make([]byte, encodedBytes)
		}
		return s
	}
	return d, nil
}

// directBytes is the most bytes of a record that is read in one piece.
const directBytes = 256 << 10

// match gives each encoded field its decoder.
func (d *Dataset) match(decoders map[string]dataloader.Decoder) error {
	var errs []error
	left := maps.Clone(decoders)
	for _, f := range d.layout.Fields {
		n, _ := f.size()
		d.bytes = append(d.bytes, n)
		if f.Type != encodedType {
			d.fields, d.decoders = append(d.fields, f.stored()), append(d.decoders, nil)
			continue
		}
		c := decoders[f.Name]
		delete(left, f.Name)
		if c == nil {
			errs = append(errs, fmt.Errorf("%s: field %q is encoded: give it a decoder in Options.Decoders: %w",
				d.file.Name(), f.Name, dataloader.ErrOption))
			continue
		}
		d.fields, d.decoders = append(d.fields, c.Field(f.Name)), append(d.decoders, c)
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		errs = append(errs, fmt.Errorf("%s: a decoder for %q, which is no encoded field: %w", d.file.Name(), name, dataloader.ErrOption))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return dataloader.Check(d)
}

// Close closes the file. No Fetch may run or follow. A second call does nothing.
func (d *Dataset) Close() error { return d.file.Close() }

// Len returns the number of samples.
func (d *Dataset) Len() int { return int(d.layout.Count) }

// Fields returns the fields in the order of the record. The field of encoded values is the one of
// their decoder.
func (d *Dataset) Fields() []dataloader.Field { return d.fields }

// Fingerprint returns a number that depends on the fields, through the checksums on all bytes of the
// samples, and on the decoders that are a dataloader.Fingerprinter.
func (d *Dataset) Fingerprint() uint64 {
	sum := d.layout.hash()
	for _, c := range d.decoders {
		if f, ok := c.(dataloader.Fingerprinter); ok {
			h := newHash()
			h.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, sum), f.Fingerprint()))
			sum = h.Sum64()
		}
	}
	return sum
}

// Info describes a pack.
type Info struct {
	Samples     int
	Fields      []dataloader.Field // those of encoded fields have only a name
	Encoded     []string           // names of the encoded fields
	RecordBytes int64              // of one sample
	ValueBytes  int64              // of all encoded values
	Bytes       int64              // of the file
	Fingerprint uint64
	Classes     map[string][]string // names of the labels of fields, as given to Write
	Notes       map[string]string   // as given to Write
}

// Classes returns the names of the labels of a field, nil if the pack has none.
func (d *Dataset) Classes(name string) []string { return d.Info().Classes[name] }

// Info returns a description of the pack.
func (d *Dataset) Info() Info { return d.layout.info() }

// Stat reads the description of the pack at path, without decoders.
func Stat(path string) (info Info, err error) {
	f, err := storage.OpenFile(path)
	if err != nil {
		return Info{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	l, err := decode(f.Name(), f.Size(), func(p []byte, at int64) error {
		return storage.ReadAt(context.Background(), f, p, at)
	})
	if err != nil {
		return Info{}, err
	}
	return l.info(), nil
}

// info returns the description for callers.
func (l *layout) info() Info {
	i := Info{Samples: int(l.Count), RecordBytes: l.Record, ValueBytes: l.ValueBytes, Bytes: l.size(),
		Fingerprint: l.hash(), Classes: map[string][]string{}, Notes: maps.Clone(l.Notes)}
	for _, f := range l.Fields {
		if f.Classes != nil {
			i.Classes[f.Name] = slices.Clone(f.Classes)
		}
		if f.Type == encodedType {
			i.Encoded = append(i.Encoded, f.Name)
			i.Fields = append(i.Fields, dataloader.Field{Name: f.Name})
			continue
		}
		i.Fields = append(i.Fields, f.stored())
	}
	return i
}

// hash returns the fingerprint of the description and the samples.
func (l *layout) hash() uint64 {
	h := newHash()
	text := l.Fingerprint
	for _, f := range l.Fields {
		text += "\x00" + f.Name + "\x00" + f.Type + fmt.Sprint(f.Shape) + strconv.FormatFloat(f.Scale, 'g', -1, 64) +
			" " + strconv.FormatFloat(f.Shift, 'g', -1, 64)
		if f.Classes != nil {
			text += fmt.Sprintf(" %q", f.Classes)
		}
	}
	h.Write([]byte(text + "\x00" + strconv.FormatInt(l.Count, 10)))
	return h.Sum64()
}
