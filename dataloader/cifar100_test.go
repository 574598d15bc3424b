package dataloader_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

const cifar100Record = 3074 // bytes

// records100 makes n records: coarse labels count down, fine ones up, pixels are a function of record and place.
func records100(n int) []byte {
	b := make([]byte, n*cifar100Record)
	for i := range b {
		b[i] = byte(i/cifar100Record + i)
	}
	for i := range n {
		b[i*cifar100Record] = byte(19 - i%20)
		b[i*cifar100Record+1] = byte(i % 100)
	}
	return b
}

// holes writes the two files of a CIFAR-100 of zeros, 184 MB that take no space on a disk that supports
// sparse files.
func holes(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	resize(t, write(t, dir, "train.bin", nil), 50000*cifar100Record)
	resize(t, write(t, dir, "test.bin", nil), 10000*cifar100Record)
}

// resize gives the file at path a size in bytes: it cuts it or adds zeros.
func resize(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

// poke writes one byte into the file at path.
func poke(t *testing.T, path string, at int64, b byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte{b}, at)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestCIFAR100IsReadAsItIsStored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inner := filepath.Join(dir, "cifar-100-binary")
	holes(t, inner)
	train := filepath.Join(inner, "train.bin")
	poke(t, train, 49999*cifar100Record, 19)
	poke(t, train, 49999*cifar100Record+1, 99)
	poke(t, train, 49999*cifar100Record+2+2*1024+5*32+9, 201) // blue, row 5, column 9
	for _, at := range []string{dir, inner} {
		train, test, err := dataloader.CIFAR100(at)
		if err != nil {
			t.Fatal(err)
		}
		want := []dataloader.Field{
			{Name: "x", Type: arena.Uint8, Shape: []int{3, 32, 32}, Scale: 1.0 / 255},
			{Name: "y", Type: arena.Uint8},
			{Name: "coarse", Type: arena.Uint8},
		}
		if train.Len() != 50000 || test.Len() != 10000 || dataloader.SampleBytes(test) != cifar100Record {
			t.Errorf("got %d and %d samples of %d bytes", train.Len(), test.Len(), dataloader.SampleBytes(test))
		}
		for _, ds := range []dataloader.Dataset{train, test} {
			if err := dataloader.Check(ds); err != nil {
				t.Error(err)
			}
			if got := ds.Fields(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got fields %+v, want %+v", got, want)
			}
		}
		last := fetch(train, 49999, 0)
		image := make([]byte, 3072)
		image[2*1024+5*32+9] = 201
		if !bytes.Equal(last[0], image) || last[1][0] != 99 || last[2][0] != 19 {
			t.Errorf("got fine label %d, coarse label %d, or another image", last[1][0], last[2][0])
		}
	}
}

