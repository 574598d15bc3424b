package tokens

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math"
	"slices"
	"sort"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/storage"
	"github.com/evenkeel/evenkeel/dataloader/table"
)

// Options of Open. Only Window is needed.
type Options struct {
	// Window is the number of tokens of a sample, 1 or more.
	Window int
	// Stride is the distance of the starts of windows; 0: Window. With 1 every token starts one.
	Stride int
	// Bits are the bits of a token in the file, 16 or 32; 0: 16.
	Bits int
	// Header is the number of bytes at the start of each file that are no tokens.
	Header int64
	// Vocabulary is the number of different tokens: one that is not below it is an error when it is
	// read. 0: any token that an int32 holds.
	Vocabulary int
	// Single gives one field "tokens" of Window+1 tokens, in place of x and y.
	Single bool
	// Unmapped reads with ReadAt where a file could be mapped, which takes more time for each sample.
	// Pages of a mapped file that were read count as resident memory of the process while they are in
	// the page cache; those that ReadAt reads do not.
	Unmapped bool
}

// defaultBits is the default of Options.Bits.
const defaultBits = 16

// Dataset is the windows of some files: a [dataloader.Dataset]. Its methods are safe for concurrent
// use.
type Dataset struct {
	opt    Options
	size   int64 // bytes of a token
	fields []dataloader.Field
	files  []storage.File
	starts []int // index of the first window of each file, and the number of windows
}

// Open opens the file of tokens at path, or the files .bin of a folder, or those that match a
// pattern, sorted by bytes. It reads none of the tokens. A file whose size is no whole number of
// tokens is a *dataloader.FormatError, one that is shorter than a window has no samples. The caller
// must Close the dataset.
func Open(path string, opt Options) (*Dataset, error) {
	return open(table.Path(path), opt)
}

// OpenFS is Open for the files of a file system, which must have ReadAt.
func OpenFS(fsys fs.FS, name string, opt Options) (*Dataset, error) {
	return open(table.FS(fsys, name), opt)
}

// check sets defaults and returns an error for wrong options.
func (o *Options) check() error {
	if o.Stride == 0 {
		o.Stride = o.Window
	}
	if o.Bits == 0 {
		o.Bits = defaultBits
	}
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format+": %w", append(args, dataloader.ErrOption)...))
		}
	}
	bad(o.Window < 1 || o.Window > 1<<30, "window of %d tokens: must be 1 to 2^30", o.Window)
	bad(o.Stride < 0, "stride %d: must be 0 (default) or more", o.Stride)
	bad(o.Bits != 16 && o.Bits != 32, "tokens of %d bits: must be 16 or 32", o.Bits)
	bad(o.Header < 0, "header of %d bytes: must be 0 or more", o.Header)
	bad(o.Vocabulary < 0 || o.Vocabulary > math.MaxInt32, "vocabulary of %d: must be 0 to 2^31-1", o.Vocabulary)
	return errors.Join(errs...)
}

