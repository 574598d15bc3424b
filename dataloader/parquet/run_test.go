package parquet_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/tabletest"
	"github.com/evenkeel/evenkeel/dataloader/parquet"
	"github.com/evenkeel/evenkeel/dataloader/storage"
)

func TestAShuffledEpochIsTheSameForAllWorkersAndHasEachRowOnce(t *testing.T) {
	for _, held := range []int{1, 2, 0} {
		t.Run(fmt.Sprint("held ", held), func(t *testing.T) {
			tabletest.Epochs(t, open(t, "numbers-index.parquet", parquet.Options{Columns: []parquet.Column{{Name: "i64"}}, Held: held}))
		})
	}
}

func TestManyGoroutinesFetchAtOnce(t *testing.T) {
	tabletest.AtOnce(t, open(t, "numbers-zstd.parquet", parquet.Options{Held: 2}))
}

func TestAFetchOfADecodedRowAllocatesNothing(t *testing.T) {
	d := open(t, "numbers-dict.parquet", parquet.Options{})
	dst, i := tabletest.Slots(d), 0
	tabletest.Fetch(t, d, 0)
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
	dst := tabletest.Slots(d)
	pass := func() {
		for _, i := range []int{0, 64, 128} { // three row groups, one held
			if err := d.Fetch(t.Context(), dataloader.At{Index: i}, dst); err != nil {
				t.Fatal(err)
			}
		}
	}
	pass()
	n := tabletest.Allocated(pass) / 3
	t.Log(n)
	if n > 4<<10 { // a row group has 12 columns and 3.5 KB
		t.Errorf("%d bytes of garbage for a row group", n)
	}
}

func TestADoneContextEndsADecode(t *testing.T) {
	tabletest.Cancelled(t, open(t, "numbers-plain.parquet", parquet.Options{}), 100)
}

func TestAFileThatShrinksAndAClosedDataset(t *testing.T) {
	path := t.TempDir() + "/x.parquet"
	if err := os.WriteFile(path, tabletest.File(t, "numbers-plain.parquet").Data, 0o600); err != nil {
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
	if err := d.Fetch(t.Context(), dataloader.At{}, tabletest.Slots(d)); !errors.Is(err, io.ErrUnexpectedEOF) || !errors.As(err, &read) || read.File != path {
		t.Errorf("a shorter file: got %v", err)
	}
	for range 2 {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := d.Fetch(t.Context(), dataloader.At{Index: 140}, tabletest.Slots(d)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: got %v", err)
	}
}

func TestFingerprints(t *testing.T) {
	t.Parallel()
	tabletest.Distinct(t, []string{"part-0.parquet", "part-1.parquet", "part-[01].parquet", "part-*.parquet", "other.parquet"}, func(name string, held int) dataloader.Dataset {
		return open(t, name, parquet.Options{Held: held})
	})
	a := open(t, "holes.parquet", parquet.Options{Columns: []parquet.Column{{Name: "n", Field: "x"}}})
	b := open(t, "holes.parquet", parquet.Options{Columns: []parquet.Column{{Name: "i", Field: "x"}}})
	if fmt.Sprint(dataloader.Fingerprint(a)) == fmt.Sprint(dataloader.Fingerprint(b)) {
		t.Error("two columns with one fingerprint")
	}
}

func TestFaultsOfTheStorageAtEveryCall(t *testing.T) {
	t.Parallel()
	tabletest.Faults(t, "lists.parquet", func(ctx context.Context, fsys fs.FS, dir string) (tabletest.Dataset, error) {
		return parquet.OpenContext(ctx, fsys, dir, parquet.Options{})
	})
}