func TestBadCIFAR100NamesTheFileAndThePlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		file   string
		damage func(t *testing.T, path string)
		class  error // nil: the error has no cause
		offset int64
		says   []string
	}{
		{"missing", "test.bin", remove, fs.ErrNotExist, 0, []string{"want a regular file, got none"}},
		{"directory", "train.bin", func(t *testing.T, path string) {
			remove(t, path)
			if err := os.Mkdir(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}, fs.ErrInvalid, 0, []string{"want a regular file, got mode d"}},
		{"empty", "train.bin", func(t *testing.T, path string) { resize(t, path, 0) }, io.ErrUnexpectedEOF, 0,
			[]string{"records", "want 50000 of 3074 bytes, 153700000 in all, got 0 bytes"}},
		{"a record short", "test.bin", func(t *testing.T, path string) { resize(t, path, 9999*cifar100Record) },
			io.ErrUnexpectedEOF, 9999 * cifar100Record, []string{"records", "want 10000 of 3074 bytes"}},
		{"cut", "train.bin", func(t *testing.T, path string) { resize(t, path, 50000*cifar100Record-1) },
			io.ErrUnexpectedEOF, 50000*cifar100Record - 1, []string{"records", "got 153699999 bytes"}},
		{"too long", "test.bin", func(t *testing.T, path string) { resize(t, path, 10000*cifar100Record+1) },
			nil, 10000 * cifar100Record, []string{"records", "got 30740001 bytes"}},
		{"coarse label", "test.bin", func(t *testing.T, path string) { poke(t, path, 4321*cifar100Record, 20) },
			nil, 4321 * cifar100Record, []string{"coarse label of record 4321", "want 0 to 19, got 20"}},
		{"fine label", "train.bin", func(t *testing.T, path string) { poke(t, path, 49999*cifar100Record+1, 100) },
			nil, 49999*cifar100Record + 1, []string{"fine label of record 49999", "want 0 to 99, got 100"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			holes(t, dir)
			path := filepath.Join(dir, c.file)
			c.damage(t, path)
			train, test, err := dataloader.CIFAR100(dir)
			wantFormat(t, err, c.offset, append(c.says, "cifar-100: "+path)...)
			var f *dataloader.FormatError
			if train != nil || test != nil || !errors.As(err, &f) || f.Err != c.class {
				t.Errorf("got %v, want the cause %v", err, c.class)
			}
		})
	}
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	if _, _, err := dataloader.CIFAR100(nowhere); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, dataloader.ErrFormat) {
		t.Errorf("no directory: got %v", err)
	}
	_, _, err := dataloader.CIFAR100(t.TempDir())
	wantFormat(t, err, 0, "train.bin", "test.bin")
}

// remove removes the file at path.
func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func TestCIFAR100RecordsAreReadToTheEndOfTheirReader(t *testing.T) {
	good := records100(3)
	ds, err := dataloader.ReadCIFAR100(bytes.NewReader(good), 3)
	if err != nil {
		t.Fatal(err)
	}
	if got := storedRecords(ds); !bytes.Equal(got, good) {
		t.Error("got other records back")
	}
	fine, err := dataloader.Select(ds, "y")
	if err != nil || !slices.Equal(fetch(fine, 2, 0)[0], []byte{2}) {
		t.Errorf("select: got %v", err)
	}
	for _, n := range []int{0, 1, 2, cifar100Record - 1, cifar100Record, 3*cifar100Record - 1} {
		_, err := dataloader.ReadCIFAR100(bytes.NewReader(good[:n]), 3)
		wantFormat(t, err, int64(n), "input: records", fmt.Sprintf("got %d bytes", n))
	}
	_, err = dataloader.ReadCIFAR100(bytes.NewReader(good), 2)
	wantFormat(t, err, 2*cifar100Record, "end", "nothing after 2 records")
	for _, n := range []int{-1, 0, 1 << 50} {
		if _, err := dataloader.ReadCIFAR100(bytes.NewReader(good), n); !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("%d records: got %v", n, err)
		}
	}
}

func FuzzReadCIFAR100(f *testing.F) {
	f.Add(records100(1), uint8(1))
	f.Add(records100(2), uint8(2))
	f.Add(records100(2), uint8(1))
	f.Add([]byte{19, 99, 2}, uint8(1))
	f.Add(bytes.Repeat([]byte{20}, cifar100Record), uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, n uint8) {
		ds, err := dataloader.ReadCIFAR100(bytes.NewReader(b), int(n%4))
		if err != nil {
			if n%4 != 0 && !errors.Is(err, dataloader.ErrFormat) {
				t.Fatalf("got %v, want a format error", err)
			}
			return
		}
		for i := range ds.Len() {
			if s := fetch(ds, i, 0); s[1][0] > 99 || s[2][0] > 19 {
				t.Fatalf("record %d: fine label %d, coarse label %d", i, s[1][0], s[2][0])
			}
		}
		if !bytes.Equal(storedRecords(ds), b) {
			t.Fatal("got other records back")
		}
	})
}
