package arrow

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/storage"
	"github.com/evenkeel/evenkeel/dataloader/table"
)

// Column selects a column and says how it becomes a field. It is [table.Column].
type Column = table.Column

// Options of Open. The zero value reads all columns.
type Options struct {
	// Columns are the columns to read, in the order of the fields; nil: all, by the rules of package
	// table. Columns of text or bytes must be listed with Classes, FindClasses or a Decoder.
	Columns []Column
	// Limit is the most bytes that one record batch may have, compressed and decompressed, where it is
	// read into memory; 0: 256 MiB. Larger record batches are an error.
	Limit int64
	// Held is the number of record batches in memory where they are read; 0: the default of
	// [dataloader.BlockOptions].
	Held int
	// NoMapping reads local files instead of mapping them, so that memory is bounded by Held and Limit
	// and not left to the system's cache of pages.
	NoMapping bool
}

// limit is the default of Options.Limit.
const limit = 256 << 20

// Dataset is the rows of Arrow files. It is safe for concurrent use.
type Dataset struct {
	dataloader.Dataset
	// Random reports whether each row is read where it is, in a mapped file. Else record batches are
	// decoded, and the dataset is one of blocks.
	Random bool

	source *source
	files  []storage.File
}

// Open opens the file, the folder or the pattern of files at path, as OpenFS does. Local files are
// mapped where the system can. Links in a folder that lead out of it are refused.
func Open(path string, opt Options) (*Dataset, error) {
	return open(context.Background(), table.Path(path), opt)
}

// OpenFS opens a file of fsys; or all *.arrow, *.arrows and *.feather files of a directory; or those
// that match a pattern of path.Match. Several files, sorted by the bytes of their names, are one
// dataset; all must have the same columns. Names that begin with "." or "_" are left out. Files need
// a ReadAt method. The caller must Close the dataset, and then must not Fetch.
//
// A violation of the format is a *dataloader.FormatError, a column that cannot be read as asked a
// *dataloader.FieldError, and a dataset without rows an error that wraps dataloader.ErrEmpty. A
// record batch above Options.Limit wraps dataloader.ErrOption if its size is known before it is
// decompressed, else dataloader.ErrFormat.
func OpenFS(fsys fs.FS, name string, opt Options) (*Dataset, error) {
	return OpenContext(context.Background(), fsys, name, opt)
}

// OpenContext is OpenFS for slow storage: it ends with the error of ctx soon after ctx is done.
func OpenContext(ctx context.Context, fsys fs.FS, name string, opt Options) (*Dataset, error) {
	return open(ctx, table.FS(fsys, name), opt)
}

// check checks the options and fills in defaults.
func (o *Options) check() error {
	if o.Limit < 0 || o.Limit > math.MaxInt {
		return fmt.Errorf("limit %d bytes: must be 0 (default) or more: %w", o.Limit, dataloader.ErrOption)
	}
	if o.Limit == 0 {
		o.Limit = limit
	}
	return nil
}

