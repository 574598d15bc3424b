package images

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"path"
	"slices"
	"sort"
	"sync"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/storage"
)

// FolderOptions describes a folder of pictures.
type FolderOptions struct {
	Pipeline *Pipeline // decodes the pictures; required
	// Classes is the list of class folders, in the order of their labels, such as one that was
	// stored with a model. By default it is the folders, sorted by bytes. A folder that is not in
	// the list, or one that is missing, is an error.
	Classes []string
	// AllowEmpty accepts classes without pictures, and classes of the list without a folder.
	AllowEmpty bool
	Extensions []string // of pictures; default .jpg .jpeg .png .gif .webp .bmp, in any case
	MaxBytes   int64    // of a file; default 256 MiB; larger ones are an error of the sample
}

const defaultMaxBytes = 256 << 20

var pictureExtensions = []string{".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp"}

// Folder is a dataset of the pictures below a folder, with a subfolder for each class. Sample i has
// the fields "x", the picture as the pipeline makes it, and "y", int32, the index of its class. The
// samples are sorted by class, then by the bytes of their path.
//
// The index keeps 8 bytes and the path below the class folder for each picture; nothing else grows
// with their number. Fetch opens and reads a file (about 10 small allocations) and decodes it, in
// memory that is kept for the next ones. Its methods may be called by many goroutines at once.
type Folder struct {
	fsys        fs.FS
	dir         string
	root        *storage.Folder // to close; nil for a file system of the caller
	name        string          // of the folder in errors
	opt         FolderOptions
	index       index
	fields      []dataloader.Field
	ignored     int
	fingerprint uint64
	buffers     sync.Pool // of *[]byte
}

// Open indexes the pictures below a folder. It follows symbolic links within the folder only.
// Close releases the folder.
//
// Hidden files and __MACOSX are left out, other files without an extension of pictures are counted
// by Ignored. A picture outside class folders, an empty class, a link that leads out of the folder
// or in a circle, and a list of classes that does not match are a *dataloader.FormatError. Contents
// are not read before Fetch.
func Open(dir string, opt FolderOptions) (*Folder, error) {
	root, err := storage.Dir(dir)
	if err != nil {
		return nil, fmt.Errorf("image folder: %w", err)
	}
	f, err := open(context.Background(), root, ".", dir, opt)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	f.root = root
	return f, nil
}

// OpenFS is Open for the folder dir, "." for all, of a file system, which must stay open: a folder,
// an archive or a store of package storage, or an embedded one.
func OpenFS(fsys fs.FS, dir string, opt FolderOptions) (*Folder, error) {
	return OpenContext(context.Background(), fsys, dir, opt)
}

// OpenContext is OpenFS that ends early, with the error of ctx, between two folders.
func OpenContext(ctx context.Context, fsys fs.FS, dir string, opt FolderOptions) (*Folder, error) {
	if fsys == nil {
		return nil, fmt.Errorf("image folder: the file system is nil: %w", dataloader.ErrOption)
	}
	if !fs.ValidPath(dir) {
		return nil, fmt.Errorf("image folder %q: a path in a file system has no leading /, no .. and no empty part: %w", dir, dataloader.ErrOption)
	}
	return open(ctx, fsys, dir, dir, opt)
}

func open(ctx context.Context, fsys fs.FS, dir, name string, opt FolderOptions) (*Folder, error) {
	if opt.Pipeline == nil {
		return nil, fmt.Errorf("image folder %s: Pipeline is nil: make one with New: %w", name, dataloader.ErrOption)
	}
	if opt.MaxBytes < 0 {
		return nil, fmt.Errorf("image folder %s: MaxBytes %d: must be 0 or more: %w", name, opt.MaxBytes, dataloader.ErrOption)
	}
	if opt.MaxBytes == 0 {
		opt.MaxBytes = defaultMaxBytes
	}
	if len(opt.Extensions) == 0 {
		opt.Extensions = pictureExtensions
	}
	opt.Classes = slices.Clone(opt.Classes)
	f := &Folder{fsys: fsys, dir: dir, name: name, opt: opt}
	s := scanner{f: f, hash: fnv.New64a()}
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	f.fields = []dataloader.Field{opt.Pipeline.Field("x"), {Name: "y", Type: arena.Int32}}
	fmt.Fprintf(s.hash, "pipeline %x", opt.Pipeline.Fingerprint())
	f.fingerprint = s.hash.Sum64()
	if f.Len() == 0 {
		return nil, fmt.Errorf("image folder %s: no pictures in %d classes: %w", name, len(f.index.classes), dataloader.ErrEmpty)
	}
	return f, nil
}

// Len returns the number of pictures.
func (f *Folder) Len() int { return f.index.len() }

