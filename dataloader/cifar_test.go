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
	"strings"
	"testing"
	"testing/iotest"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

const cifarRecord = 3073 // bytes

// records makes n records: labels count up, pixels are a function of record and place.
func records(n int) []byte {
	b := make([]byte, n*cifarRecord)
	for i := range b {
		b[i] = byte(i/cifarRecord + i)
	}
	for i := range n {
		b[i*cifarRecord] = byte(i % 10)
	}
	return b
}

// storedRecords returns the records of a CIFAR dataset: the fields of each sample, from the last to the first.
func storedRecords(ds dataloader.Dataset) []byte {
	var b []byte
	for i := range ds.Len() {
		for _, field := range slices.Backward(fetch(ds, i, 0)) {
			b = append(b, field...)
		}
	}
	return b
}

// pictures writes the six files of a CIFAR-10 whose images are all alike, with changes. Nil: no file.
func pictures(t *testing.T, dir string, change map[string][]byte) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	good := write(t, dir, "good", records(10000))
	for _, name := range []string{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"} {
		b, changed := change[name]
		switch {
		case b != nil:
			write(t, dir, name, b)
		case !changed:
			if err := os.Link(good, filepath.Join(dir, name)); err != nil { // 30 MB a file
				t.Fatal(err)
			}
		}
	}
}

func TestCIFAR10IsReadAsItIsStored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	second := records(10000)
	second[7*cifarRecord] = 3
	second[7*cifarRecord+1+2*1024+5*32+9] = 201 // blue, row 5, column 9
	pictures(t, filepath.Join(dir, "cifar-10-batches-bin"), map[string][]byte{"data_batch_2.bin": second})
	for _, at := range []string{dir, filepath.Join(dir, "cifar-10-batches-bin")} {
		train, test, err := dataloader.CIFAR10(at)
		if err != nil {
			t.Fatal(err)
		}
		f := train.Fields()
		if train.Len() != 50000 || test.Len() != 10000 || dataloader.SampleBytes(test) != cifarRecord ||
			f[0].Name != "x" || f[0].Type != arena.Uint8 || f[0].Scale != 1.0/255 || !slices.Equal(f[0].Shape, []int{3, 32, 32}) ||
			f[1].Name != "y" || f[1].Type != arena.Uint8 || len(f[1].Shape) != 0 {
			t.Errorf("got %d and %d samples of %+v", train.Len(), test.Len(), f)
		}
		if err := dataloader.Check(train); err != nil {
			t.Error(err)
		}
		dst := [][]byte{make([]byte, 3072), make([]byte, 1)}
		if err := train.Fetch(t.Context(), dataloader.At{Index: 10007}, dst); err != nil || dst[1][0] != 3 || dst[0][2*1024+5*32+9] != 201 {
			t.Errorf("got label %d, pixel %d, %v", dst[1][0], dst[0][2*1024+5*32+9], err)
		}
	}
}

func TestBadCIFAR10NamesTheFileAndThePlace(t *testing.T) {
	t.Parallel()
	label := records(10000)
	label[4321*cifarRecord] = 10
	for _, c := range []struct {
		name   string
		change map[string][]byte
		class  error
		says   []string
	}{
		{"missing", map[string][]byte{"data_batch_4.bin": nil, "test_batch.bin": nil}, fs.ErrNotExist,
			[]string{"data_batch_4.bin: file at byte 0", "test_batch.bin: file at byte 0"}},
		{"empty", map[string][]byte{"data_batch_3.bin": {}}, dataloader.ErrFormat, []string{"data_batch_3.bin: records at byte 0", "got 0 bytes"}},
		{"a record short", map[string][]byte{"data_batch_1.bin": records(9999)}, dataloader.ErrFormat,
			[]string{"data_batch_1.bin: records at byte 30726927", "30730000 in all"}},
		{"cut", map[string][]byte{"test_batch.bin": records(10000)[:30729999]}, io.ErrUnexpectedEOF, []string{"test_batch.bin: records at byte 30729999"}},
		{"too long", map[string][]byte{"data_batch_5.bin": append(records(10000), 0)}, dataloader.ErrFormat, []string{"data_batch_5.bin: records at byte 30730000", "got 30730001"}},
		{"label", map[string][]byte{"data_batch_2.bin": label}, dataloader.ErrFormat,
			[]string{"data_batch_2.bin: label of record 4321 at byte 13278433", "want 0 to 9, got 10"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			pictures(t, dir, c.change)
			train, test, err := dataloader.CIFAR10(dir)
			if !errors.Is(err, c.class) || train != nil || test != nil {
				t.Fatalf("got %v, want %v", err, c.class)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("got %q, want it to say %q", err, s)
				}
			}
		})
	}
}

func TestRecordsAreReadToTheEndOfTheirReader(t *testing.T) {
	good := records(3)
	if ds, err := dataloader.ReadCIFAR10(iotest.OneByteReader(bytes.NewReader(good)), 3); err != nil || ds.Len() != 3 {
		t.Errorf("got %v, %v", ds, err)
	}
	for _, n := range []int{0, 1, cifarRecord - 1, cifarRecord, 3*cifarRecord - 1} {
		_, err := dataloader.ReadCIFAR10(bytes.NewReader(good[:n]), 3)
		wantFormat(t, err, int64(n), "input: records", fmt.Sprintf("got %d bytes", n))
	}
	_, err := dataloader.ReadCIFAR10(bytes.NewReader(good), 2)
	wantFormat(t, err, 2*cifarRecord, "end", "nothing after 2 records")
	broken := errors.New("cable pulled")
	for _, n := range []int{5, 3} { // in the records, and after them
		r := io.MultiReader(bytes.NewReader(good), iotest.ErrReader(broken))
		if _, err := dataloader.ReadCIFAR10(r, n); !errors.Is(err, broken) || errors.Is(err, dataloader.ErrFormat) {
			t.Errorf("%d records: got %v, want %v", n, err, broken)
		}
	}
	for _, n := range []int{-1, 0, 1 << 50} {
		if _, err := dataloader.ReadCIFAR10(bytes.NewReader(good), n); !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("%d records: got %v", n, err)
		}
	}
}

func FuzzReadCIFAR10(f *testing.F) {
	f.Add(records(1), uint8(1))
	f.Add(records(2), uint8(2))
	f.Add(records(2), uint8(1))
	f.Add([]byte{9, 1, 2}, uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, n uint8) {
		ds, err := dataloader.ReadCIFAR10(bytes.NewReader(b), int(n%4))
		if err != nil {
			if n%4 != 0 && !errors.Is(err, dataloader.ErrFormat) {
				t.Fatalf("got %v, want a format error", err)
			}
			return
		}
		for i := range ds.Len() {
			if label := fetch(ds, i, 0)[1][0]; label > 9 {
				t.Fatalf("record %d: label %d", i, label)
			}
		}
		if !bytes.Equal(storedRecords(ds), b) {
			t.Fatal("got other records back")
		}
	})
}
