package dataloader

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
)

// The binary versions of CIFAR-10 and CIFAR-100 (Krizhevsky, 2009): records of labels and an image,
// nothing before, between or after them.
//
//	CIFAR-10   offset 0  label         0 to 9
//	                  1  red           32 rows of 32 pixels; then green, then blue
//	               3073  next record
//	CIFAR-100  offset 0  coarse label  0 to 19
//	                  1  fine label    0 to 99
//	                  2  red           as above
//	               3074  next record
const (
	cifarSide  = 32
	cifarImage = 3 * cifarSide * cifarSide // bytes
)

// cifarFormat describes the files and the records of one data set.
type cifarFormat struct {
	name        string // in errors
	folder      string // into which the published archive unpacks
	train, test cifarFiles
	labels      []cifarLabel // in the order of a record
}

// cifarFiles is the files of one part of a data set.
type cifarFiles struct {
	names   []string
	records int // of each file
}

// cifarLabel is one byte of a record.
type cifarLabel struct {
	field   string
	name    string // in errors
	classes int
}

var (
	cifar10 = &cifarFormat{
		name: "cifar-10", folder: "cifar-10-batches-bin",
		train: cifarFiles{names: []string{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
			"data_batch_4.bin", "data_batch_5.bin"}, records: 10000},
		test:   cifarFiles{names: []string{"test_batch.bin"}, records: 10000},
		labels: []cifarLabel{{"y", "label", 10}},
	}
	cifar100 = &cifarFormat{
		name: "cifar-100", folder: "cifar-100-binary",
		train:  cifarFiles{names: []string{"train.bin"}, records: 50000},
		test:   cifarFiles{names: []string{"test.bin"}, records: 10000},
		labels: []cifarLabel{{"coarse", "coarse label", 20}, {"y", "fine label", 100}},
	}
)

// CIFAR10 reads the binary version of CIFAR-10 from a directory, or from its folder
// cifar-10-batches-bin, into which the published archive unpacks: data_batch_1.bin to
// data_batch_5.bin, and test_batch.bin. A file that is missing or violates the format is a
// *FormatError.
//
// A sample has the fields "x", uint8 with scale 1/255 and shape [3, 32, 32], and "y", uint8 in [0,
// 10). It needs 3,073 bytes of memory.
func CIFAR10(dir string) (train, test Dataset, err error) { return cifar10.open(dir) }

// CIFAR100 reads the binary version of CIFAR-100 from a directory, or from its folder
// cifar-100-binary, into which the published archive unpacks: train.bin with 50,000 records, and
// test.bin with 10,000. A file that is missing or violates the format is a *FormatError.
//
// A sample has the fields "x", uint8 with scale 1/255 and shape [3, 32, 32], "y", the fine label,
// uint8 in [0, 100), and "coarse", the coarse label, uint8 in [0, 20). It needs 3,074 bytes of
// memory. A model that uses one label leaves the other out with [Select].
func CIFAR100(dir string) (train, test Dataset, err error) { return cifar100.open(dir) }

// ReadCIFAR10 reads n records in the format of CIFAR10 up to the end of r. A violation of the
// format is a *FormatError. It allocates n·3,073 bytes.
func ReadCIFAR10(r io.Reader, n int) (Dataset, error) { return cifar10.read(r, n) }

// ReadCIFAR100 reads n records in the format of CIFAR100 up to the end of r. A violation of the
// format is a *FormatError. It allocates n·3,074 bytes.
func ReadCIFAR100(r io.Reader, n int) (Dataset, error) { return cifar100.read(r, n) }

// record returns the size of a record in bytes.
func (f *cifarFormat) record() int { return len(f.labels) + cifarImage }

// open reads both parts from dir or from its folder.
func (f *cifarFormat) open(dir string) (train, test Dataset, err error) {
	if dir, err = f.find(dir); err != nil {
		return nil, nil, err
	}
	return openBoth(f.name, f.train, f.test, func(part cifarFiles) (Dataset, error) { return f.openPart(dir, part) })
}

// find returns dir or its folder.
func (f *cifarFormat) find(dir string) (string, error) {
	if inner := filepath.Join(dir, f.folder); isDir(inner) {
		dir = inner
	}
	if !isDir(dir) {
		return "", fmt.Errorf("%s: no directory %s: %w", f.name, dir, fs.ErrNotExist)
	}
	return dir, nil
}

