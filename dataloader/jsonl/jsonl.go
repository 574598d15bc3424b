package jsonl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math"
	"path"
	"runtime"
	"sync"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/classes"
	"github.com/evenkeel/evenkeel/dataloader/internal/codec"
	"github.com/evenkeel/evenkeel/dataloader/internal/parallel"
	"github.com/evenkeel/evenkeel/dataloader/storage"
	"github.com/evenkeel/evenkeel/dataloader/table"
)

// Dataset is the lines of a file, or of several. It implements [dataloader.Dataset] and
// [dataloader.Blocked]; its methods are safe for concurrent use.
type Dataset struct {
	dataloader.Blocked
	lines *lines
}

// lines are open files, divided into pieces. It implements dataloader.BlockSource.
type lines struct {
	opt    Options
	fields []*field
	root   *node
	files  []storage.File
	pieces []piece
}

// piece is whole lines of a file.
type piece struct {
	file     storage.File
	kind     codec.Kind // of a whole file that is compressed
	from, to int64      // bytes of the file
	line     int        // number of the first line, from 1
	rows     int        // lines that are not blank
}

// pieceBytes is about the size of a piece of a file that is not compressed.
const pieceBytes = 1 << 20

// Open opens the file at path, or the files .jsonl, .ndjson, .jsonl.gz and .jsonl.zst of a folder, or
// those that match a pattern, sorted by bytes. It finds the lines, and decodes none unless a field has
// FindClasses. A wrong field is a *dataloader.FieldError. The caller must Close the dataset.
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
	files, err := at(".jsonl", ".ndjson", ".jsonl.gz", ".jsonl.zst")
	if err != nil {
		return nil, err
	}
	l := &lines{opt: opt, files: files}
	ds, err := l.open(ctx)
	if err != nil {
		return nil, errors.Join(err, table.Close(files))
	}
	return &Dataset{ds.(dataloader.Blocked), l}, nil
}

func (l *lines) open(ctx context.Context) (_ dataloader.Dataset, err error) {
	if err := l.opt.check(); err != nil {
		return nil, l.named(err)
	}
	if l.fields, l.root, err = bind(l.opt.Fields); err != nil {
		return nil, l.named(err)
	}
	for _, f := range l.files {
		if err := l.scan(ctx, f); err != nil {
			return nil, err
		}
	}
	if len(l.pieces) == 0 {
		return nil, l.named(dataloader.ErrEmpty)
	}
	held := l.opt.Held
	if held == 0 {
		held = len(l.pieces)
	}
	if err := l.findClasses(ctx, min(held, runtime.GOMAXPROCS(0))); err != nil {
		return nil, err
	}
	ds, err := dataloader.FromBlocks(l, dataloader.BlockOptions{Held: held})
	if err != nil {
		return nil, l.named(err)
	}
	return ds, nil
}

// named adds the name of the first file to an error.
func (l *lines) named(err error) error { return fmt.Errorf("%s: %w", l.files[0].Name(), err) }

// findClasses makes the lists of classes, from the members that need them alone.
func (l *lines) findClasses(ctx context.Context, workers int) error {
	find := &lines{opt: l.opt, files: l.files, pieces: l.pieces}
	var which []int // of the fields
	var fields []Field
	for k, f := range l.fields {
		if f.FindClasses {
			which, fields = append(which, k), append(fields, f.Field)
		}
	}
	if which == nil {
		return nil
	}
	var err error
	if find.fields, find.root, err = bind(fields); err != nil {
		return l.named(err)
	}
	for _, f := range find.fields {
		f.found = new(classes.Found)
	}
	var blocks sync.Pool
	err = parallel.Each(ctx, len(l.pieces), workers, func(ctx context.Context, i int) error {
		old, _ := blocks.Get().(dataloader.Block)
		b, err := find.Load(ctx, i, old)
		if err == nil {
			blocks.Put(b)
		}
		return err
	})
	if err != nil {
		return err
	}
	var errs []error
	for i, k := range which {
		f := l.fields[k]
		if problem := f.labels.Set(find.fields[i].found.Sorted(), true, f.Type, f.Fill); problem != "" {
			errs = append(errs, &dataloader.FieldError{Index: k, Name: f.Name, Problem: problem})
		}
	}
	if errs != nil {
		return l.named(errors.Join(errs...))
	}
	return nil
}

// kindOf returns how the file with a name is compressed.
func kindOf(name string) codec.Kind {
	switch path.Ext(name) {
	case ".gz":
		return codec.Gzip
	case ".zst":
		return codec.Zstd
	}
	return codec.Plain
}