// open makes a dataset of the files at a place, and closes them after an error.
func open(at table.Files, opt Options) (*Dataset, error) {
	if err := opt.check(); err != nil {
		return nil, err
	}
	files, err := at(".bin")
	if err != nil {
		return nil, err
	}
	d := &Dataset{opt: opt, size: int64(opt.Bits / 8), files: files}
	field := func(name string, n int) { // of n tokens
		d.fields = append(d.fields, dataloader.Field{Name: name, Type: arena.Int32, Shape: []int{n}})
	}
	if opt.Single {
		field("tokens", opt.Window+1)
	} else {
		field("x", opt.Window)
		field("y", opt.Window)
	}
	if err := d.count(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	for i, f := range files {
		if opt.Unmapped {
			break
		}
		m, _, err := storage.Map(f)
		switch {
		case errors.Is(err, errors.ErrUnsupported): // it is read with ReadAt
		case err != nil:
			return nil, errors.Join(err, d.Close())
		default:
			files[i] = m
		}
	}
	return d, nil
}

// count sets starts.
func (d *Dataset) count() error {
	d.starts = []int{0}
	var errs []error
	for _, f := range d.files {
		bytes := f.Size() - d.opt.Header
		if bytes < 0 || bytes%d.size != 0 {
			errs = append(errs, &dataloader.FormatError{File: f.Name(), Offset: f.Size(), What: "size",
				Want: fmt.Sprintf("a header of %d bytes and a whole number of tokens of %d bytes", d.opt.Header, d.size),
				Got:  fmt.Sprintf("%d bytes", f.Size())})
		}
		windows := int64(0)
		if spare := bytes/d.size - int64(d.opt.Window) - 1; spare >= 0 {
			windows = spare/int64(d.opt.Stride) + 1
		}
		if windows > math.MaxInt-int64(d.Len()) {
			return fmt.Errorf("%s: more windows than an int holds: %w", f.Name(), dataloader.ErrOption)
		}
		d.starts = append(d.starts, d.Len()+int(windows))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if d.Len() == 0 {
		return fmt.Errorf("%s: no file has the %d tokens of a window and the one after it: %w", d.files[0].Name(), d.opt.Window, dataloader.ErrEmpty)
	}
	return nil
}

// Len returns the number of windows.
func (d *Dataset) Len() int { return d.starts[len(d.starts)-1] }

// Fields returns x and y, or tokens.
func (d *Dataset) Fields() []dataloader.Field { return slices.Clone(d.fields) }

// Fetch reads one window. A token outside Options.Vocabulary, or above 2^31-1, is a
// *dataloader.FormatError.
func (d *Dataset) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	if at.Index < 0 || at.Index >= d.Len() {
		return fmt.Errorf("sample %d of %d: %w", at.Index, d.Len(), dataloader.ErrOption)
	}
	i := sort.SearchInts(d.starts, at.Index+1) - 1
	offset := d.opt.Header + int64(at.Index-d.starts[i])*int64(d.opt.Stride)*d.size
	if len(dst) == 2 && d.size == 2 {
		return d.readBoth(ctx, d.files[i], dst[0], dst[1], offset)
	}
	for k, b := range dst {
		if err := d.read(ctx, d.files[i], b, offset+int64(k)*d.size); err != nil {
			return err
		}
	}
	return nil
}

// read fills dst with tokens from offset on. Narrow tokens are read to the end of dst and widened
// from its start, which never overtakes them.
func (d *Dataset) read(ctx context.Context, f storage.File, dst []byte, offset int64) error {
	n := len(dst) / 4
	src := dst[len(dst)-n*int(d.size):]
	if err := storage.ReadAt(ctx, f, src, offset); err != nil {
		return err
	}
	if d.size == 2 {
		return d.check(f, dst, widen(dst, src), offset)
	}
	most := uint32(0)
	for i := range n {
		t := binary.LittleEndian.Uint32(src[4*i:])
		most = max(most, t)
		binary.NativeEndian.PutUint32(dst[4*i:], t)
	}
	return d.check(f, dst, most, offset)
}

// readBoth fills x and y with tokens of 16 bits, those of y one token later, in one read: to the end of
// y, which has room for twice as many.
func (d *Dataset) readBoth(ctx context.Context, f storage.File, x, y []byte, offset int64) error {
	src := y[len(y)-len(y)/2-2:]
	if err := storage.ReadAt(ctx, f, src, offset); err != nil {
		return err
	}
	if err := d.check(f, x, widen(x, src[:len(src)-2]), offset); err != nil {
		return err
	}
	return d.check(f, y, widen(y, src[2:]), offset+2)
}

// check returns an error for the first token in dst, tokens from offset on, that is not in the
// vocabulary. most is the largest one.
func (d *Dataset) check(f storage.File, dst []byte, most uint32, offset int64) error {
	limit := uint32(math.MaxInt32)
	if d.opt.Vocabulary > 0 {
		limit = uint32(d.opt.Vocabulary) - 1
	}
	if most <= limit {
		return nil
	}
	for i := range len(dst) / 4 {
		if t := binary.NativeEndian.Uint32(dst[4*i:]); t > limit {
			return &dataloader.FormatError{File: f.Name(), Offset: offset + int64(i)*d.size, What: "token",
				Want: fmt.Sprintf("0 to %d", limit), Got: fmt.Sprint(t)}
		}
	}
	return nil
}

// widen writes tokens of 16 bits as numbers of 32 bits, four at a time, and returns the largest one.
// src may be the end of dst.
func widen(dst, src []byte) (most uint32) {
	for len(src) >= 8 && len(dst) >= 16 {
		four := binary.LittleEndian.Uint64(src)
		a, b, c, d := uint32(four)&0xffff, uint32(four>>16)&0xffff, uint32(four>>32)&0xffff, uint32(four>>48)
		most = max(most, a, b, c, d)
		binary.NativeEndian.PutUint32(dst, a)
		binary.NativeEndian.PutUint32(dst[4:], b)
		binary.NativeEndian.PutUint32(dst[8:], c)
		binary.NativeEndian.PutUint32(dst[12:], d)
		dst, src = dst[16:], src[8:]
	}
	for ; len(src) >= 2; dst, src = dst[4:], src[2:] {
		t := uint32(binary.LittleEndian.Uint16(src))
		most = max(most, t)
		binary.NativeEndian.PutUint32(dst, t)
	}
	return most
}

// Fingerprint returns a number that depends on the names and sizes of the files, and on which tokens
// make a sample.
func (d *Dataset) Fingerprint() uint64 {
	h := fnv.New64a()
	for _, f := range d.files {
		binary.Write(h, binary.LittleEndian, storage.Fingerprint(f))
	}
	fmt.Fprint(h, d.opt.Window, d.opt.Stride, d.opt.Bits, d.opt.Header, d.opt.Single)
	return h.Sum64()
}

// Close closes the files.
func (d *Dataset) Close() error { return table.Close(d.files) }
