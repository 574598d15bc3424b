package shards_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/shards"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// random returns a generator and prints the seed if the test fails.
func random(t testing.TB) *rand.Rand { return seed.Rand(t, 11) }

// item is an entry of an archive.
type item struct {
	name string
	data []byte
}

// archive returns a tar archive.
func archive(t testing.TB, items ...item) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, i := range items {
		err := w.WriteHeader(&tar.Header{Name: i.name, Size: int64(len(i.data)), Mode: 0o644, Typeflag: tar.TypeReg})
		if _, werr := w.Write(i.data); err != nil || werr != nil {
			t.Fatal(err, werr)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// samples returns the entries of n samples with the fields of two, from a number on.
func samples(first, n, size int) (items []item) {
	for i := first; i < first+n; i++ {
		items = append(items, item{fmt.Sprintf("%06d.bin", i), contents(i, size)}, item{fmt.Sprintf("%06d.cls", i), fmt.Appendf(nil, "%d\n", i%10)})
	}
	return items
}

// contents returns the bytes of a sample.
func contents(i, size int) []byte {
	r := rand.New(rand.NewPCG(uint64(i), 1))
	b := make([]byte, size+7)
	for k := 0; k < size; k += 8 {
		binary.LittleEndian.PutUint64(b[k:], r.Uint64())
	}
	return b[:size]
}

// two is the fields of the archives of samples.
func two(size int) []shards.Field {
	return []shards.Field{{Name: "x", Ext: "bin", Decoder: shards.Raw(arena.Uint8, size)}, {Name: "y", Ext: "cls", Decoder: shards.Class(10)}}
}

// compress functions by the end of a name.
func gz(t testing.TB, data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// gzStored is gz without compression, which is faster.
func gzStored(t testing.TB, data []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.NoCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zst(t testing.TB, data []byte) []byte {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll(data, nil)
}

// folder returns a file system of files.
func folder(files map[string][]byte) fs.FS {
	fsys := fstest.MapFS{}
	for name, data := range files {
		fsys[name] = &fstest.MapFile{Data: data}
	}
	return fsys
}

// open opens shards and closes them at the end of the test.
func open(t testing.TB, fsys fs.FS, pattern string, opt shards.Options) *shards.Dataset {
	t.Helper()
	d, err := shards.OpenFS(fsys, pattern, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(d.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	})
	return d
}

// memory returns room for one sample.
func memory(ds dataloader.Dataset) (dst [][]byte) {
	for _, f := range ds.Fields() {
		dst = append(dst, make([]byte, f.Bytes()))
	}
	return dst
}

// check compares all samples, in random order, with those of two fields and numbers from a first one on.
func check(t testing.TB, d dataloader.Dataset, first, n, size int) {
	t.Helper()
	if d.Len() != n {
		t.Fatalf("got %d samples, want %d", d.Len(), n)
	}
	inOrder := make([]int, n)
	for i := range inOrder {
		inOrder[i] = i
	}
	checkSamples(t, d, first, inOrder, size)
	checkSamples(t, d, first, random(t).Perm(n), size)
}

// checkSamples compares some samples.
func checkSamples(t testing.TB, d dataloader.Dataset, first int, indices []int, size int) {
	t.Helper()
	dst := memory(d)
	for _, i := range indices {
		if err := d.Fetch(t.Context(), dataloader.At{Index: i}, dst); err != nil {
			t.Fatal(err)
		}
		if y := binary.NativeEndian.Uint32(dst[1]); !bytes.Equal(dst[0], contents(first+i, size)) || y != uint32(first+i)%10 {
			t.Fatalf("sample %d: got label %d, %x, want %x", i, y, dst[0][:min(8, size)], contents(first+i, size)[:min(8, size)])
		}
	}
}

// refused fails the test unless err is a *FormatError of a file.
func refused(t testing.TB, name string, err error) *dataloader.FormatError {
	t.Helper()
	var e *dataloader.FormatError
	if !errors.As(err, &e) || !errors.Is(err, dataloader.ErrFormat) {
		t.Errorf("%s: got %v, want a *FormatError", name, err)
		return new(dataloader.FormatError)
	}
	return e
}

// lengthOf decodes an entry to its length.
type lengthOf struct{ fail error }

func (lengthOf) Field(name string) dataloader.Field {
	return dataloader.Field{Name: name, Type: arena.Int64}
}

func (l lengthOf) Decode(_ dataloader.At, encoded, dst []byte) error {
	binary.NativeEndian.PutUint64(dst, uint64(len(encoded)))
	return l.fail
}

// epoch returns the indices of the samples that a loader reads in an epoch.
func epoch(t testing.TB, d dataloader.Dataset, opt dataloader.Options) (all []int) {
	t.Helper()
	l, err := dataloader.New(d, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	slots := make([]dataloader.Slot, 2)
	for i := range slots {
		for _, f := range d.Fields() {
			slots[i].Fields = append(slots[i].Fields, make([]byte, int(f.Bytes())*opt.Batch))
		}
	}
	run, err := l.Epoch(context.Background(), 0, slots)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	for {
		b, err := run.Next(t.Context())
		if err != nil {
			slices.Sort(all)
			return all
		}
		all = append(all, b.Indices...)
		if err := run.Release(b.Slot, nil); err != nil {
			t.Fatal(err)
		}
	}
}
