package shards

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/codec"
	"github.com/evenkeel/evenkeel/dataloader/storage"
)

// Field is a field of a sample: the entries with an extension.
type Field struct {
	Name string
	// Ext is the extension without the first dot, in lower case, such as "jpg" or "seg.png". Several,
	// separated by semicolons as in "jpg;png", are alternatives: of those that a sample has, the one
	// that is listed first is read.
	Ext string
	// Decoder decodes the contents of an entry.
	Decoder dataloader.Decoder
}

// Options of Open.
type Options struct {
	Fields []Field // 1 or more
	// Index is the path of a file of this machine for the index of all shards. If it is there, shards
	// whose size, time, version and first 4 KiB have not changed are not scanned; else, or if some have
	// changed, it is written. "" scans each time. Plain archives are scanned fast, compressed ones are
	// decompressed for it.
	Index string
	// Held is the number of decompressed blocks in memory, as in dataloader.BlockOptions. 0: 4.
	Held int
	// MaxBlock is the most bytes of a decompressed block. 0: 512 MiB.
	MaxBlock int64
	// MaxValue is the most bytes of an entry of a field, less than 4 GiB. 0: 64 MiB.
	MaxValue int64
	// Unfinished accepts archives that have no blocks of zeros at their end.
	Unfinished bool
}

const (
	defaultMaxBlock = 512 << 20
	defaultMaxValue = 64 << 20
)

// check returns the options with their defaults, and the extensions by field.
func (o Options) check() (Options, [][]string, error) {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("shards: "+format+": %w", append(args, dataloader.ErrOption)...))
	}
	if o.MaxBlock == 0 {
		o.MaxBlock = defaultMaxBlock
	}
	if o.MaxValue == 0 {
		o.MaxValue = defaultMaxValue
	}
	if o.MaxBlock < 0 || o.MaxBlock > math.MaxInt {
		bad("largest block of %d bytes: must be 0 (default) or more", o.MaxBlock)
	}
	if o.MaxValue < 0 || o.MaxValue > math.MaxUint32 {
		bad("largest value of %d bytes: must be 0 (default) to %d", o.MaxValue, int64(math.MaxUint32))
	}
	if o.Held < 0 {
		bad("held %d: must be 0 (default) or more", o.Held)
	}
	if len(o.Fields) == 0 {
		bad("no fields: name the extensions to read in Options.Fields")
	}
	var extensions [][]string
	for _, f := range o.Fields {
		all := strings.Split(f.Ext, ";")
		for i, e := range all {
			if all[i] = strings.TrimPrefix(strings.TrimSpace(e), "."); all[i] == "" || all[i] != strings.ToLower(all[i]) || len(all) > math.MaxUint8 {
				bad("field %q: extension %q: must be lower case and not empty", f.Name, e)
			}
		}
		if f.Decoder == nil {
			bad("field %q: no decoder", f.Name)
		}
		extensions = append(extensions, all)
	}
	return o, extensions, errors.Join(errs...)
}

// Dataset is the samples of a set of shards, in the order of the names of the shards and of the
// entries in them. Its methods are safe for concurrent use.
type Dataset struct {
	opt       Options
	fields    []dataloader.Field
	files     *files
	shards    []*shard
	starts    []int              // first sample of each shard, and the number of samples
	blocks    dataloader.Blocked // nil: all shards are plain
	scratches sync.Pool          // of *scratch
	folder    *storage.Folder    // to close, or nil
}

var (
	_ dataloader.Blocked       = (*Dataset)(nil)
	_ dataloader.Fingerprinter = (*Dataset)(nil)
)

// Open opens the shards of a pattern of paths, such as "data/train-{000..099}.tar" or
// "data/*.tar.gz"; see [Expand]. All must be in one folder or below it. The caller must Close the
// dataset.
//
// Open reads the headers of all entries, of compressed shards all data, unless Options.Index has them.
// An archive that violates the format or the rules of samples is a *dataloader.FormatError.
func Open(pattern string, opt Options) (*Dataset, error) {
	folder, rest, err := folderOf(filepath.ToSlash(pattern))
	if err != nil {
		return nil, err
	}
	fsys, err := storage.Dir(filepath.FromSlash(folder))
	if err != nil {
		return nil, err
	}
	d, err := OpenFS(fsys, rest, opt)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", pattern, err), fsys.Close()) // names in the folder say less
	}
	d.folder = fsys
	return d, nil
}

// OpenFS is Open for the files of a file system, which must have ReadAt.
func OpenFS(fsys fs.FS, pattern string, opt Options) (*Dataset, error) {
	return OpenContext(context.Background(), fsys, pattern, opt)
}

// OpenContext is OpenFS for slow storage: it ends with the error of ctx soon after ctx is done.
func OpenContext(ctx context.Context, fsys fs.FS, pattern string, opt Options) (*Dataset, error) {
	if ctx == nil || fsys == nil {
		return nil, fmt.Errorf("shards: no context or no file system: %w", dataloader.ErrOption)
	}
	opt, extensions, err := opt.check()
	if err != nil {
		return nil, err
	}
	d := &Dataset{opt: opt}
	for _, f := range opt.Fields {
		d.fields = append(d.fields, f.Decoder.Field(f.Name))
	}
	if err := checkFields(d.fields); err != nil {
		return nil, err
	}
	names, err := find(fsys, pattern)
	if err != nil {
		return nil, err
	}
	d.files = newFiles(fsys, names)
	d.shards, err = scanAll(ctx, d.files, extensions, opt)
	if err == nil {
		err = d.build()
	}
	if err != nil {
		return nil, errors.Join(err, d.files.close())
	}
	return d, nil
}

