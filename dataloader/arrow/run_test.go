package arrow_test

import (
	"context"
	"fmt"
	"io/fs"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/arrow"
	"github.com/evenkeel/evenkeel/dataloader/internal/tabletest"
	"github.com/evenkeel/evenkeel/internal/cputest"
)

func TestAShuffledEpochIsTheSameForAllWorkersAndHasEachRowOnce(t *testing.T) {
	for held, name := range []string{"numbers-lz4.arrow", "numbers.arrow", "numbers-zstd.arrows"} {
		t.Run(name, func(t *testing.T) {
			tabletest.Epochs(t, open(t, name, arrow.Options{Columns: []arrow.Column{{Name: "i64"}}, Held: held}))
		})
	}
}

func TestManyGoroutinesFetchAtOnce(t *testing.T) {
	tabletest.AtOnce(t, open(t, "numbers-lz4.feather", arrow.Options{Held: 2}))
}

func TestADoneContextEndsADecode(t *testing.T) {
	tabletest.Cancelled(t, open(t, "numbers-zstd.arrow", arrow.Options{}), 50)
}

func TestFingerprints(t *testing.T) {
	t.Parallel()
	tabletest.Distinct(t, []string{"part-0.arrow", "part-1.arrow", "part-[01].arrow", "part-*.arrow", "other.arrow", "numbers-zstd.arrow"}, func(name string, held int) dataloader.Dataset {
		return open(t, name, arrow.Options{Held: held})
	})
	a := open(t, "holes.arrow", arrow.Options{Columns: []arrow.Column{{Name: "n", Field: "x"}}})
	b := open(t, "holes.arrow", arrow.Options{Columns: []arrow.Column{{Name: "flag", Field: "x"}}})
	if fmt.Sprint(dataloader.Fingerprint(a)) == fmt.Sprint(dataloader.Fingerprint(b)) {
		t.Error("two columns with one fingerprint")
	}
}

func TestDecodingARecordBatchReusesMemory(t *testing.T) {
	if cputest.Race {
		t.Skip("with the race detector a sync.Pool forgets some of what it gets: run without -race")
	}
	for name, most := range map[string]uint64{"numbers.arrow": 32 << 10, "numbers-lz4.arrow": 64 << 10, "numbers-zstd.arrow": 64 << 10} {
		d := open(t, name, arrow.Options{Held: 1, NoMapping: true})
		dst := tabletest.Slots(d)
		pass := func() {
			for _, i := range []int{0, 32, 64} { // three record batches, one held
				if err := d.Fetch(t.Context(), dataloader.At{Index: i}, dst); err != nil {
					t.Fatal(err)
				}
			}
		}
		pass()
		n := tabletest.Allocated(pass) / 3
		t.Log(name, n)
		if n > most { // a record batch has 12 columns and 1.4 KB
			t.Errorf("%s: %d bytes of garbage for a record batch", name, n)
		}
	}
}

func TestFaultsOfTheStorageAtEveryCall(t *testing.T) {
	t.Parallel()
	tabletest.Faults(t, "lists.arrow", func(ctx context.Context, fsys fs.FS, dir string) (tabletest.Dataset, error) {
		return arrow.OpenContext(ctx, fsys, dir, arrow.Options{})
	})
}
