package tabletest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/storage/storagetest"
)

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

// Epochs tests that a shuffled epoch of d, which has one field of int64, is the same for all numbers
// of workers, has each row once, and has another order than the file and than the next epoch.
func Epochs(t *testing.T, d dataloader.Dataset) {
	t.Helper()
	var want []byte
	for i := range d.Len() {
		want = append(want, Fetch(t, d, i)[0]...)
	}
	one := epoch(t, d, 1, 0)
	for _, workers := range []int{2, 8} {
		if !bytes.Equal(one, epoch(t, d, workers, 0)) {
			t.Errorf("%d workers read another epoch than 1", workers)
		}
	}
	if bytes.Equal(one, want) || bytes.Equal(one, epoch(t, d, 2, 1)) {
		t.Error("the order is that of the file, or of another epoch")
	}
	got := slices.Sorted(slices.Values(slices.Clone(dataloader.View[int64](one))))
	if !slices.Equal(got, slices.Sorted(slices.Values(slices.Clone(dataloader.View[int64](want))))) {
		t.Error("the epoch has other rows than the file")
	}
}

// AtOnce tests that goroutines that fetch at once get the rows that one goroutine gets.
func AtOnce(t *testing.T, d dataloader.Dataset) {
	t.Helper()
	var want [][]byte
	for i := range d.Len() {
		want = append(want, bytes.Join(Fetch(t, d, i), nil))
	}
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			dst := Slots(d)
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

// Cancelled tests that a done context ends the first fetch of row i, and that the next one works.
func Cancelled(t *testing.T, d dataloader.Dataset, i int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := d.Fetch(ctx, dataloader.At{Index: i}, Slots(d)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	Fetch(t, d, i)
}

// Images tests the 12 rows of table "images" in d: images by Pixels, and labels, i mod 2 in row i.
func Images(t *testing.T, d dataloader.Dataset) {
	t.Helper()
	if err := dataloader.Check(d); err != nil || d.Len() != 12 || d.Fields()[0].Name != "image" {
		t.Fatalf("%d rows of %v: %v", d.Len(), d.Fields(), err)
	}
	want := Expect(t, "images")
	for _, i := range []int{0, 11, 5, 3, 7, 1, 2, 4, 6, 8, 9, 10} {
		var file []byte
		for _, x := range want["image"][i].([]any) {
			n, _ := x.(json.Number).Int64()
			file = append(file, byte(n))
		}
		image := make([]byte, 48)
		if err := (Pixels{}).Decode(dataloader.At{}, file, image); err != nil {
			t.Fatal(err)
		}
		if got := Fetch(t, d, i); !bytes.Equal(got[0], image) || Numbers(d.Fields()[1], got[1])[0] != fmt.Sprint(i%2) {
			t.Errorf("row %d differs", i)
		}
	}
}

// Distinct tests that the names, which may be patterns, have fingerprints of their own, whatever
// number of blocks is held. open opens a name.
func Distinct(t *testing.T, names []string, open func(name string, held int) dataloader.Dataset) {
	t.Helper()
	seen := map[uint64]string{}
	for _, name := range names {
		h := dataloader.Fingerprint(open(name, 0))
		if h != dataloader.Fingerprint(open(name, 2)) {
			t.Errorf("%s: two fingerprints", name)
		}
		if other, ok := seen[h]; ok {
			t.Errorf("%s and %s have one fingerprint", name, other)
		}
		seen[h] = name
	}
}

// Faults tests faults of the storage at every call that reads two files of table "lists", which is
// file. open opens all files of a folder.
func Faults(t *testing.T, file string, open func(ctx context.Context, fsys fs.FS, dir string) (Dataset, error)) {
	t.Helper()
	want := Expect(t, "lists")
	fsys := fstest.MapFS{"d/a-" + file: File(t, file), "d/b-" + file: File(t, file)}
	storagetest.Every(t, fsys, func(ctx context.Context, fsys fs.FS) error {
		d, err := open(ctx, fsys, "d")
		if err != nil {
			return err
		}
		defer d.Close()
		dst := Slots(d)
		for _, i := range []int{0, 69, 70, 139} {
			if err := d.Fetch(ctx, dataloader.At{Index: i % d.Len()}, dst); err != nil {
				return err
			}
			for k, f := range d.Fields() {
				equal(t, f, i, dst[k], want[f.Name][i%d.Len()%(d.Len()/2)], "")
			}
		}
		return nil
	})
}

// ReadAll reads the rows of d, of a damaged file, unless opening it returned err. It closes d and
// returns the first error, and fails unless that has a class.
func ReadAll(t testing.TB, d Dataset, err error) error {
	t.Helper()
	if err == nil {
		defer d.Close()
		dst := Slots(d)
		for i := 0; i < d.Len() && i < 2000 && err == nil; i++ {
			err = d.Fetch(context.Background(), dataloader.At{Index: i}, dst)
		}
	}
	for _, class := range []error{nil, dataloader.ErrFormat, dataloader.ErrField, dataloader.ErrOption, dataloader.ErrEmpty, io.ErrUnexpectedEOF} {
		if errors.Is(err, class) {
			return err
		}
	}
	t.Errorf("an error without a class: %v", err)
	return err
}
