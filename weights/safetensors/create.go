package safetensors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/internal/atomicfile"
)

// CreateOptions are the options of Create. The zero value writes one file without a checksum.
type CreateOptions struct {
	// Metadata are texts in the header of every file. Default: none.
	Metadata map[string]string
	// Checksum adds a checksum of each file, and of the index, for File.Verify.
	Checksum bool
	// ShardBytes is the size from which tensors are written as shards: a file has at most so many
	// bytes of tensors, or one tensor. Default: one file.
	ShardBytes int64
	// FS is the file system; tests of this module inject faults by it. Default: the operating
	// system's.
	FS atomicfile.FS
}

// Create writes the tensors to the file at path, whose folder must exist. fill writes the bytes of
// one tensor to w, in as many calls as it likes; it is called for each, in the order of the file.
//
// Above ShardBytes, Create writes shards next to path, and an index to path + ".index.json"
// instead. Open of path opens either. Everything is durable when Create returns, and nothing of the
// former file or shards changes before all of the new ones are: after an error or a crash at any
// instant, Open returns all of the former tensors or all of the new ones. A crash may leave
// temporary files and shards that no index names; the next Create to the same path removes such
// shards.
//
// Two calls for one path at the same time are an error of the caller. Cancelling ctx ends the
// writing between two calls of w.
func Create(ctx context.Context, path string, tensors []Tensor, opt CreateOptions, fill func(t Tensor, w io.Writer) error) error {
	if ctx == nil || fill == nil || opt.ShardBytes < 0 {
		return fmt.Errorf("create %s: it needs a context, fill and ShardBytes of 0 or more: %w", path, ErrOption)
	}
	if strings.HasSuffix(path, ".json") {
		return fmt.Errorf("create %s: name the file, not the index, which Create names: %w", path, ErrOption)
	}
	sorted, err := layOut(tensors, opt.Metadata)
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	metadata := maps.Clone(opt.Metadata)
	delete(metadata, ChecksumKey)
	if opt.Checksum {
		if metadata == nil {
			metadata = map[string]string{}
		}
		metadata[ChecksumKey] = ""
	}
	c := &creation{ctx: ctx, path: path, files: opt.FS, metadata: metadata, sum: opt.Checksum, fill: fill}
	if c.files == nil {
		c.files = atomicfile.OS{}
	}
	shards := split(sorted, opt.ShardBytes)
	if len(shards) == 1 {
		if _, err := c.write(path, shards[0]); err != nil {
			return err
		}
		return c.removeShards(nil)
	}
	return c.writeShards(shards)
}

// split cuts the tensors into shards of at most so many bytes; at least one shard.
func split(tensors []Tensor, most int64) (shards [][]Tensor) {
	start, bytes := 0, int64(0)
	for i, t := range tensors {
		n := t.Bytes()
		if most > 0 && i > start && n > most-bytes {
			shards = append(shards, tensors[start:i])
			start, bytes = i, 0
		}
		bytes += n
	}
	return append(shards, tensors[start:])
}

// creation is a call of Create.
type creation struct {
	ctx      context.Context // of the call, which ends with it
	path     string
	files    atomicfile.FS
	metadata map[string]string
	sum      bool
	fill     func(t Tensor, w io.Writer) error
}

