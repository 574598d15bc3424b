package csv_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/csv"
)

// badRecords is records of which some are bad: their lines and what is wrong with them.
const badRecords = "a,b,k\n" +
	"1,2,x\n" +
	"3,four,y\n" + // line 3
	"5,6,x\n" +
	"7,8\n" + // 5: too few
	"9,10,y,z\n" + // 6: too many
	"11,\"1\n2\",x\n" + // 7: a number over two lines
	"13,1\"4\n5\",y\n" + // 9: quotes within a value, which keep two lines together
	"15,16,w\n" + // 11: no class
	",18,x\n" + // 12: missing
	"19,20,y\n"

// A bad value makes only its record bad, with the line and the column in the error.
func TestABadValueIsTheErrorOfItsRecord(t *testing.T) {
	opt := csv.Options{Held: 1, Fields: []csv.Field{{Name: "ab", Columns: []string{"a", "b"}}, {Name: "k", Classes: []string{"x", "y"}}}}
	ds, err := parse("t.csv", badRecords, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer ds.Close()
	wrong := map[int]string{
		1: `value of column "b" in line 3`, 3: "record in line 5", 4: "record in line 6", 5: `value of column "b" in line 7`,
		6: "quote in line 9", 7: `value of column "k" in line 11`, 8: `value of column "a" in line 12`,
	}
	good := map[int]string{0: "[1 2] [0]", 2: "[5 6] [0]", 9: "[19 20] [1]"}
	if ds.Len() != len(wrong)+len(good) {
		t.Fatalf("%d records, want %d", ds.Len(), len(wrong)+len(good))
	}
	ab, k := make([]byte, 8), make([]byte, 4)
	for i := range ds.Len() {
		err := ds.Fetch(t.Context(), dataloader.At{Index: i}, [][]byte{ab, k})
		var f *dataloader.FormatError
		if want := wrong[i]; want != "" {
			if !errors.As(err, &f) || f.File != "t.csv" || !strings.HasSuffix(f.What, want) || !dataloader.IsBad(err) {
				t.Errorf("record %d: got %v, want %q", i, err, want)
			}
		} else if got := fmt.Sprint(dataloader.View[float32](ab), dataloader.View[int32](k)); err != nil || got != good[i] {
			t.Errorf("record %d: got %s, %v, want %s", i, got, err, good[i])
		}
	}
	skipping, err := dataloader.SkipBad(ds, dataloader.SkipOptions{Max: 7, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	rows(t, skipping)
	if n := len(skipping.Skipped()); n != len(wrong) {
		t.Errorf("%d records are skipped, want %d", n, len(wrong))
	}
	opt.Held = 0
	if _, err := parse("t.csv", badRecords, opt); err == nil || !strings.Contains(err.Error(), wrong[1]) {
		t.Errorf("in memory: got %v, want %q when the file is opened", err, wrong[1])
	}
}

// The texts of good records stay theirs if others between them are bad.
func TestTextsOfABadRecordAreLeftOut(t *testing.T) {
	ds, err := parse("t.csv", "t,x\naa,1\nbb,no\ncc,3\n", csv.Options{Held: 1, Fields: []csv.Field{{Name: "t", Decoder: collect{}}, {Name: "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer ds.Close()
	for i, want := range []string{"aa", "", "cc"} {
		dst := [][]byte{make([]byte, 64), make([]byte, 4)}
		if err := ds.Fetch(t.Context(), dataloader.At{Index: i}, dst); (err == nil) != (want != "") || err == nil && string(dst[0][:2]) != want {
			t.Errorf("record %d: got %q, %v, want %q", i, dst[0], err, want)
		}
	}
}

// A file of another kind is not one error for each of its lines.
func TestTooManyBadRecordsAreOneError(t *testing.T) {
	for n, whole := range map[int]bool{1024 + 125: false, 1024 + 126: true} { // 1,024 and a sixteenth of 2,000 may be bad
		ds, err := parse("t.csv", "x\n"+strings.Repeat("no\n", n)+strings.Repeat("1\n", 2000-n), csv.Options{Held: 1, Fields: []csv.Field{{Name: "x"}}})
		if err != nil {
			t.Fatal(err)
		}
		err = ds.Fetch(t.Context(), dataloader.At{Index: 1999}, [][]byte{make([]byte, 4)})
		if (err != nil) != whole || whole && !strings.Contains(err.Error(), "more than 1149 of 2000 rows are bad, the first: t.csv: value of column \"x\" in line 2 at") {
			t.Errorf("%d bad records of 2,000: got %v", n, err)
		}
		ds.Close()
	}
}
