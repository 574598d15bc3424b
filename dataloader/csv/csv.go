package csv

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/parallel"
	"github.com/evenkeel/evenkeel/dataloader/storage"
	"github.com/evenkeel/evenkeel/dataloader/table"
)

// Dataset is the records of a table, or of several with the same columns. It implements
// [dataloader.Dataset] and [dataloader.Blocked]; its methods are safe for concurrent use.
type Dataset struct {
	dataloader.Dataset
	tables *tables
}

// tables are open files, divided into pieces. It implements dataloader.BlockSource.
type tables struct {
	names   []string // of columns
	fields  []*field
	targets [][]target // by column
	missing map[string]bool
	opt     Options
	files   []storage.File
	pieces  []piece
}

// Open opens the table at path, or the tables .csv and .tsv of a folder, or those that match a
// pattern, sorted by bytes and with the same columns. It finds the records, and reads them unless
// Options.Held is set. A file that violates the format is a *dataloader.FormatError with the line,
// and a field that cannot be made a *dataloader.FieldError. The caller must Close the dataset.
func Open(path string, opt Options) (*Dataset, error) {
	return open(context.Background(), table.Path(path), opt)
}

// OpenFS is Open for the files of a file system, which must have ReadAt.
func OpenFS(fsys fs.FS, name string, opt Options) (*Dataset, error) {
	return OpenContext(context.Background(), fsys, name, opt)
}

// OpenContext is OpenFS that returns soon after ctx is done, with its error.
func OpenContext(ctx context.Context, fsys fs.FS, name string, opt Options) (*Dataset, error) {
	return open(ctx, table.FS(fsys, name), opt)
}

// open makes a dataset of the files at a place, and closes them after an error.
func open(ctx context.Context, at table.Files, opt Options) (*Dataset, error) {
	files, err := at(".csv", ".tsv")
	if err != nil {
		return nil, err
	}
	t := &tables{files: files, missing: make(map[string]bool)}
	ds, err := t.open(ctx, opt)
	if err != nil {
		return nil, errors.Join(err, table.Close(files))
	}
	return &Dataset{ds, t}, nil
}

func (t *tables) open(ctx context.Context, opt Options) (dataloader.Dataset, error) {
	if err := opt.check(); err != nil {
		return nil, t.named(err)
	}
	t.opt = opt
	for _, m := range opt.Missing {
		t.missing[m] = true
	}
	if err := t.scan(ctx, opt); err != nil {
		return nil, err
	}
	var err error
	if t.fields, t.targets, err = bind(opt.Fields, t.names); err != nil {
		return nil, t.named(err)
	}
	if len(t.pieces) == 0 {
		return nil, fmt.Errorf("%s: %w", t.files[0].Name(), dataloader.ErrEmpty)
	}
	if err := t.findClasses(ctx, opt.Workers); err != nil {
		return nil, err
	}
	if opt.Held > 0 {
		ds, err := dataloader.FromBlocks(t, dataloader.BlockOptions{Held: opt.Held})
		return ds, t.named(err)
	}
	m, err := t.loadAll(ctx, opt)
	if err != nil {
		return nil, err
	}
	return m, t.named(dataloader.Check(m))
}

// scan finds the columns and the pieces of all files.
func (t *tables) scan(ctx context.Context, opt Options) error {
	for i, f := range t.files {
		own := opt
		if own.Comma == 0 {
			own.Comma = ','
			if strings.HasSuffix(f.Name(), ".tsv") {
				own.Comma = '\t'
			}
		}
		if own.Comma == own.Comment {
			return fmt.Errorf("%s: comment %q is what separates values: must be another character: %w", f.Name(), own.Comment, dataloader.ErrOption)
		}
		x, err := begin(ctx, f, own)
		if err != nil {
			return err
		}
		start, line := x.start, x.line
		names, err := x.header(ctx, opt.Record)
		if err != nil {
			return err
		}
		if opt.NoHeader {
			x.start, x.line, names = start, line, numbered(len(names))
		}
		if i == 0 {
			t.names = names
		} else if !slices.Equal(names, t.names) {
			return x.problem(start, line, "header", fmt.Sprintf("the columns of %s, %q", t.files[0].Name(), short(t.names)), fmt.Sprintf("%q", short(names)))
		}
		pieces, err := scan(ctx, x, opt.Record)
		if err != nil {
			return err
		}
		t.pieces = append(t.pieces, pieces...)
	}
	return nil
}

// findClasses makes the lists of classes.
func (t *tables) findClasses(ctx context.Context, workers int) error {
	finds := func(x target) bool { return x.field.FindClasses }
	if !slices.ContainsFunc(t.targets, func(targets []target) bool { return slices.ContainsFunc(targets, finds) }) {
		return nil
	}
	err := parallel.Each(ctx, len(t.pieces), workers, func(ctx context.Context, i int) error {
		var walk parser
		buf, err := t.pieces[i].read(ctx, nil)
		if err != nil {
			return err
		}
		var full error
		add := func(_, column int, v []byte) error {
			for _, x := range t.targets[column] {
				if !finds(x) || len(v) == 0 || t.missing[string(v)] {
					continue
				}
				if want := x.field.found.Add(v); want != "" {
					full = walk.problem(x.field.what(x), want, "more")
					return full
				}
			}
			return nil
		}
		return t.records(&t.pieces[i], &walk, buf, add, func(int, error) error { return full }) // other errors are those of load
	})
	if err != nil {
		return err
	}
	var errs []error
	for k, f := range t.fields {
		if !f.FindClasses {
			continue
		}
		if problem := f.labels.Set(f.found.Sorted(), true, f.Type, f.Field.Fill); problem != "" {
			errs = append(errs, &dataloader.FieldError{Index: k, Name: f.Name, Problem: problem})
		}
	}
	return t.named(errors.Join(errs...))
}

