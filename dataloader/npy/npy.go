package npy

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/storage"
	"github.com/evenkeel/evenkeel/dataloader/table"
	"github.com/evenkeel/evenkeel/weights/npz"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// Options of Open. The zero value is a good default.
type Options struct {
	// Columns select arrays, by Name, and say how they become fields. nil: all arrays, in the order
	// of the archive or of the files' names.
	Columns []table.Column
	// Memory is the most bytes of arrays that are read into memory, because they are compressed, in
	// Fortran's order or big-endian; 0: 1 GiB. More is an error.
	Memory int64
	// Unmapped reads with ReadAt where a file could be mapped. Pages of a mapped file that were read
	// count as resident memory of the process while they are in the page cache.
	Unmapped bool
}

// defaultMemory is the default of Options.Memory.
const defaultMemory = 1 << 30

// kinds are the types of elements that are read.
var kinds = map[safetensors.DType]table.Kind{
	safetensors.Bool: table.Bool, safetensors.Uint8: table.Uint8, safetensors.Int8: table.Int8, safetensors.Uint16: table.Uint16,
	safetensors.Int16: table.Int16, safetensors.Uint32: table.Uint32, safetensors.Int32: table.Int32, safetensors.Uint64: table.Uint64,
	safetensors.Int64: table.Int64, safetensors.Float16: table.Float16, safetensors.Float32: table.Float32, safetensors.Float64: table.Float64,
}

// Dataset is the arrays of a file or of several: a [dataloader.Dataset]. Its methods are safe for
// concurrent use.
type Dataset struct {
	n       int
	files   []storage.File
	columns []column
	scratch sync.Pool // of *[]byte, the elements of a sample before they are converted
}

// column is an array that is a field.
type column struct {
	name   string // of the array
	target *table.Target
	file   storage.File // nil: the array is in memory
	start  int64        // offset of the elements in file
	data   []byte
	bytes  int // of a sample in the array
	elems  int // of a sample
}

// array is an array of an open file.
type array struct {
	safetensors.Tensor
	archive *npz.File
	file    int // index among the files
}

// Open opens the .npy or .npz file at path, or the .npy files of a folder, or the files that match a
// pattern. It reads the descriptions, and the elements of arrays that do not stay in the file. A
// file that violates the format is a *npz.FormatError and wraps dataloader.ErrFormat; an array that cannot be a field a
// *dataloader.FieldError. The caller must Close the dataset.
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
	files, err := at(".npy")
	if err != nil {
		return nil, err
	}
	d := &Dataset{files: files}
	if err := d.build(ctx, opt); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// build chooses arrays and makes columns of them.
