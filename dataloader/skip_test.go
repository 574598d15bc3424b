package dataloader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
)

// damaged is a dataset of n samples of which some cannot be decoded.
func damaged(n int, bad ...int) *fake {
	return &fake{n: n, fetch: func(_ context.Context, at dataloader.At, dst [][]byte) error {
		if slices.Contains(bad, at.Index) {
			dst[0][0] = 77 // half of a sample
			return fmt.Errorf("picture: %w", &dataloader.FormatError{File: fmt.Sprintf("%d.jpg", at.Index), Offset: 12, What: "data", Want: "a picture", Got: "noise"})
		}
		return nil
	}}
}

func TestBadSamplesAreReplacedByTheSameOnesAlways(t *testing.T) {
	bad := []int{3, 50, 51, 99}
	var want []int
	for workers := 1; workers <= 4; workers += 3 {
		var text bytes.Buffer
		ds := damaged(100, bad...)
		s := must[*dataloader.Skipping](t)(dataloader.SkipBad(ds, dataloader.SkipOptions{Max: 4, Log: slog.New(slog.NewTextHandler(&text, nil))}))
		l := open(t, s, dataloader.Options{Batch: 7, Workers: workers})
		for epoch := range 2 {
			got, err := drain(t, l, epoch, slots(s, 3, 7))
			if err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want = got.IDs
			}
			if !slices.Equal(got.IDs, want) {
				t.Errorf("%d workers, epoch %d: samples %v, want %v", workers, epoch, got.IDs, want)
			}
			for i, id := range got.IDs {
				if slices.Contains(bad, i) && slices.Contains(bad, id) || !slices.Contains(bad, i) && id != i {
					t.Errorf("position %d has sample %d", i, id)
				}
			}
		}
		var found []int
		for _, b := range s.Skipped() {
			found = append(found, b.Index)
			if !errors.Is(b.Err, dataloader.ErrFormat) {
				t.Errorf("sample %d: %v", b.Index, b.Err)
			}
		}
		if log := text.String(); !slices.Equal(found, bad) || strings.Count(log, "bad sample") != 4 || !strings.Contains(log, "file=50.jpg offset=12") {
			t.Errorf("found %v, logged %s", found, log)
		}
		dst := memoryOf(s)
		if a := testing.AllocsPerRun(100, func() { _ = s.Fetch(t.Context(), dataloader.At{Index: 50}, dst) }); a != 0 {
			t.Errorf("Fetch of a replacement allocates %v times", a)
		}
	}
}

func TestTooManyBadSamplesAndOtherErrorsEndTheEpoch(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	fetchAll := func(ds dataloader.Dataset, opt dataloader.SkipOptions) (err error) {
		opt.Log = quiet
		s := must[*dataloader.Skipping](t)(dataloader.SkipBad(ds, opt))
		dst := memoryOf(s)
		for i := 0; i < s.Len() && err == nil; i++ {
			err = s.Fetch(t.Context(), dataloader.At{Index: i}, dst)
		}
		return err
	}
	var format *dataloader.FormatError
	if err := fetchAll(damaged(100, 3, 50, 51), dataloader.SkipOptions{Max: 2}); !errors.Is(err, dataloader.ErrBadSamples) || !errors.As(err, &format) || !strings.Contains(err.Error(), "after 2 others") {
		t.Errorf("3 of at most 2: %v", err)
	}
	if err := fetchAll(damaged(100, 3, 50, 51), dataloader.SkipOptions{Share: 0.03}); err != nil {
		t.Errorf("3 of 3 %%: %v", err)
	}
	if err := fetchAll(damaged(100, 3, 50), dataloader.SkipOptions{}); !errors.Is(err, dataloader.ErrBadSamples) {
		t.Errorf("2 of 1 %%: %v", err)
	}
	if err := fetchAll(damaged(3, 0, 1, 2), dataloader.SkipOptions{Max: 3}); !errors.Is(err, dataloader.ErrBadSamples) || !strings.Contains(err.Error(), "in its place; others tried: 2: ") {
		t.Errorf("all are bad: %v", err)
	}
	if err := fetchAll(damaged(1, 0), dataloader.SkipOptions{}); !errors.Is(err, dataloader.ErrBadSamples) || !strings.Contains(err.Error(), "sample 0 is bad, and there is no other to replace it") {
		t.Errorf("the only one is bad: %v", err)
	}
	for _, cause := range []error{
		errors.New("of the network"), context.Canceled, &fs.PathError{Op: "read", Path: "x", Err: fs.ErrInvalid},
		&dataloader.FormatError{File: "x", Err: fs.ErrNotExist}, &dataloader.FormatError{File: "x", Err: context.DeadlineExceeded},
	} {
		ds := &fake{n: 10, fetch: func(context.Context, dataloader.At, [][]byte) error { return cause }}
		if err := fetchAll(ds, dataloader.SkipOptions{Max: 9}); !errors.Is(err, cause) || errors.Is(err, dataloader.ErrBadSamples) {
			t.Errorf("%v: got %v", cause, err)
		}
	}
	for _, opt := range []dataloader.SkipOptions{{Max: -1}, {Share: 2}, {Share: -1}} {
		if _, err := dataloader.SkipBad(damaged(9), opt); !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("%+v: %v", opt, err)
		}
	}
}

