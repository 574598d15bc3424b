package parquet

import (
	"context"
	"errors"
	"fmt"
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
	// Limit is the most bytes that the selected columns of one row group may have when they are
	// decoded, and that a page may have; 0: 256 MiB. Larger row groups are an error.
	Limit int64
	// Held is the number of decoded row groups in memory; 0: the default of
	// [dataloader.BlockOptions]. More mix the samples of a shuffled epoch better.
	Held int
}

// limit is the default of Options.Limit.
const limit = 256 << 20

// Dataset is the rows of Parquet files. It is safe for concurrent use.
type Dataset struct {
	dataloader.Blocked
	source *source
	files  []storage.File
}

// Open opens the file, the folder of *.parquet files or the pattern of files at path, as OpenFS
// does. Links in a folder that lead out of it are refused.
func Open(path string, opt Options) (*Dataset, error) {
	return open(context.Background(), table.Path(path), opt)
}

// OpenFS opens a file of fsys; or all *.parquet files of a directory; or those that match a pattern
// of path.Match. Several files, sorted by the bytes of their names, are one dataset; all must have
// the same columns. Names that begin with "." or "_" are left out. Files need a ReadAt method. The
// caller must Close the dataset.
//
// A violation of the format is a *dataloader.FormatError, a column that cannot be read as asked a
// *dataloader.FieldError, and a dataset without rows an error that wraps dataloader.ErrEmpty. A row
// group above Options.Limit wraps dataloader.ErrOption.
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
	files, err := at(".parquet", ".parq")
	if err != nil {
		return nil, err
	}
	d := &Dataset{source: &source{limit: opt.Limit}, files: files}
	if err := d.describe(ctx, opt); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	ds, err := dataloader.FromBlocks(d.source, dataloader.BlockOptions{Held: opt.Held})
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.Blocked = ds.(dataloader.Blocked)
	return d, nil
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

// Fingerprint implements dataloader.Fingerprinter.
func (d *Dataset) Fingerprint() uint64 { return dataloader.Fingerprint(d.Blocked) }

// FetchEncoded is Fetch, except for the fields whose dst is nil: the bytes of column k, as the file has
// them for the Decoder, are appended to encoded[k][:0] and the result is stored in encoded[k]. A field
// without a Decoder has no encoded bytes.
func (d *Dataset) FetchEncoded(ctx context.Context, at dataloader.At, dst, encoded [][]byte) error {
	columns := d.source.columns
	if len(dst) != len(columns) || len(encoded) != len(columns) {
		return fmt.Errorf("parquet %s: %d and %d fields, the dataset has %d: %w",
			d.files[0].Name(), len(dst), len(encoded), len(columns), dataloader.ErrOption)
	}
	for k := range columns {
		if dst[k] == nil && !columns[k].Encoded() {
			return fmt.Errorf("parquet %s: field %q has no Decoder, so no encoded bytes: %w",
				d.files[0].Name(), columns[k].Field.Name, dataloader.ErrOption)
		}
	}
	both := append(append(make([][]byte, 0, 2*len(dst)), dst...), encoded...)
	if err := d.Fetch(ctx, at, both); err != nil {
		return err
	}
	copy(encoded, both[len(dst):])
	return nil
}

// describe reads the footers and makes the row groups of all files one source.
func (d *Dataset) describe(ctx context.Context, opt Options) error {
	var leaves []leaf
	var columns []Column
	var files []*file
	for i, open := range d.files {
		f := &file{File: open, name: open.Name(), size: open.Size()}
		files = append(files, f)
		foot, b, err := f.footer(ctx)
		if err != nil {
			return err
		}
		all, err := leavesOf(foot.elements)
		if err != nil {
			return f.badFooter(b, err)
		}
		if i == 0 {
			if leaves, columns, err = d.source.choose(all, opt.Columns); err != nil {
				return fmt.Errorf("parquet %s: %w", f.name, err)
			}
		}
		want := make([]int, len(all))
		for k := range want {
			want[k] = -1
		}
		for k, l := range leaves {
			n := slices.IndexFunc(all, l.same)
			if n < 0 {
				return fmt.Errorf("parquet %s: no column %q of %v as in %s: %w", f.name, l.name, l.typ, files[0].name, dataloader.ErrField)
			}
			want[n] = k
		}
		if err := foot.parseGroups(b, want, len(leaves)); err != nil {
			return f.badFooter(b, err)
		}
		f.groups = foot.groups
	}
	return d.source.finish(ctx, files, columns)
}

// footer reads the footer of the file, and its schema.
func (f *file) footer(ctx context.Context) (*footer, []byte, error) {
	b, err := readFooter(f.name, f.size, func(p []byte, off int64) error { return f.read(ctx, p, off) })
	if err != nil {
		return nil, nil, err
	}
	foot, err := parseSchema(b)
	if err != nil {
		return nil, nil, f.badFooter(b, err)
	}
	return foot, b, nil
}

// badFooter returns the error for the footer with bytes b.
func (f *file) badFooter(b []byte, err error) error {
	return &dataloader.FormatError{File: f.name, Offset: f.size - tail - int64(len(b)), What: "footer",
		Want: "the description of a Parquet file", Got: "something else", Err: err}
}

// Close closes the files. It may be called twice. Fetches of rows that are not in memory then fail.
func (d *Dataset) Close() error { return table.Close(d.files) }