// scan divides a file into pieces.
func (l *lines) scan(ctx context.Context, f storage.File) error {
	p := piece{file: f, kind: kindOf(f.Name()), to: f.Size(), line: 1}
	if p.kind != codec.Plain {
		b, err := l.read(ctx, &p, nil)
		if err != nil {
			return err
		}
		if p.rows = countRows(b); p.rows > 0 {
			l.pieces = append(l.pieces, p)
		}
		return nil
	}
	buf := make([]byte, pieceBytes)
	line := 1
	for from := int64(0); from < f.Size(); {
		b := buf[:min(int64(len(buf)), f.Size()-from)]
		if err := storage.ReadAt(ctx, f, b, from); err != nil {
			return err
		}
		if from+int64(len(b)) < f.Size() { // to the last end of a line
			n := bytes.LastIndexByte(b, '\n') + 1
			if n == 0 {
				if len(buf) > l.opt.Line {
					return problem(f.Name(), from, line, fmt.Sprintf("at most %d bytes (Options.Line)", l.opt.Line), "more")
				}
				buf = make([]byte, 2*len(buf))
				continue
			}
			b = b[:n]
		}
		p := piece{file: f, from: from, to: from + int64(len(b)), line: line, rows: countRows(b)}
		if p.rows > 0 {
			l.pieces = append(l.pieces, p)
		}
		from, line = p.to, line+bytes.Count(b, []byte{'\n'})
	}
	return nil
}

// countRows returns the number of lines that are not blank.
func countRows(b []byte) (n int) {
	for line := range bytes.SplitSeq(b, []byte{'\n'}) {
		if !blank(line) {
			n++
		}
	}
	return n
}

// blank reports whether a line has nothing but white space.
func blank(line []byte) bool { return len(bytes.Trim(line, " \t\r\n")) == 0 }

// read returns the text of a piece, in buf if it is large enough.
func (l *lines) read(ctx context.Context, p *piece, buf []byte) ([]byte, error) {
	if p.kind == codec.Plain {
		n := int(p.to - p.from)
		if cap(buf) < n {
			buf = make([]byte, n)
		}
		return buf[:n], storage.ReadAt(ctx, p.file, buf[:n], p.from)
	}
	r := codec.Reader{Kind: p.kind}
	defer r.Close()
	out := bytes.NewBuffer(buf[:0])
	err := r.Open(ctx, p.file, 0, p.to)
	for more := true; more && err == nil && int64(out.Len()) <= l.opt.Unpacked; {
		if _, err = out.ReadFrom(io.LimitReader(&r, min(l.opt.Unpacked, math.MaxInt64-1)+1-int64(out.Len()))); err == nil {
			more, err = r.Next()
		}
	}
	buf = out.Bytes()
	var read *storage.ReadError
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &read):
		return nil, err
	case int64(len(buf)) > l.opt.Unpacked:
		return nil, &dataloader.FormatError{File: p.file.Name(), Offset: l.opt.Unpacked, What: "compressed text",
			Want: fmt.Sprintf("at most %d bytes (Options.Unpacked): split the file", l.opt.Unpacked), Got: "more"}
	case err != nil:
		return nil, &dataloader.FormatError{File: p.file.Name(), Offset: int64(len(buf)), What: "compressed text", Want: "more", Got: err.Error(), Err: err}
	}
	return buf, nil
}

// problem returns the error for a place in a file.
func problem(file string, offset int64, line int, want, got string) error {
	return &dataloader.FormatError{File: file, Offset: offset, What: fmt.Sprintf("line %d", line), Want: want, Got: got}
}

// Fields implements dataloader.BlockSource.
func (l *lines) Fields() []dataloader.Field {
	var fields []dataloader.Field
	for _, f := range l.fields {
		fields = append(fields, f.out)
	}
	return fields
}

// Sizes implements dataloader.BlockSource.
func (l *lines) Sizes() []int {
	var sizes []int
	for _, p := range l.pieces {
		sizes = append(sizes, p.rows)
	}
	return sizes
}

// Classes returns the classes of a field with Classes or FindClasses, else nil.
func (d *Dataset) Classes(name string) []string {
	for _, f := range d.lines.fields {
		if f.Name == name {
			return f.labels.Texts()
		}
	}
	return nil
}

// Fingerprint returns a number that depends on the names and sizes of the files, and on the fields.
func (d *Dataset) Fingerprint() uint64 {
	h := fnv.New64a()
	for _, f := range d.lines.files {
		fmt.Fprintln(h, storage.Fingerprint(f))
	}
	for _, f := range d.lines.fields {
		fmt.Fprintf(h, "%q %q\n", f.Path, f.labels.Texts())
		if f.Fill != nil {
			fmt.Fprintln(h, math.Float64bits(*f.Fill))
		}
	}
	return h.Sum64()
}

// Close closes the files.
func (d *Dataset) Close() error { return table.Close(d.lines.files) }