func TestTheReplacementIsOfTheSameBlock(t *testing.T) {
	src := newDecoded(10, 10, 10)
	src.fetch = damaged(30, 15).fetch
	s := must[*dataloader.Skipping](t)(dataloader.SkipBad(fromBlocks(t, src, 2), dataloader.SkipOptions{Log: slog.New(slog.DiscardHandler)}))
	got := ids(t, s)
	if x := got[15]; x < 10 || x >= 20 || x == 15 {
		t.Errorf("sample 15 is replaced by %d", x)
	}
}

func TestScanListsTheBadSamplesAndWithoutLeavesThemOut(t *testing.T) {
	bad := []int{0, 3, 64, 65, 199}
	ds := damaged(200, bad...)
	for _, workers := range []int{1, 4} {
		found, err := dataloader.Scan(t.Context(), ds, dataloader.ScanOptions{PassOptions: dataloader.PassOptions{Workers: workers}})
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, b := range found {
			got = append(got, b.Index)
			if !strings.Contains(b.Err.Error(), fmt.Sprintf("%d.jpg", b.Index)) {
				t.Errorf("sample %d: %v", b.Index, b.Err)
			}
		}
		if !slices.Equal(got, bad) {
			t.Errorf("%d workers found %v", workers, got)
		}
		good := must[dataloader.Dataset](t)(dataloader.Without(ds, found))
		if all := ids(t, good); len(all) != 195 || slices.ContainsFunc(all, func(i int) bool { return slices.Contains(bad, i) }) {
			t.Errorf("without them: %v", all)
		}
	}
	some, err := dataloader.Scan(t.Context(), ds, dataloader.ScanOptions{Max: 3})
	if err == nil || len(some) != 3 || some[2].Index != 64 || !errors.Is(err, dataloader.ErrFormat) {
		t.Errorf("at most 3: %v, %v", some, err)
	}
	for most := 4; most <= 5; most++ {
		if all, err := dataloader.Scan(t.Context(), ds, dataloader.ScanOptions{Max: most}); (err != nil) != (most == 4) || len(all) != most {
			t.Errorf("at most %d of 5: %v, %v", most, all, err)
		}
	}
	cause := errors.New("of the network")
	ds.fetch = func(_ context.Context, at dataloader.At, _ [][]byte) error {
		if at.Index == 150 {
			return cause
		}
		return nil
	}
	if _, err := dataloader.Scan(t.Context(), ds, dataloader.ScanOptions{}); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	if _, err := dataloader.Without(damaged(2), []dataloader.BadSample{{Index: 0}, {Index: 1}}); !errors.Is(err, dataloader.ErrEmpty) {
		t.Errorf("none is left: %v", err)
	}
}
