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

// The binary version of CIFAR-10 (Krizhevsky, 2009): records of a label and an image, nothing
// before, between or after them.
//
//	offset 0  label          0 to 9
//	       1  red            32 rows of 32 pixels; then green, then blue
//	    3073  next record
const (
	cifarSide    = 32
	cifarImage   = 3 * cifarSide * cifarSide // bytes
	cifarRecord  = 1 + cifarImage            // bytes
	cifarRecords = 10000                     // of each published file
	cifarClasses = 10
)

// cifar is a dataset of records in memory.
type cifar struct {
	records []byte
	fields  []Field
}

func newCIFAR(records []byte) *cifar {
	return &cifar{records: records, fields: []Field{
		{Name: "x", Type: arena.Uint8, Shape: []int{3, cifarSide, cifarSide}, Scale: 1.0 / 255},
		{Name: "y", Type: arena.Uint8},
	}}
}

// Len returns the number of records.
func (c *cifar) Len() int { return len(c.records) / cifarRecord }

// Fields returns the image and the label.
func (c *cifar) Fields() []Field { return slices.Clone(c.fields) }

// Fetch copies one record.
func (c *cifar) Fetch(_ context.Context, at At, dst [][]byte) error {
	r := c.records[at.Index*cifarRecord:][:cifarRecord]
	copy(dst[0], r[1:])
	dst[1][0] = r[0]
	return nil
}

// CIFAR10 reads the binary version of CIFAR-10 from a directory, or from its folder
// cifar-10-batches-bin, into which the published archive unpacks: data_batch_1.bin to
// data_batch_5.bin, and test_batch.bin.
//
// A sample has the fields "x", uint8 with scale 1/255 and shape [3, 32, 32], and "y", uint8 in [0,
// 10). It needs 3,073 bytes of memory. A missing file is an error that wraps fs.ErrNotExist, a
// violation of the format a *FormatError.
func CIFAR10(dir string) (train, test Dataset, err error) {
	if inner := filepath.Join(dir, "cifar-10-batches-bin"); isDir(inner) {
		dir = inner
	}
	if !isDir(dir) {
		return nil, nil, fmt.Errorf("cifar-10: no directory %s: %w", dir, fs.ErrNotExist)
	}
	var names []string
	for i := range 5 {
		names = append(names, filepath.Join(dir, fmt.Sprintf("data_batch_%d.bin", i+1)))
	}
	train, trainErr := openCIFAR(names...)
	test, testErr := openCIFAR(filepath.Join(dir, "test_batch.bin"))
	if err := errors.Join(trainErr, testErr); err != nil {
		return nil, nil, fmt.Errorf("cifar-10: %w", err)
	}
	return train, test, nil
}

// isDir reports whether path is a directory.
func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// openCIFAR reads files of 10,000 records each. It allocates memory after checking that all files
// are there.
func openCIFAR(names ...string) (Dataset, error) {
	var errs []error
	for _, name := range names {
		switch info, err := os.Stat(name); {
		case errors.Is(err, fs.ErrNotExist):
			errs = append(errs, fmt.Errorf("no %s: %w", name, fs.ErrNotExist))
		case err != nil:
			errs = append(errs, err)
		case !info.Mode().IsRegular():
			errs = append(errs, fmt.Errorf("%s is not a regular file (%v): %w", name, info.Mode().Type(), fs.ErrInvalid))
		case info.Size() != cifarRecords*cifarRecord:
			errs = append(errs, cifarSize(name, cifarRecords, info.Size()))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	records := make([]byte, len(names)*cifarRecords*cifarRecord)
	for i, name := range names {
		errs = append(errs, openRecords(name, records[i*cifarRecords*cifarRecord:][:cifarRecords*cifarRecord]))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return newCIFAR(records), nil
}

// openRecords fills dst from the file called name.
func openRecords(name string, dst []byte) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return readRecords(name, f, dst)
}

// ReadCIFAR10 reads n records in the format of CIFAR10 up to the end of r. A violation of the
// format is a *FormatError. It allocates n·3,073 bytes.
func ReadCIFAR10(r io.Reader, n int) (Dataset, error) {
	if n < 1 || n > (1<<40)/cifarRecord {
		return nil, fmt.Errorf("cifar-10: %d records: must be 1 to %d: %w", n, (1<<40)/cifarRecord, ErrOption)
	}
	records := make([]byte, n*cifarRecord)
	if err := readRecords("", bufio.NewReader(r), records); err != nil {
		return nil, err
	}
	return newCIFAR(records), nil
}

// readRecords fills dst with records from r, which must end after them, and checks their labels.
func readRecords(file string, r io.Reader, dst []byte) error {
	n, err := io.ReadFull(r, dst)
	switch {
	case err == io.EOF, err == io.ErrUnexpectedEOF:
		return cifarSize(file, len(dst)/cifarRecord, int64(n))
	case err != nil:
		return fmt.Errorf("cifar-10 %s: records at byte %d: %w", file, n, err)
	}
	var extra [1]byte
	switch n, err := io.ReadFull(r, extra[:]); {
	case n > 0:
		return &FormatError{File: file, Offset: int64(len(dst)), What: "end", Want: fmt.Sprintf("nothing after %d records", len(dst)/cifarRecord), Got: "more bytes"}
	case err != io.EOF:
		return fmt.Errorf("cifar-10 %s: end at byte %d: %w", file, len(dst), err)
	}
	for i := 0; i < len(dst); i += cifarRecord {
		if dst[i] >= cifarClasses {
			return &FormatError{File: file, Offset: int64(i), What: fmt.Sprintf("label of record %d", i/cifarRecord),
				Want: fmt.Sprintf("0 to %d", cifarClasses-1), Got: fmt.Sprint(dst[i])}
		}
	}
	return nil
}

// cifarSize returns the error for a file of the wrong length.
func cifarSize(file string, records int, got int64) error {
	want := int64(records) * cifarRecord
	e := &FormatError{File: file, Offset: min(got, want), What: "records", Got: fmt.Sprintf("%d bytes", got),
		Want: fmt.Sprintf("%d of %d bytes, %d in all", records, cifarRecord, want)}
	if got < want {
		e.Err = io.ErrUnexpectedEOF
	}
	return e
}