func (d *Dataset) build(ctx context.Context, opt Options) error {
	if opt.Memory < 0 {
		return fmt.Errorf("memory of %d bytes: must be 0 (default) or more: %w", opt.Memory, dataloader.ErrOption)
	}
	if opt.Memory == 0 {
		opt.Memory = defaultMemory
	}
	all, err := d.arrays(ctx)
	if err != nil {
		return err
	}
	if !opt.Unmapped {
		for i, f := range d.files {
			m, _, err := storage.Map(f)
			if err == nil {
				d.files[i] = m
			} else if !errors.Is(err, errors.ErrUnsupported) {
				return err
			}
		}
	}
	var leaves []table.Leaf
	for _, a := range all {
		leaf := table.Leaf{Name: a.Name, Type: table.Type{Kind: kinds[a.DType]}}
		if leaf.Type.Kind == 0 {
			leaf.Refused = fmt.Sprintf("elements of type %s", a.DType)
		} else if len(a.Shape) > 1 {
			leaf.Type.Dims = a.Shape[1:]
		}
		leaves = append(leaves, leaf)
	}
	places, columns, err := table.Choose(leaves, opt.Columns)
	if err != nil {
		return err
	}
	var errs []error
	for k, c := range columns {
		errs = append(errs, d.add(k, c, all[places[k]], leaves[places[k]].Type, opt.Memory))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if d.n == 0 {
		return fmt.Errorf("%s: %w", d.files[0].Name(), dataloader.ErrEmpty)
	}
	return d.load(all, places, opt.Memory)
}

// format adds dataloader.ErrFormat to an error of package npz about the file.
func format(err error) error {
	if errors.Is(err, npz.ErrFormat) {
		return fmt.Errorf("%w: %w", err, dataloader.ErrFormat)
	}
	return err
}

// arrays returns the arrays of all files.
func (d *Dataset) arrays(ctx context.Context) (all []array, err error) {
	for i, f := range d.files {
		var archive *npz.File
		r := whole{ctx, f}
		base, single := strings.CutSuffix(path.Base(strings.ReplaceAll(f.Name(), "\\", "/")), ".npy")
		if single {
			archive, err = npz.NewArray(r, f.Size(), f.Name(), base)
		} else {
			archive, err = npz.NewNamed(r, f.Size(), f.Name())
		}
		if err != nil {
			return nil, format(err)
		}
		for _, t := range archive.Tensors() {
			all = append(all, array{Tensor: t, archive: archive, file: i})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no arrays: %w", d.files[0].Name(), dataloader.ErrEmpty)
	}
	return all, nil
}

// add adds the column of an array, or returns an error if it does not fit to the others.
func (d *Dataset) add(k int, c table.Column, a array, t table.Type, memory int64) error {
	bad := func(format string, args ...any) error {
		return &dataloader.FieldError{Index: k, Name: a.Name, Problem: fmt.Sprintf(format, args...)}
	}
	if len(a.Shape) == 0 {
		return bad("the array of %s is one number: its first dimension must be the samples", d.files[a.file].Name())
	}
	n := a.Shape[0]
	if len(d.columns) == 0 {
		d.n = n
	}
	if n != d.n {
		return bad("the array has %d samples, and %q has %d", n, d.columns[0].target.Field.Name, d.n)
	}
	if n == 0 {
		return nil
	}
	target, err := table.NewTarget(k, c, t)
	if err != nil {
		return err
	}
	x := column{name: a.Name, target: target, elems: target.Elements, bytes: int(a.Bytes() / int64(n))}
	if start, ok := a.archive.Place(a.Name); ok {
		x.file, x.start = d.files[a.file], start
	}
	d.columns = append(d.columns, x)
	return nil
}

// load reads the arrays that do not stay in their files.
func (d *Dataset) load(all []array, places []int, memory int64) error {
	largest := 0
	for k := range d.columns {
		x, a := &d.columns[k], all[places[k]]
		if !x.target.Copies() {
			largest = max(largest, x.bytes)
		}
		if x.file != nil {
			continue
		}
		if memory -= a.Bytes(); memory < 0 {
			return fmt.Errorf("%s: array %q is compressed, in Fortran's order or big-endian, and %d bytes are more than Options.Memory "+
				"allows: save it plain with numpy.save, or raise it: %w", d.files[a.file].Name(), a.Name, a.Bytes(), dataloader.ErrOption)
		}
		x.data = make([]byte, a.Bytes())
		if err := a.archive.Read(a.Name, x.data); err != nil {
			return format(err)
		}
	}
	d.scratch.New = func() any {
		b := make([]byte, largest)
		return &b
	}
	return nil
}

// Len returns the number of samples.
func (d *Dataset) Len() int { return d.n }

// Fields returns the arrays as fields.
func (d *Dataset) Fields() []dataloader.Field {
	var fields []dataloader.Field
	for _, x := range d.columns {
		f := x.target.Field
		f.Shape = slices.Clone(f.Shape)
		fields = append(fields, f)
	}
	return fields
}

// Fetch reads one sample. A value that the type of its field cannot hold is an error that wraps
// dataloader.ErrFormat.
func (d *Dataset) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	if at.Index < 0 || at.Index >= d.n {
		return fmt.Errorf("sample %d of %d: %w", at.Index, d.n, dataloader.ErrOption)
	}
	for k := range d.columns {
		if err := d.fetch(ctx, &d.columns[k], at.Index, dst[k]); err != nil {
			return err
		}
	}
	return nil
}

// fetch reads one field of a sample.
func (d *Dataset) fetch(ctx context.Context, x *column, index int, dst []byte) error {
	src := dst
	if x.file == nil {
		src = x.data[index*x.bytes:][:x.bytes]
	} else {
		if !x.target.Copies() {
			p := d.scratch.Get().(*[]byte)
			defer d.scratch.Put(p)
			src = (*p)[:x.bytes]
		}
		if err := storage.ReadAt(ctx, x.file, src, x.start+int64(index)*int64(x.bytes)); err != nil {
			return err
		}
		if x.target.Copies() {
			return nil
		}
	}
	if p := x.target.Convert(dst, src, x.elems); p != nil {
		name := x.target.Field.Name
		if x.file != nil {
			name = x.file.Name()
		}
		return &dataloader.FormatError{File: name, Offset: x.start + int64(index*x.bytes+p.At*x.bytes/x.elems),
			What: fmt.Sprintf("element %d of sample %d of field %q", p.At, index, x.target.Field.Name), Want: p.Want, Got: p.Got}
	}
	return nil
}

// Fingerprint returns a number that depends on the names and sizes of the files, and on the arrays
// that are read.
func (d *Dataset) Fingerprint() uint64 {
	h := fnv.New64a()
	for _, f := range d.files {
		fmt.Fprintln(h, storage.Fingerprint(f))
	}
	for _, x := range d.columns {
		fmt.Fprintf(h, "%q %d %d %v\n", x.name, x.start, x.bytes, x.target.Type)
	}
	return h.Sum64()
}

// Close closes the files.
func (d *Dataset) Close() error { return table.Close(d.files) }