// named adds the name of the first file to an error about the options.
func (t *tables) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", t.files[0].Name(), err)
}

// Fields implements dataloader.BlockSource.
func (t *tables) Fields() []dataloader.Field {
	var fields []dataloader.Field
	for _, f := range t.fields {
		fields = append(fields, f.out)
	}
	return fields
}

// Sizes implements dataloader.BlockSource.
func (t *tables) Sizes() []int {
	var sizes []int
	for _, p := range t.pieces {
		sizes = append(sizes, p.rows)
	}
	return sizes
}

// Load implements dataloader.BlockSource.
func (t *tables) Load(ctx context.Context, i int, old dataloader.Block) (dataloader.Block, error) {
	b, ok := old.(*block)
	if !ok {
		b = newBlock(t.fields)
	}
	return b, t.load(ctx, &t.pieces[i], b)
}

// memory is all pieces, decoded.
type memory struct {
	fields []dataloader.Field
	blocks []*block
	starts []int // index of the first record of each block, and the number of records
}

// loadAll decodes all pieces.
func (t *tables) loadAll(ctx context.Context, opt Options) (*memory, error) {
	m := &memory{fields: t.Fields(), blocks: make([]*block, len(t.pieces)), starts: make([]int, 1, len(t.pieces)+1)}
	for i, n := range t.Sizes() {
		m.starts = append(m.starts, m.starts[i]+n)
	}
	var bytes int64
	for _, f := range t.fields {
		bytes += int64(f.bytes) * int64(m.Len())
	}
	var used atomic.Int64 // with the texts
	used.Store(bytes)
	parsers := sync.Pool{New: func() any { return new(parser) }}
	err := parallel.Each(ctx, len(t.pieces), opt.Workers, func(ctx context.Context, i int) error {
		if used.Load() > opt.Memory {
			return fmt.Errorf("%s: the values of %d records take more than %d bytes (Options.Memory): set Options.Held to keep a few pieces at a time: %w",
				t.files[0].Name(), m.Len(), opt.Memory, dataloader.ErrOption)
		}
		b, p := newBlock(t.fields), parsers.Get().(*parser)
		b.parser = *p
		err := t.load(ctx, &t.pieces[i], b)
		if err == nil {
			err = b.Bad.First()
		}
		*p, b.parser = b.parser, parser{}
		parsers.Put(p)
		for _, x := range b.Columns {
			if x.Decoder != nil {
				used.Add(int64(cap(x.Data) + 8*cap(x.Ends)))
			}
		}
		m.blocks[i] = b
		return err
	})
	return m, err
}

func (m *memory) Len() int                   { return m.starts[len(m.starts)-1] }
func (m *memory) Fields() []dataloader.Field { return m.fields }
func (m *memory) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	if at.Index < 0 || at.Index >= m.Len() {
		return fmt.Errorf("sample %d of %d: %w", at.Index, m.Len(), dataloader.ErrOption)
	}
	i := sort.SearchInts(m.starts, at.Index+1) - 1
	return m.blocks[i].Fetch(ctx, at.Index-m.starts[i], at, dst)
}

// Columns returns the names of the columns.
func (d *Dataset) Columns() []string { return slices.Clone(d.tables.names) }

// Classes returns the classes of a field with Classes or FindClasses, else nil.
func (d *Dataset) Classes(name string) []string {
	for _, f := range d.tables.fields {
		if f.Name == name {
			return f.labels.Texts()
		}
	}
	return nil
}

// Blocks implements dataloader.Blocked: with Options.Held 0 there are none.
func (d *Dataset) Blocks() dataloader.Blocks {
	if b, ok := d.Dataset.(dataloader.Blocked); ok {
		return b.Blocks()
	}
	return dataloader.Blocks{}
}

// Fingerprint returns a number that depends on the names and sizes of the files, and on the options
// that decide what a sample is.
func (d *Dataset) Fingerprint() uint64 {
	h := fnv.New64a()
	for _, f := range d.tables.files {
		fmt.Fprintln(h, storage.Fingerprint(f))
	}
	for _, f := range d.tables.fields {
		fmt.Fprintf(h, "%q %q\n", f.Columns, f.labels.Texts())
		if f.Fill != nil {
			fmt.Fprintln(h, math.Float64bits(f.fill))
		}
	}
	opt := d.tables.opt
	fmt.Fprintf(h, "%q %d %d %v", opt.Missing, opt.Comma, opt.Comment, opt.NoHeader)
	return h.Sum64()
}

// Close closes the files.
func (d *Dataset) Close() error { return table.Close(d.tables.files) }