// isDir reports whether path is a directory.
func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// openPart reads the files of one part. It allocates memory after checking that all of them are
// there.
func (f *cifarFormat) openPart(dir string, files cifarFiles) (Dataset, error) {
	var errs []error
	for _, name := range files.names {
		errs = append(errs, f.checkFile(filepath.Join(dir, name), files.records))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	size := files.records * f.record()
	records := make([]byte, len(files.names)*size)
	for i, name := range files.names {
		errs = append(errs, f.readFile(filepath.Join(dir, name), records[i*size:][:size]))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return f.dataset(records), nil
}

// checkFile checks that path is a regular file with the given number of records.
func (f *cifarFormat) checkFile(path string, records int) error {
	info, err := regularFile(path)
	if err == nil && info.Size() != int64(records)*int64(f.record()) {
		err = f.sizeError(path, records, info.Size())
	}
	return err
}

// regularFile describes the regular file at path. It does not open it: opening a pipe would wait for a
// writer.
func regularFile(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, missingFile(path, "a regular file")
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, &FormatError{File: path, What: "file", Want: "a regular file",
			Got: fmt.Sprintf("mode %v", info.Mode().Type()), Err: fs.ErrInvalid}
	}
	return info, nil
}

// readFile fills dst from the file at path.
func (f *cifarFormat) readFile(path string, dst []byte) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return f.readRecords(path, file, dst)
}

// read reads n records up to the end of r.
func (f *cifarFormat) read(r io.Reader, n int) (Dataset, error) {
	if most := (1 << 40) / f.record(); n < 1 || n > most {
		return nil, fmt.Errorf("%s: %d records: must be 1 to %d: %w", f.name, n, most, ErrOption)
	}
	records := make([]byte, n*f.record())
	if err := f.readRecords("", bufio.NewReader(r), records); err != nil {
		return nil, err
	}
	return f.dataset(records), nil
}

// readRecords fills dst with records from r, which must end after them, and checks their labels.
func (f *cifarFormat) readRecords(path string, r io.Reader, dst []byte) error {
	size := f.record()
	n, err := io.ReadFull(r, dst)
	switch {
	case err == io.EOF, err == io.ErrUnexpectedEOF:
		return f.sizeError(path, len(dst)/size, int64(n))
	case err != nil:
		return fmt.Errorf("%s %s: records at byte %d: %w", f.name, path, n, err)
	}
	var extra [1]byte
	switch n, err := io.ReadFull(r, extra[:]); {
	case n > 0:
		return &FormatError{File: path, Offset: int64(len(dst)), What: "end",
			Want: fmt.Sprintf("nothing after %d records", len(dst)/size), Got: "more bytes"}
	case err != io.EOF:
		return fmt.Errorf("%s %s: end at byte %d: %w", f.name, path, len(dst), err)
	}
	for i := range len(dst) / size {
		if err := f.checkLabels(path, dst[i*size:], i); err != nil {
			return err
		}
	}
	return nil
}

// checkLabels checks the labels of record number i.
func (f *cifarFormat) checkLabels(path string, record []byte, i int) error {
	for k, label := range f.labels {
		if got := int(record[k]); got >= label.classes {
			return &FormatError{File: path, Offset: int64(i*f.record() + k), What: fmt.Sprintf("%s of record %d", label.name, i),
				Want: fmt.Sprintf("0 to %d", label.classes-1), Got: fmt.Sprint(got)}
		}
	}
	return nil
}

// sizeError returns the error for a file that has got bytes instead of the given number of records.
func (f *cifarFormat) sizeError(path string, records int, got int64) error {
	want := int64(records) * int64(f.record())
	e := &FormatError{File: path, Offset: min(got, want), What: "records", Got: fmt.Sprintf("%d bytes", got),
		Want: fmt.Sprintf("%d of %d bytes, %d in all", records, f.record(), want)}
	if got < want {
		e.Err = io.ErrUnexpectedEOF
	}
	return e
}

// dataset returns the dataset of the records.
func (f *cifarFormat) dataset(records []byte) *cifar {
	return &cifar{records: records, size: f.record(), fields: f.fields()}
}

// fields returns the fields of a sample.
func (f *cifarFormat) fields() []Field {
	fields := []Field{{Name: "x", Type: arena.Uint8, Shape: []int{3, cifarSide, cifarSide}, Scale: 1.0 / 255}}
	for _, label := range slices.Backward(f.labels) {
		fields = append(fields, Field{Name: label.field, Type: arena.Uint8})
	}
	return fields
}

// cifar is a dataset of records in memory. Its fields are the parts of a record from the last to
// the first: the image, then the labels, so that "y" is field 1 of both data sets.
type cifar struct {
	records []byte
	size    int // of a record, in bytes
	fields  []Field
}

// Len returns the number of records.
func (c *cifar) Len() int { return len(c.records) / c.size }

// Fields returns the image and the labels.
func (c *cifar) Fields() []Field { return slices.Clone(c.fields) }

// Fetch copies one record.
func (c *cifar) Fetch(_ context.Context, at At, dst [][]byte) error {
	r := c.records[at.Index*c.size:][:c.size]
	labels := len(c.fields) - 1
	copy(dst[0], r[labels:])
	for k := range labels {
		dst[labels-k][0] = r[k]
	}
	return nil
}