// write writes one file and returns its checksum.
func (c *creation) write(path string, tensors []Tensor) (digits string, err error) {
	f, err := atomicfile.Create(c.files, path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w, err := NewWriter(f, tensors, c.metadata)
	if err != nil {
		return "", err
	}
	to := &boundedWriter{ctx: c.ctx, w: w}
	for _, t := range w.Tensors() {
		to.left = t.Bytes()
		if err := c.fill(t, to); err != nil {
			return "", fmt.Errorf("write tensor %q to %s: %w", shorten(t.Name), path, err)
		}
		if to.left > 0 {
			return "", fmt.Errorf("write tensor %q to %s: %d of its %d bytes are missing: %w", shorten(t.Name), path, to.left, t.Bytes(), ErrOption)
		}
	}
	if err := errors.Join(w.Close(), c.ctx.Err()); err != nil {
		return "", err
	}
	if c.sum {
		var at int64
		digits, at = w.Checksum()
		if _, err := f.WriteAt([]byte(digits), at); err != nil {
			return "", err
		}
	}
	return digits, f.Commit()
}

// boundedWriter writes at most the bytes of a tensor, until ctx ends.
type boundedWriter struct {
	ctx  context.Context
	w    io.Writer
	left int64
}

func (b *boundedWriter) Write(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if int64(len(p)) > b.left {
		return 0, fmt.Errorf("%d bytes more than the tensor has: %w", int64(len(p))-b.left, ErrOption)
	}
	n, err := b.w.Write(p)
	b.left -= int64(n)
	return n, err
}

// writeShards writes several files and their index, which makes them valid.
func (c *creation) writeShards(shards [][]Tensor) (err error) {
	base, id := strings.TrimSuffix(filepath.Base(c.path), suffix), newID()
	x := indexFile{sums: map[string]string{}, files: map[string]string{}, sum: c.sum}
	var names []string
	defer func() {
		if err == nil {
			return
		}
		for _, name := range names { // the index does not name them, or it names none at all
			if removed := c.files.Remove(c.sibling(name)); !errors.Is(removed, fs.ErrNotExist) {
				err = errors.Join(err, removed)
			}
		}
	}()
	for i, tensors := range shards {
		name := fmt.Sprintf("%s-%s-%05d-of-%05d%s", base, id, i+1, len(shards), suffix)
		names = append(names, name)
		digits, err := c.write(c.sibling(name), tensors)
		if err != nil {
			return err
		}
		x.sums[name] = digits
		for _, t := range tensors {
			x.files[t.Name] = name
			x.total += t.Bytes()
		}
	}
	text, err := x.encode()
	if err != nil {
		return err
	}
	indexPath := c.path + ".index.json"
	if err := atomicfile.WriteFile(c.files, indexPath, text); err != nil {
		if now, readErr := os.ReadFile(indexPath); readErr == nil && string(now) == string(text) {
			names = nil // only the folder could not be synced: the index names them
		}
		return err
	}
	kept := names
	names = nil
	// Until the former file is gone, Open opens that.
	if err := c.files.Remove(c.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the former file, which hides the new index: %w", err)
	} else if err == nil {
		if err := c.files.SyncDir(filepath.Dir(c.path)); err != nil {
			return err
		}
	}
	return c.removeShards(kept)
}

// sibling returns the path of a file next to c.path.
func (c *creation) sibling(name string) string { return filepath.Join(filepath.Dir(c.path), name) }

// removeShards removes the shards that former calls have written for c.path, but for those in keep,
// and, if none is kept, their index.
func (c *creation) removeShards(keep []string) error {
	dir := filepath.Dir(c.path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	base := strings.TrimSuffix(filepath.Base(c.path), suffix)
	indexName := filepath.Base(c.path) + ".index.json"
	if keep == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == indexName }) {
		errs = append(errs, atomicfile.Remove(c.files, c.sibling(indexName)))
	}
	for _, e := range entries {
		if isShard(e.Name(), base) && !slices.Contains(keep, e.Name()) && errors.Join(errs...) == nil {
			errs = append(errs, c.files.Remove(c.sibling(e.Name())))
		}
	}
	return errors.Join(errs...)
}

// indexFile is an index that is being written.
type indexFile struct {
	total int64
	files map[string]string // of tensors
	sums  map[string]string // of files
	sum   bool
}

// encode returns the text, with its checksum.
func (x *indexFile) encode() ([]byte, error) {
	metadata := map[string]any{"total_size": x.total}
	if x.sum {
		metadata[ChecksumKey] = noDigits
		metadata[checksumsKey] = x.sums
	}
	text, err := json.MarshalIndent(map[string]any{"metadata": metadata, "weight_map": x.files}, "", "  ")
	if err != nil {
		return nil, err
	}
	if len(text) > MaxHeaderBytes {
		return nil, fmt.Errorf("an index of %d bytes, and %d are the most: %w", len(text), MaxHeaderBytes, ErrOption)
	}
	if !x.sum {
		return text, nil
	}
	var s sums
	s.add(text)
	parsed, err := parseIndex(text, "")
	if err != nil {
		return nil, err
	}
	copy(text[parsed.checksum.at:], s.digits())
	return text, nil
}
