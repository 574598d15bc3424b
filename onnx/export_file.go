package onnx

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"github.com/evenkeel/evenkeel/internal/atomicfile"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
	"github.com/evenkeel/evenkeel/trainer"
)

// externalFrom is the size from which on a tensor is written to the second file, in bytes. Shapes
// and axes stay in the first one, since a reader needs them to know the sizes of the others.
const externalFrom = 1024

// ExportFile is Export to a file. It replaces a file of that name, and, with
// ExportOptions.External, the one of its name and ".data", when all is written and safe on the
// disk; after an error both are as they were. Between the replacements of the two files, a crash
// leaves the data of one export and the model of another: export again.
func ExportFile(ctx context.Context, path string, model trainer.ModelFunc, opt ExportOptions) (Exported, error) {
	done, err := exportFile(ctx, atomicfile.OS{}, path, model, opt)
	if err != nil {
		return Exported{}, fmt.Errorf("onnx export: %w", err)
	}
	return done, nil
}

func exportFile(ctx context.Context, fs atomicfile.FS, path string, model trainer.ModelFunc, opt ExportOptions) (done Exported, err error) {
	e, err := newExporter(ctx, model, opt)
	if err != nil {
		return done, err
	}
	done = e.done
	var files []*atomicfile.File
	defer func() {
		for _, f := range files {
			err = errors.Join(err, f.Close()) // nothing after a success
		}
	}()
	write := func(path string, fill func(w io.Writer) (int64, error)) error {
		f, err := atomicfile.Create(fs, path)
		if err != nil {
			return err
		}
		files = append(files, f)
		b := bufio.NewWriterSize(f, 1<<20)
		n, err := fill(b)
		done.Bytes += n
		return errors.Join(err, b.Flush())
	}
	if opt.External {
		data := path + ".data"
		if err := write(data, func(w io.Writer) (int64, error) { return e.moveData(ctx, filepath.Base(data), w) }); err != nil {
			return done, err
		}
	}
	if err := write(path, func(w io.Writer) (int64, error) { return proto.Write(w, e.model()) }); err != nil {
		return done, err
	}
	if err := ctx.Err(); err != nil {
		return done, err
	}
	for _, f := range files {
		if err := f.Commit(); err != nil {
			return done, err
		}
	}
	return done, nil
}

// moveData writes the elements of large tensors to w, each at a multiple of 64 bytes, and makes the
// tensors refer to the file of that name.
func (e *exporter) moveData(ctx context.Context, name string, w io.Writer) (at int64, err error) {
	const align = 64
	for i := range e.graph.Initializers {
		t := &e.graph.Initializers[i]
		if len(t.Raw) < externalFrom {
			continue
		}
		if err := ctx.Err(); err != nil {
			return at, err
		}
		if pad := -at & (align - 1); pad > 0 {
			if _, err := w.Write(make([]byte, pad)); err != nil {
				return at, err
			}
			at += pad
		}
		if _, err := w.Write(t.Raw); err != nil {
			return at, err
		}
		t.External = []proto.Entry{{Key: "location", Value: name}, {Key: "offset", Value: strconv.FormatInt(at, 10)},
			{Key: "length", Value: strconv.Itoa(len(t.Raw))}}
		at += int64(len(t.Raw))
		t.Location, t.Raw, t.HasRaw = proto.LocationExternal, nil, false
	}
	return at, nil
}
