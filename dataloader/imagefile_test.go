package dataloader_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
)

// same fails unless two datasets have the same samples, of which some are compared.
func same(t *testing.T, got, want dataloader.Dataset) {
	t.Helper()
	if got.Len() != want.Len() || dataloader.Fingerprint(got) != dataloader.Fingerprint(want) {
		t.Fatalf("%d samples of %+v, want %d of %+v", got.Len(), got.Fields(), want.Len(), want.Fields())
	}
	var a, b [][]byte
	for _, f := range want.Fields() {
		a, b = append(a, make([]byte, f.Bytes())), append(b, make([]byte, f.Bytes()))
	}
	for i := 0; i < want.Len(); i += 1 + want.Len()/997 {
		if err := errors.Join(got.Fetch(t.Context(), dataloader.At{Index: i}, a), want.Fetch(t.Context(), dataloader.At{Index: i}, b)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(bytes.Join(a, nil), bytes.Join(b, nil)) {
			t.Fatalf("sample %d: got %v, want %v", i, a, b)
		}
	}
}

// closeAtEnd closes a data set at the end of the test, twice.
func closeAtEnd(t *testing.T, all ...*dataloader.ImageFiles) {
	t.Cleanup(func() {
		for _, d := range all {
			if err := errors.Join(d.Close(), d.Close()); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestImagesInTheirFilesAreThoseInMemory(t *testing.T) {
	dir := t.TempDir()
	second := records(10000)
	for i := range 10000 {
		second[i*cifarRecord] = byte(i * 7 % 10)
		second[i*cifarRecord+1+i%3072] ^= byte(i)
	}
	pictures(t, dir, map[string][]byte{"data_batch_2.bin": second})
	train, test, err := dataloader.CIFAR10(dir)
	if err != nil {
		t.Fatal(err)
	}
	trainFiles, testFiles, err := dataloader.OpenCIFAR10(dir)
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, trainFiles, testFiles)
	same(t, trainFiles, train)
	same(t, testFiles, test)
	dst := [][]byte{make([]byte, 3072), make([]byte, 1)}
	if n := testing.AllocsPerRun(100, func() { err = errors.Join(err, trainFiles.Fetch(t.Context(), dataloader.At{Index: 12_345}, dst)) }); n != 0 || err != nil {
		t.Errorf("%v allocations a sample, %v", n, err)
	}

	mnist := digits(t, nil)
	train, test, err = dataloader.MNIST(mnist, 1, 28, 28)
	if err != nil {
		t.Fatal(err)
	}
	if trainFiles, testFiles, err = dataloader.OpenMNIST(mnist, 1, 28, 28); err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, trainFiles, testFiles)
	same(t, trainFiles, train)
	same(t, testFiles, test)
}

func TestCIFAR100InItsFilesHasBothLabels(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, n := range map[string]int{"train.bin": 50_000, "test.bin": 10_000} {
		b := make([]byte, n*3074)
		for i := range n {
			b[i*3074], b[i*3074+1], b[i*3074+2+i%3072] = byte(i%20), byte(i%100), byte(i)
		}
		write(t, dir, name, b)
	}
	train, test, err := dataloader.CIFAR100(dir)
	if err != nil {
		t.Fatal(err)
	}
	trainFiles, testFiles, err := dataloader.OpenCIFAR100(dir)
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, trainFiles, testFiles)
	same(t, trainFiles, train)
	same(t, testFiles, test)
}

func TestFilesThatCannotBeReadWhereTheyAreAreRefused(t *testing.T) {
	t.Parallel()
	images := raw(8, []uint32{3, 28, 28}, make([]byte, 3*784))
	for says, change := range map[string]map[string][]byte{
		"unpack it, or use MNIST":                {"train-images-idx3-ubyte": nil, "train-images-idx3-ubyte.gz": zip(t, images)},
		"nothing after 2352 bytes":               {"train-images-idx3-ubyte": append(images[:len(images):len(images)], 0)},
		"2352 bytes for [3 28 28]":               {"train-images-idx3-ubyte": images[:len(images)-1]},
		"[N 28 28]":                              {"t10k-images-idx3-ubyte": raw(8, []uint32{3, 14, 56}, make([]byte, 3*784))},
		"label of sample 1":                      {"t10k-labels-idx1-ubyte": raw(8, []uint32{3}, []byte{0, 10, 1})},
		"3, as many as images in":                {"t10k-labels-idx1-ubyte": raw(8, []uint32{2}, []byte{0, 1})},
		"train-images-idx3-ubyte: file at byte ": {"train-images-idx3-ubyte": nil},
	} {
		_, _, err := dataloader.OpenMNIST(digits(t, change))
		wantFormat(t, err, -1, says)
	}
	for name, open := range map[string]func(shape ...int) error{
		"MNIST":     func(shape ...int) error { _, _, err := dataloader.MNIST(digits(t, nil), shape...); return err },
		"OpenMNIST": func(shape ...int) error { _, _, err := dataloader.OpenMNIST(digits(t, nil), shape...); return err },
	} {
		for _, shape := range [][]int{{27, 28}, {-1, 28}} {
			err := open(shape...)
			if !errors.Is(err, dataloader.ErrField) {
				t.Fatalf("%s, shape %v: got %v", name, shape, err)
			}
			for _, part := range []string{"train-images-idx3-ubyte: field 0", "t10k-images-idx3-ubyte: field 0"} {
				if strings.Count(err.Error(), part) != 1 {
					t.Errorf("%s, shape %v: got %q, want %q once", name, shape, err, part)
				}
			}
		}
	}
	folder := digits(t, map[string][]byte{"train-images-idx3-ubyte": nil})
	if err := os.Mkdir(filepath.Join(folder, "train-images-idx3-ubyte"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, _, noFile := dataloader.OpenMNIST(folder)
	wantFormat(t, noFile, -1, "train-images-idx3-ubyte: file at byte 0: want a regular file, got mode d")
	if _, _, err := dataloader.OpenCIFAR10(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: got %v", err)
	}
	dir := t.TempDir()
	bad := records(10000)
	bad[9999*cifarRecord] = 10
	pictures(t, dir, map[string][]byte{"data_batch_4.bin": bad, "test_batch.bin": bad[:cifarRecord]})
	_, _, err := dataloader.OpenCIFAR10(dir)
	wantFormat(t, err, 9999*cifarRecord, "label of record 9999", "test_batch.bin: records at byte")
}

func TestAnImageThatIsGoneIsAnError(t *testing.T) {
	t.Parallel()
	dir := digits(t, nil)
	train, test, err := dataloader.OpenMNIST(dir)
	if err != nil {
		t.Fatal(err)
	}
	dst := [][]byte{make([]byte, 784), make([]byte, 1)}
	if err := os.Truncate(filepath.Join(dir, "train-images-idx3-ubyte"), 16+2*784); err != nil {
		t.Fatal(err)
	}
	if err := train.Fetch(t.Context(), dataloader.At{Index: 1}, dst); err != nil {
		t.Errorf("what is left: %v", err)
	}
	if err := train.Fetch(t.Context(), dataloader.At{Index: 2}, dst); !errors.Is(err, io.ErrUnexpectedEOF) || dataloader.IsBad(err) {
		t.Errorf("what is gone: %v", err)
	}
	if err := train.Fetch(t.Context(), dataloader.At{Index: 3}, dst); !errors.Is(err, dataloader.ErrOption) {
		t.Errorf("sample 3 of 3: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := test.Fetch(ctx, dataloader.At{}, dst); !errors.Is(err, context.Canceled) {
		t.Errorf("a done context: %v", err)
	}
	closeAtEnd(t, train, test)
	if err := test.Close(); err != nil {
		t.Error(err)
	}
	if err := test.Fetch(t.Context(), dataloader.At{}, dst); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