// Fields returns "x" and "y".
func (f *Folder) Fields() []dataloader.Field { return slices.Clone(f.fields) }

// Classes returns the names of the classes by label. Store them with a model.
func (f *Folder) Classes() []string { return slices.Clone(f.index.classes) }

// Path returns the path of picture i below the folder, and its label.
func (f *Folder) Path(i int) (name string, label int) {
	label = f.index.class(i)
	return path.Join(f.index.classes[label], string(f.index.name(i))), label
}

// Ignored returns the number of visible files that are not pictures by their extension.
func (f *Folder) Ignored() int { return f.ignored }

// IndexBytes returns the memory of the index in bytes.
func (f *Folder) IndexBytes() int64 {
	return int64(cap(f.index.names)) + 8*int64(cap(f.index.ends)+cap(f.index.starts))
}

// Fingerprint returns a hash of the classes, the paths and sizes of all files, and the pipeline.
func (f *Folder) Fingerprint() uint64 { return f.fingerprint }

// Close releases the folder. Fetch fails afterwards. It may be called twice.
func (f *Folder) Close() error {
	if f.root == nil {
		return nil
	}
	return f.root.Close()
}

// Fetch reads and decodes picture at.Index.
func (f *Folder) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	b, _ := f.buffers.Get().(*[]byte)
	if b == nil {
		b = new([]byte)
	}
	defer f.buffers.Put(b)
	name, label, err := f.load(ctx, at.Index, b)
	if err != nil {
		return err
	}
	if err := f.opt.Pipeline.Decode(at, *b, dst[0]); err != nil {
		return named(err, path.Join(f.name, name))
	}
	binary.NativeEndian.PutUint32(dst[1], uint32(label))
	return nil
}

// FetchEncoded is Fetch, except that of a picture whose dst is nil the contents of its file are
// appended to encoded[0][:0] and the result is stored in encoded[0]. They are not checked. A label has
// no encoded bytes.
func (f *Folder) FetchEncoded(ctx context.Context, at dataloader.At, dst, encoded [][]byte) error {
	if len(dst) != len(f.fields) || len(encoded) != len(f.fields) || dst[1] == nil {
		return fmt.Errorf("image folder %s: %d and %d fields, want the %d of the dataset, of which the picture may be encoded: %w",
			f.name, len(dst), len(encoded), len(f.fields), dataloader.ErrOption)
	}
	if dst[0] != nil {
		return f.Fetch(ctx, at, dst)
	}
	_, label, err := f.load(ctx, at.Index, &encoded[0])
	if err != nil {
		return err
	}
	binary.NativeEndian.PutUint32(dst[1], uint32(label))
	return nil
}

// load reads the file of picture i into the memory of b. It returns its path below the folder, and
// its label.
func (f *Folder) load(ctx context.Context, i int, b *[]byte) (name string, label int, err error) {
	if err := ctx.Err(); err != nil {
		return "", 0, err
	}
	if i < 0 || i >= f.Len() {
		return "", 0, fmt.Errorf("image folder %s: sample %d of %d: %w", f.name, i, f.Len(), dataloader.ErrOption)
	}
	name, label = f.Path(i)
	if err := f.read(ctx, b, path.Join(f.dir, name)); err != nil {
		return "", 0, named(err, path.Join(f.name, name))
	}
	return name, label, nil
}

// read reads a file into the memory of b.
func (f *Folder) read(ctx context.Context, b *[]byte, name string) (err error) {
	file, err := storage.Open(f.fsys, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	size := file.Size()
	if size > f.opt.MaxBytes {
		return &dataloader.FormatError{What: "picture", Want: fmt.Sprintf("at most MaxBytes = %d bytes", f.opt.MaxBytes),
			Got: fmt.Sprint(size), Err: fs.ErrInvalid}
	}
	*b = resize(*b, int(size))
	return storage.ReadAt(ctx, file, *b, 0)
}

// named adds the name of the file to an error.
func named(err error, name string) error {
	var f *dataloader.FormatError
	if errors.As(err, &f) && f.File == "" {
		f.File = name
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// index is the paths of pictures, sorted by class.
type index struct {
	classes []string
	starts  []int  // by class: its first picture
	names   []byte // all paths below the class folders, one after another
	ends    []int  // by picture: the end of its path in names
}

func (x *index) len() int { return len(x.ends) }

func (x *index) name(i int) []byte {
	if i == 0 {
		return x.names[:x.ends[0]]
	}
	return x.names[x.ends[i-1]:x.ends[i]]
}

// class returns the label of picture i: the last class that starts at or before it.
func (x *index) class(i int) int {
	return sort.Search(len(x.starts), func(k int) bool { return x.starts[k] > i }) - 1
}
