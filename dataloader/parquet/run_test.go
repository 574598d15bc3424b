package parquet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/parquet"
	"github.com/evenkeel/evenkeel/dataloader/storage"
	"github.com/evenkeel/evenkeel/dataloader/storage/storagetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// epoch returns the batches of an epoch, one after another.
func epoch(t *testing.T, d dataloader.Dataset, workers, number int) []byte {
	t.Helper()
	l, err := dataloader.New(d, dataloader.Options{Batch: 7, Shuffle: true, Seed: 3, Workers: workers})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fields := make([][]byte, len(d.Fields()))
	for k, f := range d.Fields() {
		fields[k] = make([]byte, 7*f.Bytes())
	}
	r, err := l.Epoch(t.Context(), number, []dataloader.Slot{{Fields: fields}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var all []byte
	for {
		b, err := r.Next(t.Context())
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		for k, f := range d.Fields() {
			all = append(all, fields[k][:b.Rows*int(f.Bytes())]...)
		}
		if err := r.Release(b.Slot, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAShuffledEpochIsTheSameForAllWorkersAndHasEachRowOnce(t *testing.T) {
	for _, held := range []int{1, 2, 0} {
		d := open(t, "numbers-index.parquet", parquet.Options{Columns: []parquet.Column{{Name: "i64"}}, Held: held})
		var want []byte
		for i := range d.Len() {
			want = append(want, fetch(t, d, i)[0]...)
		}
		one := epoch(t, d, 1, 0)
		for _, workers := range []int{2, 8} {
			if !bytes.Equal(one, epoch(t, d, workers, 0)) {
				t.Errorf("held %d: %d workers read another epoch than 1", held, workers)
			}
		}
		if bytes.Equal(one, want) || bytes.Equal(one, epoch(t, d, 2, 1)) {
			t.Errorf("held %d: the order is that of the file, or of another epoch", held)
		}
		got := slices.Sorted(slices.Values(slices.Clone(dataloader.View[int64](one))))
		if !slices.Equal(got, slices.Sorted(slices.Values(slices.Clone(dataloader.View[int64](want))))) {
			t.Errorf("held %d: the epoch has other rows than the file", held)
		}
	}
}

func TestManyGoroutinesFetchAtOnce(t *testing.T) {
	d := open(t, "numbers-zstd.parquet", parquet.Options{Held: 2})
	var want [][]byte
	for i := range d.Len() {
		want = append(want, bytes.Join(fetch(t, d, i), nil))
	}
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			dst := slots(d)
			for n := range 100 {
				i := (n*37 + g*11) % d.Len()
				if err := d.Fetch(context.Background(), dataloader.At{Index: i}, dst); err != nil || !bytes.Equal(bytes.Join(dst, nil), want[i]) {
					t.Errorf("row %d: wrong bytes, or %v", i, err)
					return
				}
			}
		})
	}
	group.Wait()
}

func TestAFetchOfADecodedRowAllocatesNothing(t *testing.T) {
	d := open(t, "numbers-dict.parquet", parquet.Options{})
	dst, i := slots(d), 0
	fetch(t, d, 0)
	if n := testing.AllocsPerRun(200, func() {
		if err := d.Fetch(t.Context(), dataloader.At{Index: i % 64}, dst); err != nil {
			t.Fatal(err)
		}
		i++
	}); n != 0 {
		t.Errorf("%v allocations a sample, want 0", n)
	}
}

func TestDecodingARowGroupReusesMemory(t *testing.T) {
	d := open(t, "numbers-dict.parquet", parquet.Options{Held: 1})
	dst := slots(d)
	pass := func() {
		for _, i := range []int{0, 64, 128} { // three row groups, one held
			if err := d.Fetch(t.Context(), dataloader.At{Index: i}, dst); err != nil {
				t.Fatal(err)
			}
		}
	}
	pass()
	n := allocated(pass) / 3
	t.Log(n)
	if n > 4<<10 { // a row group has 12 columns and 3.5 KB
		t.Errorf("%d bytes of garbage for a row group", n)
	}
}

func TestADoneContextEndsADecode(t *testing.T) {
	d := open(t, "numbers-plain.parquet", parquet.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := d.Fetch(ctx, dataloader.At{Index: 100}, slots(d)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	fetch(t, d, 100) // and the next Fetch works
}

func TestAFileThatShrinksAndAClosedDataset(t *testing.T) {
	path := t.TempDir() + "/x.parquet"
	if err := os.WriteFile(path, file(t, "numbers-plain.parquet").Data, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := parquet.Open(path, parquet.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 300); err != nil {
		t.Fatal(err)
	}
	var read *storage.ReadError
	if err := d.Fetch(t.Context(), dataloader.At{}, slots(d)); !errors.Is(err, io.ErrUnexpectedEOF) || !errors.As(err, &read) || read.File != path {
		t.Errorf("a shorter file: got %v", err)
	}
	for range 2 {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := d.Fetch(t.Context(), dataloader.At{Index: 140}, slots(d)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: got %v", err)
	}
}

func TestFingerprints(t *testing.T) {
	t.Parallel()
	seen := map[uint64]string{}
	for _, name := range []string{"part-0.parquet", "part-1.parquet", "part-[01].parquet", "part-*.parquet", "other.parquet"} {
		d := open(t, name, parquet.Options{})
		h := dataloader.Fingerprint(d)
		if h != dataloader.Fingerprint(open(t, name, parquet.Options{Held: 2})) {
			t.Errorf("%s: two fingerprints", name)
		}
		if other, ok := seen[h]; ok {
			t.Errorf("%s and %s have one fingerprint", name, other)
		}
		seen[h] = name
	}
	a := open(t, "holes.parquet", parquet.Options{Columns: []parquet.Column{{Name: "n", Field: "x"}}})
	b := open(t, "holes.parquet", parquet.Options{Columns: []parquet.Column{{Name: "i", Field: "x"}}})
	if fmt.Sprint(dataloader.Fingerprint(a)) == fmt.Sprint(dataloader.Fingerprint(b)) {
		t.Error("two columns with one fingerprint")
	}
}

func TestFaultsOfTheStorageAtEveryCall(t *testing.T) {
	t.Parallel()
	want := expect(t, "lists")
	fsys := fstest.MapFS{"d/a.parquet": file(t, "lists.parquet"), "d/b.parquet": file(t, "lists.parquet")}
	storagetest.Every(t, fsys, func(ctx context.Context, fsys fs.FS) error {
		d, err := parquet.OpenContext(ctx, fsys, "d", parquet.Options{})
		if err != nil {
			return err
		}
		defer d.Close()
		dst := slots(d)
		for _, i := range []int{0, 69, 70, 139} {
			if err := d.Fetch(ctx, dataloader.At{Index: i % d.Len()}, dst); err != nil {
				return err
			}
			for k, f := range d.Fields() {
				got, want := fmt.Sprint(numbers(f, dst[k])), fmt.Sprint(flat(want[f.Name][i%d.Len()%(d.Len()/2)], f.Type, ""))
				if got != want {
					t.Errorf("%s row %d: got %s, want %s", f.Name, i, got, want)
				}
			}
		}
		return nil
	})
}