// checkFields validates the fields of the decoders.
func checkFields(fields []dataloader.Field) error {
	return dataloader.Check(described(fields))
}

// described is a dataset that has only fields.
type described []dataloader.Field

func (described) Len() int                                             { return 1 }
func (d described) Fields() []dataloader.Field                         { return d }
func (described) Fetch(context.Context, dataloader.At, [][]byte) error { return nil }

// build makes the dataset of the indices.
func (d *Dataset) build() error {
	d.starts = make([]int, 1, len(d.shards)+1)
	compressed := false
	for i, s := range d.shards {
		if d.starts[i] > math.MaxInt-s.samples {
			return fmt.Errorf("shards: too many samples: %w", dataloader.ErrOption)
		}
		d.starts = append(d.starts, d.starts[i]+s.samples)
		compressed = compressed || s.kind != codec.Plain
	}
	d.scratches.New = func() any { return new(scratch) }
	if d.Len() == 0 {
		return fmt.Errorf("shards: %d archives without a sample: %w", len(d.shards), dataloader.ErrEmpty)
	}
	if !compressed {
		return nil
	}
	src, err := newSource(d)
	if err != nil {
		return err
	}
	blocks, err := dataloader.FromBlocks(src, dataloader.BlockOptions{Held: d.opt.Held})
	if err != nil {
		return err
	}
	d.blocks = blocks.(dataloader.Blocked)
	return nil
}

// scanAll returns the index of each file, from Options.Index where it is valid. Files are scanned at
// the same time.
func scanAll(ctx context.Context, files *files, extensions [][]string, opt Options) ([]*shard, error) {
	saved, err := loadIndex(opt, extensions)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	shards, errs := make([]*shard, len(files.names)), make([]error, len(files.names))
	var next int
	var scanned bool
	var mu sync.Mutex
	claim := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1, next <= len(shards) && ctx.Err() == nil
	}
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(shards)) {
		wg.Go(func() {
			for i, ok := claim(); ok; i, ok = claim() {
				s, fresh, err := indexOf(ctx, files, i, saved[files.names[i]], extensions, opt)
				if err != nil {
					errs[i] = err
					cancel()
					return
				}
				shards[i] = s
				mu.Lock()
				scanned = scanned || fresh
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := firstError(errs); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if opt.Index != "" && (scanned || len(saved) != len(shards)) {
		if err := saveIndex(opt, extensions, files.names, shards); err != nil {
			return nil, err
		}
	}
	return shards, nil
}

// firstError returns the first error that is not that of a scan which another error has stopped.
func firstError(errs []error) error {
	var stopped error
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		stopped = errors.Join(stopped, err)
	}
	return stopped
}

// indexOf returns the saved index of a file if it is valid, else scans the file.
func indexOf(ctx context.Context, files *files, i int, saved *shard, extensions [][]string, opt Options) (s *shard, fresh bool, err error) {
	f, err := files.acquire(ctx, i)
	if err != nil {
		return nil, false, err
	}
	defer files.release(i)
	stamp, err := files.stampOf(ctx, i, f, opt.Index != "")
	if err != nil {
		return nil, false, err
	}
	if saved == nil || saved.stamp != stamp {
		if saved, err = scan(ctx, f, extensions, opt); err != nil {
			return nil, false, err
		}
		fresh = true
	}
	saved.stamp = stamp
	return saved, fresh, nil
}

// Len returns the number of samples.
func (d *Dataset) Len() int { return d.starts[len(d.starts)-1] }

// Fields returns the fields of the decoders, in the order of Options.Fields.
func (d *Dataset) Fields() []dataloader.Field { return d.fields }

// Blocks implements dataloader.Blocked. If all shards are plain there are no blocks.
func (d *Dataset) Blocks() dataloader.Blocks {
	if d.blocks == nil {
		return dataloader.Blocks{}
	}
	return d.blocks.Blocks()
}

// Close closes the files. No Fetch may run or follow. A second call does nothing.
func (d *Dataset) Close() error {
	err := d.files.close()
	if d.folder != nil {
		err = errors.Join(err, d.folder.Close())
	}
	return err
}

// Info describes a set of shards.
type Info struct {
	Names      []string // of the shards, in order
	Samples    []int    // of each shard
	Compressed int      // shards in gzip or zstd
	Ignored    int      // entries that are no field of a sample
	IndexBytes int64    // of memory
}

// Info returns a description of the shards.
func (d *Dataset) Info() Info {
	info := Info{Names: d.files.names}
	for _, s := range d.shards {
		info.Samples = append(info.Samples, s.samples)
		info.Ignored += s.ignored
		info.IndexBytes += entryBytes * int64(len(s.entries))
		if s.kind != codec.Plain {
			info.Compressed++
		}
	}
	return info
}
