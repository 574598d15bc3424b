package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/evenkeel/evenkeel/internal/atomicfile"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// MetadataKey is the name of the entry of a file's metadata that holds, in JSON, all of the state
// but its tensors, and the metrics.
const MetadataKey = "evenkeel.checkpoint"

// metadata is the entry's content.
type metadata struct {
	Info    trainer.Info       `json:"info"`
	Metrics map[string]float64 `json:"metrics,omitempty"` // without those that are not finite
}

// path returns the path of the file of the checkpoint of a step, which the file has if it is one.
func (f *Folder) path(step int64) string { return filepath.Join(f.dir, stem(step)+suffix) }

// create writes a checkpoint. It returns its name also after an error.
func (f *Folder) create(j job) (c Checkpoint, err error) {
	info := j.state.Info()
	c = Checkpoint{Name: stem(info.Steps) + suffix, Step: info.Steps}
	if err := f.regain(); err != nil {
		return c, err
	}
	m := metadata{Info: info, Metrics: map[string]float64{}}
	for name, v := range j.metrics {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			m.Metrics[name] = v
		}
	}
	text, err := json.Marshal(m)
	if err != nil {
		return c, err
	}
	var tensors []safetensors.Tensor
	index := map[string]int{}
	for i, t := range j.state.Tensors() {
		d := safetensors.TypeOf(t.Spec.Type)
		if d == "" {
			return c, fmt.Errorf("tensor %q has type %v, which files do not have: %w", t.Name, t.Spec.Type, errors.ErrUnsupported)
		}
		tensors, index[t.Name] = append(tensors, safetensors.Tensor{Name: t.Name, DType: d, Shape: t.Spec.Shape}), i
	}
	opt := safetensors.CreateOptions{Checksum: true, ShardBytes: f.opt.ShardBytes, FS: f.files,
		Metadata: map[string]string{MetadataKey: string(text)}}
	// Close waits for the file: no context ends it.
	err = safetensors.Create(context.Background(), f.path(c.Step), tensors, opt, func(t safetensors.Tensor, w io.Writer) error {
		_, err := w.Write(j.state.Bytes(index[t.Name]))
		return err
	})
	if err != nil {
		return c, err
	}
	return describe(f.dir, c)
}

// describe adds what the header and the folder say to a checkpoint that has a step.
func describe(dir string, c Checkpoint) (Checkpoint, error) {
	file, err := open(filepath.Join(dir, stem(c.Step)+suffix))
	if err != nil {
		return c, err
	}
	defer file.Close()
	return file.describe(dir, c)
}

// describe is the function of that name for the open file of a checkpoint.
func (f *file) describe(dir string, c Checkpoint) (Checkpoint, error) {
	parts, err := filesOf(dir, c.Step)
	if err != nil {
		return c, err
	}
	c.Name, c.Bytes, c.Metrics = f.name, 0, f.metadata.Metrics
	for _, name := range parts {
		if s, err := os.Stat(filepath.Join(dir, name)); err == nil {
			c.Bytes += s.Size()
		}
	}
	return c, nil
}

// filesOf returns the names of all files of a checkpoint, its index first.
func filesOf(dir string, step int64) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		switch n := e.Name(); {
		case n == stem(step)+suffix || strings.HasPrefix(n, stem(step)+"-") && strings.HasSuffix(n, suffix):
			names = append(names, n)
		case n == stem(step)+indexSuffix:
			names = append([]string{n}, names...)
		}
	}
	return names, nil
}

// remove removes the files of a checkpoint. Without its index the others are no checkpoint.
func (f *Folder) remove(c Checkpoint) error {
	names, err := filesOf(f.dir, c.Step)
	for _, n := range names {
		if err == nil {
			err = f.files.Remove(filepath.Join(f.dir, n))
		}
	}
	return err
}

// sweep removes what a process that died has left: temporary files, and files of a checkpoint in
// several whose index is missing.
func (f *Folder) sweep() error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	exists := map[string]bool{}
	for _, e := range entries {
		exists[e.Name()] = true
	}
	var errs []error
	for _, e := range entries {
		base, _, shard := strings.Cut(strings.TrimPrefix(e.Name(), prefix), "-")
		_, ours := stepOf(prefix + base + suffix)
		if atomicfile.IsTemporary(e.Name()) || shard && ours && strings.HasSuffix(e.Name(), suffix) && !exists[prefix+base+indexSuffix] {
			err := f.files.Remove(filepath.Join(f.dir, e.Name()))
			if !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// file is an open checkpoint. It is a source of Trainer.Restore.
type file struct {
	*safetensors.File
	name     string // of the file, or of the index
	metadata metadata
}

// open opens the checkpoint whose file has a path if it is one; else its index does.
func open(path string) (*file, error) {
	name := filepath.Base(path)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		name = strings.TrimSuffix(name, suffix) + indexSuffix
	}
	f, err := safetensors.Open(filepath.Join(filepath.Dir(path), name))
	if err != nil {
		return nil, err
	}
	m, err := readMetadata(f, name)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &file{f, name, m}, nil
}

// readMetadata returns the content of the entry in a file.
func readMetadata(f *safetensors.File, name string) (m metadata, err error) {
	text, ok := f.Metadata()[MetadataKey]
	if !ok {
		return m, fmt.Errorf("%w: %s has no entry %q in its metadata", safetensors.ErrFormat, name, MetadataKey)
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return m, fmt.Errorf("%w: %s: entry %q: %w", safetensors.ErrFormat, name, MetadataKey, err)
	}
	return m, nil
}

// Info implements trainer.StateSource.
func (f *file) Info() (trainer.Info, error) { return f.metadata.Info, nil }

// Tensors implements trainer.StateSource.
func (f *file) Tensors() []trainer.NamedSpec {
	var all []trainer.NamedSpec
	for _, t := range f.File.Tensors() {
		spec := trainer.NamedSpec{Name: t.Name}
		spec.Spec.Type, spec.Spec.Shape = t.DType.Stored(), t.Shape
		all = append(all, spec)
	}
	return all
}
