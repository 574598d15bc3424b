package dataloader

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
)

// ImageFiles is a data set whose images stay in their files: Fetch reads one where it is, and only the
// labels are in memory. The pages that the system caches are not memory of the process. Fetch allocates
// nothing; the methods are safe for concurrent use. Its samples, and its fingerprint, are those of the
// function that reads all into memory. The files must not change while they are open: Fetch would return
// other images, to which the labels that were read before do not belong, without an error.
type ImageFiles struct {
	fields []Field
	files  []*os.File
	count  int      // images of a file
	start  int64    // bytes before the first image of a file
	stride int64    // bytes from an image to the next one
	labels [][]byte // by field after the image
}

// OpenCIFAR10 is CIFAR10 that leaves the images in the files. It reads them once, to check the labels. The
// caller must Close train and test.
func OpenCIFAR10(dir string) (train, test *ImageFiles, err error) { return cifar10.openFiles(dir) }

// OpenCIFAR100 is CIFAR100 that leaves the images in the files, as OpenCIFAR10 does.
func OpenCIFAR100(dir string) (train, test *ImageFiles, err error) { return cifar100.openFiles(dir) }

// OpenMNIST is MNIST that leaves the images in the files, which must not be compressed, nor change
// while they are open. The caller must Close train and test.
func OpenMNIST(dir string, shape ...int) (train, test *ImageFiles, err error) {
	return openBoth("mnist", "train", "t10k", func(part string) (*ImageFiles, error) { return mnistFiles(dir, part, shape) })
}

// openFiles opens both parts in dir or in its folder.
func (f *cifarFormat) openFiles(dir string) (train, test *ImageFiles, err error) {
	if dir, err = f.find(dir); err != nil {
		return nil, nil, err
	}
	return openBoth(f.name, f.train, f.test, func(part cifarFiles) (*ImageFiles, error) { return f.partFiles(dir, part) })
}

// openBoth opens both parts of a data set, which P describes, or none. A nil D may be closed.
func openBoth[P any, D Dataset](name string, train, test P, open func(part P) (D, error)) (_, _ D, err error) {
	first, firstErr := open(train)
	second, secondErr := open(test)
	if err = errors.Join(firstErr, secondErr); err == nil {
		return first, second, nil
	}
	err = fmt.Errorf("%s: %w", name, err)
	for _, part := range []D{first, second} {
		if c, ok := any(part).(io.Closer); ok {
			err = errors.Join(err, c.Close())
		}
	}
	var none D
	return none, none, err
}

// partFiles opens the files of one part.
func (f *cifarFormat) partFiles(dir string, files cifarFiles) (_ *ImageFiles, err error) {
	labels := len(f.labels)
	d := &ImageFiles{fields: f.fields(), count: files.records, start: int64(labels), stride: int64(f.record()), labels: make([][]byte, labels)}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	for _, name := range files.names {
		path := filepath.Join(dir, name)
		if err := f.checkFile(path, files.records); err != nil {
			return nil, err
		}
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		d.files = append(d.files, file)
		if err := f.readLabels(d, path, file); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// readLabels appends the labels of a file, in the order of the fields.
func (f *cifarFormat) readLabels(d *ImageFiles, path string, file io.Reader) error {
	r := bufio.NewReaderSize(file, 1<<16)
	record := make([]byte, f.record())
	for i := range d.count {
		n, err := io.ReadFull(r, record)
		switch at := int64(i*len(record) + n); {
		case err == io.EOF, err == io.ErrUnexpectedEOF:
			return f.sizeError(path, d.count, at)
		case err != nil:
			return fmt.Errorf("%s: labels at byte %d: %w", path, at, err)
		}
		if err := f.checkLabels(path, record, i); err != nil {
			return err
		}
		for k := range f.labels {
			field := len(f.labels) - 1 - k // see cifar
			d.labels[field] = append(d.labels[field], record[k])
		}
	}
	return nil
}

// mnistFiles opens the images of one part, and reads the labels.
func mnistFiles(dir, part string, shape []int) (_ *ImageFiles, err error) {
	path, err := partPath(dir, part+"-images-idx3-ubyte")
	if err != nil {
		return nil, err
	}
	if _, err := regularFile(path); err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	d := &ImageFiles{files: []*os.File{file}}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	images, start, err := idxHeader(path, file)
	if err != nil {
		return nil, err
	}
	labels, err := mnistLabels(dir, part, images)
	if err != nil {
		return nil, err
	}
	if len(shape) == 0 {
		shape = images.Dims[1:]
	}
	d.fields = []Field{{Name: "x", Type: arena.Uint8, Shape: slices.Clone(shape), Scale: 1.0 / 255}, labels.Array("y").Field}
	d.count, d.start, d.stride, d.labels = images.Len(), start, int64(images.Dims[1]*images.Dims[2]), [][]byte{labels.Data}
	if err := Check(d); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if n := d.fields[0].Bytes(); n != d.stride {
		return nil, fmt.Errorf("%s: %w", path,
			&FieldError{Name: "x", Problem: fmt.Sprintf("shape %v has %d elements, an image has %d", shape, n, d.stride)})
	}
	return d, nil
}

// idxHeader reads the description of an IDX file, and returns where its elements begin.
func idxHeader(path string, file *os.File) (x *IDX, start int64, err error) {
	info, err := file.Stat()
	if err != nil {
		return nil, 0, err
	}
	p := &idxParser{x: &IDX{File: path}, r: io.NewSectionReader(file, 0, info.Size()), size: info.Size(), whole: true}
	var magic [2]byte
	if n, _ := file.ReadAt(magic[:], 0); n == 2 && magic == [2]byte{0x1f, 0x8b} {
		return nil, 0, p.fail("compression", "a plain file, whose images can be read where they are: unpack it, or use MNIST", "gzip", nil)
	}
	if err := p.header(math.MaxInt64); err != nil {
		return nil, 0, err
	}
	if p.at+p.bytes < p.size {
		p.at += p.bytes
		return nil, 0, p.fail("end", fmt.Sprintf("nothing after %d bytes of elements for %v", p.bytes, p.x.Dims), "more bytes", nil)
	}
	return p.x, p.at, nil
}

// Len returns the number of images.
func (d *ImageFiles) Len() int { return len(d.files) * d.count }

// Fields returns the image and the labels.
func (d *ImageFiles) Fields() []Field { return slices.Clone(d.fields) }

// Fetch reads one image. A file that has become shorter is an error that wraps io.ErrUnexpectedEOF.
func (d *ImageFiles) Fetch(ctx context.Context, at At, dst [][]byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if at.Index < 0 || at.Index >= d.Len() {
		return fmt.Errorf("sample %d of %d: %w", at.Index, d.Len(), ErrOption)
	}
	file, offset := d.files[at.Index/d.count], d.start+int64(at.Index%d.count)*d.stride
	if _, err := file.ReadAt(dst[0], offset); err != nil {
		return fmt.Errorf("%s: image at byte %d: %w", file.Name(), offset, notEOF(err))
	}
	for k, labels := range d.labels {
		dst[k+1][0] = labels[at.Index]
	}
	return nil
}

// Close closes the files. Nothing may be fetched any more. It may be called twice.
func (d *ImageFiles) Close() error {
	if d == nil {
		return nil
	}
	var errs []error
	for _, f := range d.files {
		if err := f.Close(); !errors.Is(err, os.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
