package npz

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/evenkeel/evenkeel/internal/atomicfile"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// CreateOptions are the options of Create.
type CreateOptions struct {
	// FS is the file system; tests of this module inject faults by it. Default: the operating
	// system's.
	FS atomicfile.FS
}

// Create writes arrays to the file at path, uncompressed, in the order of tensors. fill writes the
// bytes of one, row-major and little endian, in as many calls of w as it likes. The file is
// replaced in one step: after an error or a crash path holds the former file or the new one. All
// mistakes in names and types are in one error, which wraps ErrOption: NumPy has no bfloat16 and no
// 8-bit floats. Each call of w ends if ctx is cancelled.
func Create(ctx context.Context, path string, tensors []safetensors.Tensor, opt CreateOptions, fill func(t safetensors.Tensor, w io.Writer) error) (err error) {
	if ctx == nil || fill == nil {
		return fmt.Errorf("create %s: it needs a context and fill: %w", path, ErrOption)
	}
	if err := check(tensors); err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	f, err := atomicfile.Create(opt.FS, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z := zip.NewWriter(f)
	for _, t := range tensors {
		w, err := z.CreateHeader(&zip.FileHeader{Name: t.Name + suffix, Method: zip.Store})
		if err != nil {
			return err
		}
		if _, err := w.Write(describe(t)); err != nil {
			return err
		}
		to := &bounded{ctx: ctx, w: w, left: t.Bytes()}
		if err := fill(t, to); err != nil {
			return fmt.Errorf("write array %q: %w", shorten(t.Name), err)
		}
		if to.left > 0 {
			return fmt.Errorf("write array %q: %d of its %d bytes are missing: %w", shorten(t.Name), to.left, t.Bytes(), ErrOption)
		}
	}
	if err := errors.Join(z.Close(), ctx.Err()); err != nil {
		return err
	}
	return f.Commit()
}

// check returns all mistakes in the arrays.
func check(tensors []safetensors.Tensor) error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf(format+": %w", append(args, ErrOption)...))
	}
	seen := map[string]bool{}
	for _, t := range tensors {
		switch {
		case descrOf(t.DType) == "":
			bad("array %q: NumPy has no type %s: save it as F32, or in the safetensors format", shorten(t.Name), t.DType)
		case t.Bytes() == 0 && !slices.Contains(t.Shape, 0):
			bad("array %q: %v is no shape, or has too many bytes", shorten(t.Name), t)
		case seen[t.Name]:
			bad("array %q occurs twice", shorten(t.Name))
		case !utf8.ValidString(t.Name) || len(t.Name) > 1<<15:
			bad("array %q: the name must be UTF-8 of up to 32 KiB", shorten(t.Name))
		}
		for _, d := range t.Shape {
			if d < 0 {
				bad("array %q: dimension %d is negative", shorten(t.Name), d)
			}
		}
		seen[t.Name] = true
	}
	return errors.Join(errs...)
}

// describe returns the header of an array, a multiple of 64 bytes: version 1, or 2 if it is long.
func describe(t safetensors.Tensor) []byte {
	var shape strings.Builder
	for _, d := range t.Shape {
		fmt.Fprintf(&shape, "%d,", d)
	}
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descrOf(t.DType), shape.String())
	start := 10
	if len(text)+start+64 > 1<<16 {
		start = 12
	}
	pad := 63 - (start+len(text))%64
	text += strings.Repeat(" ", pad) + "\n"
	var b bytes.Buffer
	b.WriteString(magic)
	if start == 10 {
		b.Write(binary.LittleEndian.AppendUint16([]byte{1, 0}, uint16(len(text))))
	} else {
		b.Write(binary.LittleEndian.AppendUint32([]byte{2, 0}, uint32(len(text))))
	}
	b.WriteString(text)
	return b.Bytes()
}

// bounded writes at most the bytes of an array, until ctx ends.
type bounded struct {
	ctx  context.Context
	w    io.Writer
	left int64
}

func (b *bounded) Write(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if int64(len(p)) > b.left {
		return 0, fmt.Errorf("%d bytes more than the array has: %w", int64(len(p))-b.left, ErrOption)
	}
	n, err := b.w.Write(p)
	b.left -= int64(n)
	return n, err
}