// open makes a dataset of the files at a place, and closes them after an error.
func open(ctx context.Context, at table.Files, opt Options) (*Dataset, error) {
	if err := opt.check(); err != nil {
		return nil, err
	}
	files, err := at(".arrow", ".arrows", ".feather")
	if err != nil {
		return nil, err
	}
	d := &Dataset{source: &source{limit: int(opt.Limit)}, files: files}
	if err := d.describe(ctx, opt); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// describe reads the schemas and makes the record batches of all files one source.
func (d *Dataset) describe(ctx context.Context, opt Options) error {
	s := d.source
	columns := opt.Columns
	var files []*file
	for i, open := range d.files {
		f, err := openFile(ctx, open, !opt.NoMapping)
		if f != nil {
			d.files[i] = f.File // which may be mapped
		}
		if err != nil {
			return err
		}
		files = append(files, f)
		all := leavesOf(f.schema)
		if i == 0 {
			if columns, err = s.choose(all, columns); err != nil {
				return fmt.Errorf("arrow %s: %w", f.name, err)
			}
		}
		for _, c := range s.columns {
			if !slices.ContainsFunc(all, c.leaf.same) {
				return fmt.Errorf("arrow %s: no column %q of %v as in %s: %w", f.name, c.leaf.Name, c.leaf.Type, files[0].name, dataloader.ErrField)
			}
		}
		for b := range f.batches {
			p := place{f, b}
			if rows := p.message().rows; rows > 0 {
				s.blocks, s.sizes = append(s.blocks, p), append(s.sizes, int(rows))
			}
		}
	}
	if err := s.check(files[0].name); err != nil {
		return err
	}
	if err := s.targets(ctx, columns); err != nil {
		return fmt.Errorf("arrow %s: %w", files[0].name, err)
	}
	if err := d.serve(files, opt); err != nil {
		return err
	}
	return d.findClasses(ctx, columns)
}

// choose finds the columns in the first file.
func (s *source) choose(all []leaf, columns []Column) ([]Column, error) {
	var leaves []table.Leaf
	for _, l := range all {
		leaves = append(leaves, l.Leaf)
	}
	places, columns, err := table.Choose(leaves, columns)
	if err != nil {
		return nil, err
	}
	for _, k := range places {
		s.columns = append(s.columns, column{leaf: all[k]})
	}
	return columns, nil
}

// check checks the sizes of the record batches.
func (s *source) check(first string) error {
	if len(s.blocks) == 0 {
		return fmt.Errorf("arrow %s: %w", first, dataloader.ErrEmpty)
	}
	total := 0
	for i, p := range s.blocks {
		m := p.message()
		if s.sizes[i] > math.MaxInt-total || m.compressed && m.rows > 8*int64(s.limit) {
			return p.file.fail(m, "record batch", "fewer rows", fmt.Sprint(m.rows), nil)
		}
		total += s.sizes[i]
		if (p.file.mapped == nil || m.compressed) && m.bodyBytes > int64(s.limit) {
			return fmt.Errorf("arrow %s: record batch %d has %d rows, %d bytes, more than Options.Limit, %d: raise it, "+
				"write smaller record batches, or pack the data: %w", p.file.name, p.batch, m.rows, m.bodyBytes, s.limit, dataloader.ErrOption)
		}
	}
	return nil
}

// targets makes the targets of the columns.
func (s *source) targets(ctx context.Context, columns []Column) error {
	var errs []error
	var row *batch // the first
	for k := range s.columns {
		c := &s.columns[k]
		t, known, err := columns[k].Known(k, c.leaf.Type)
		if err == nil && !known {
			if row == nil {
				if row, err = s.first(ctx); err != nil {
					return err
				}
			}
			t.Dims, err = row.dims(c, k)
		}
		if err == nil {
			c.Target, err = table.NewTarget(k, columns[k], t)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.fields = append(s.fields, c.Field)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return s.checkRow()
}

// checkRow returns an error if a row has more values than the file, or Options.Limit where that is more,
// has room for: the lengths of fixed lists are what the schema states, whatever the data are.
func (s *source) checkRow() error {
	first := s.blocks[0]
	most := max(int64(s.limit), first.file.Size())
	left := 8 * most // bits
	for _, c := range s.columns {
		if c.Encoded() {
			continue // a row has as many bytes as the decoder makes
		}
		bits := int64(8) // of a value, at the least
		switch c.Type.Kind {
		case table.Bool:
			bits = 1
		case table.Fixed:
			bits *= int64(max(1, c.Type.Width))
		}
		if int64(c.Elements) > left/bits {
			return first.file.fail(first.message(), fmt.Sprintf("column %q", c.leaf.Name),
				fmt.Sprintf("rows of at most %d bytes (the file, or Options.Limit)", most), fmt.Sprintf("%d values in a row", c.Elements), nil)
		}
		left -= int64(c.Elements) * bits
	}
	return nil
}

// first reads the first record batch without columns.
func (s *source) first(ctx context.Context) (*batch, error) {
	one := &source{blocks: s.blocks[:1], sizes: s.sizes[:1], limit: s.limit}
	b, err := one.Load(ctx, 0, nil)
	if err != nil {
		return nil, err
	}
	return b.(*batch), nil
}

// serve makes the dataset: rows in place if all files are mapped and no batch is compressed, else
// blocks.
func (d *Dataset) serve(files []*file, opt Options) (err error) {
	s := d.source
	d.Random = !slices.ContainsFunc(s.blocks, func(p place) bool { return p.file.mapped == nil || p.message().compressed })
	if d.Random {
		d.Dataset, err = newMapped(s, files)
	} else {
		d.Dataset, err = dataloader.FromBlocks(s, dataloader.BlockOptions{Held: opt.Held})
	}
	return err
}

// findClasses reads the columns whose classes are to be found, batch by batch.
func (d *Dataset) findClasses(ctx context.Context, columns []Column) error {
	s := d.source
	if !slices.ContainsFunc(s.columns, func(c column) bool { return c.Finding() }) {
		return nil
	}
	rows, _ := d.Dataset.(*mapped)
	var block dataloader.Block
	for i, n := range s.sizes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if rows != nil {
			block = rows.batches[i]
		} else {
			var err error
			if block, err = s.Load(ctx, i, block); err != nil {
				return err
			}
		}
		for row := range n {
			if err := block.Fetch(ctx, row, dataloader.At{}, nil); err != nil {
				return err
			}
		}
	}
	for k, c := range s.columns {
		if err := c.Found(k, columns[k]); err != nil {
			return fmt.Errorf("arrow %s: %w", d.files[0].Name(), err)
		}
	}
	return nil
}

// Classes returns the classes of a field with Column.Classes or FindClasses, else nil.
func (d *Dataset) Classes(name string) []string {
	for _, c := range d.source.columns {
		if c.Field.Name == name {
			return c.Target.Classes()
		}
	}
	return nil
}

// Blocks implements dataloader.Blocked. A dataset whose rows are read where they are has no blocks.
func (d *Dataset) Blocks() dataloader.Blocks {
	if b, ok := d.Dataset.(dataloader.Blocked); ok {
		return b.Blocks()
	}
	return dataloader.Blocks{Group: 1}
}

// Fingerprint implements dataloader.Fingerprinter: it depends on the names and sizes of the files,
// their record batches, and the columns.
func (d *Dataset) Fingerprint() uint64 {
	h := fnv.New64a()
	var last *file
	for i, b := range d.source.blocks {
		if b.file != last {
			last = b.file
			fmt.Fprintf(h, "%016x", storage.Fingerprint(last.File))
		}
		fmt.Fprintf(h, " %d:%d", b.batch, d.source.sizes[i])
	}
	for _, c := range d.source.columns {
		io.WriteString(h, " "+c.leaf.Name)
	}
	return h.Sum64()
}

// Close closes the files. It may be called twice. Nothing may be fetched any more.
func (d *Dataset) Close() error { return table.Close(d.files) }
