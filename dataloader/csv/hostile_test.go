package csv_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/csv"
)

// fetchAll reads all samples, and returns the first error.
func fetchAll(ds dataloader.Dataset) error {
	var dst [][]byte
	for _, f := range ds.Fields() {
		dst = append(dst, make([]byte, f.Bytes()))
	}
	for i := range ds.Len() {
		if err := ds.Fetch(context.Background(), dataloader.At{Index: i}, dst); err != nil {
			return err
		}
	}
	return nil
}

// Lines with fewer values than the header must not cost the memory of records.
func TestRaggedLinesCostNoMemory(t *testing.T) {
	const columns = 100_000
	var names strings.Builder
	var all []string
	for i := range columns {
		all = append(all, fmt.Sprint(i))
	}
	names.WriteString(strings.Join(all, ",") + "\n" + strings.Repeat("1\n", 400_000))
	for _, held := range []int{0, 1} {
		ds, err := parse("a.csv", names.String(), csv.Options{Held: held, Memory: 1 << 62, Fields: []csv.Field{{Name: "x", Columns: all}}})
		if err == nil {
			err = fetchAll(ds)
			ds.Close()
		}
		var format *dataloader.FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), "record in line 2") {
			t.Errorf("held %d: got %v, want a FormatError for line 2", held, err)
		}
	}
}

func TestManyColumns(t *testing.T) {
	const n = 400_000
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint(i))
	}
	text := strings.Repeat("7,", n-1) + "8\n"
	ds, err := parse("a.csv", text, csv.Options{NoHeader: true, Fields: []csv.Field{{Name: "x", Columns: all}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := rows(t, ds)[0]; len(got) != n || got[0] != 7 || got[n-1] != 8 {
		t.Errorf("got %d values", len(got))
	}
	ds.Close()
	if _, err := parse("a.csv", text, csv.Options{NoHeader: true}); !errors.Is(err, dataloader.ErrOption) {
		t.Errorf("a field for each of many columns: got %v, want ErrOption", err)
	}
	if _, err := parse("a.csv", strings.Repeat(",", n)+"\n1", csv.Options{}); err == nil || len(err.Error()) > 10_000 {
		t.Errorf("many columns without a name: want a short error, got %.300v", err)
	}
	wide := strings.TrimSuffix(strings.Repeat("7,", 10_000), ",")
	if ds, err = parse("a.csv", wide, csv.Options{NoHeader: true}); err != nil || len(ds.Fields()) != 10_000 {
		t.Errorf("10,000 fields: %v", err)
	}
}

func TestCommentsThatContradict(t *testing.T) {
	for name, comment := range map[string]byte{"a.csv": ',', "a.tsv": '\t'} {
		if _, err := parse(name, "x\n1\n", csv.Options{Comment: comment}); !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("%s: comment %q is the comma: got %v", name, comment, err)
		}
	}
	if _, err := parse("a.csv", "x\n1\n", csv.Options{Comment: '\t'}); err != nil {
		t.Error(err)
	}
}

// A quote in a comment does not hide the kind of line ends.
func TestACommentWithAQuoteBeforeTheHeader(t *testing.T) {
	ds, err := parse("a.csv", "# 12\" wide\rx,y\r1,2\r3,4\r", csv.Options{Comment: '#'})
	if err != nil {
		t.Fatal(err)
	}
	if got := rows(t, ds); !equal(got, [][]float64{{1, 2}, {3, 4}}) {
		t.Errorf("got %v", got)
	}
}

func TestAColumnGivesTheClassesOfSeveralFields(t *testing.T) {
	ds, err := parse("a.csv", "k\nb\na\n", csv.Options{Fields: []csv.Field{
		{Name: "one", Columns: []string{"k"}, FindClasses: true}, {Name: "two", Columns: []string{"k"}, Type: arena.Uint8, FindClasses: true}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := rows(t, ds); !equal(got, [][]float64{{1, 1}, {0, 0}}) || !slices.Equal(ds.Classes("one"), []string{"a", "b"}) || !slices.Equal(ds.Classes("two"), []string{"a", "b"}) {
		t.Errorf("got %v, classes %q and %q", got, ds.Classes("one"), ds.Classes("two"))
	}
}

func TestTextsOfFoundClassesAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("k\n")
	for i := range 40 {
		fmt.Fprintf(&b, "%d%s\n", i, strings.Repeat("x", 1<<19))
	}
	_, err := parse("a.csv", b.String(), csv.Options{Fields: []csv.Field{{Name: "k", FindClasses: true}}})
	if !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), "16777216 bytes") {
		t.Errorf("20 MiB of texts: got %v", err)
	}
}

func TestAZeroByteInTheHeader(t *testing.T) {
	if _, err := parse("a.csv", "x\x00,y\n1,2\n", csv.Options{}); !errors.Is(err, dataloader.ErrFormat) {
		t.Errorf("got %v", err)
	}
}

func TestAFileThatChangesIsAnError(t *testing.T) {
	fill := 7.0
	path := filepath.Join(t.TempDir(), "a.csv")
	for _, f := range []csv.Field{{Name: "x", Fill: &fill}, {Name: "x", Decoder: lengths{}}} {
		for _, after := range []string{"x\n1\n\n\n", "x\n1\n2,", "x\n1,2\n", "x\n\"\n\n\"", "x\n1\n\r\n", "x\n1"} {
			if err := os.WriteFile(path, []byte("x\n1\n2\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			ds, err := csv.Open(path, csv.Options{Held: 1, Fields: []csv.Field{f}})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(after), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := fetchAll(ds); err == nil {
				t.Errorf("%q after the scan: no error", after)
			}
			ds.Close()
		}
	}
}

func TestFingerprintsTellOptionsApart(t *testing.T) {
	one, two := 1.0, 2.0
	seen := map[uint64]csv.Options{}
	for _, opt := range []csv.Options{{}, {Missing: []string{"NA"}}, {Missing: []string{"N", "A"}}, {Comment: '#'}, {Fields: []csv.Field{{Name: "x", Fill: &one}}},
		{Fields: []csv.Field{{Name: "x", Fill: &two}}}, {Fields: []csv.Field{{Name: "x", Columns: []string{"y"}}}}} {
		ds, err := parse("a.csv", "x,y\n1,2\n", opt)
		if err != nil {
			t.Fatal(err)
		}
		if was, twice := seen[dataloader.Fingerprint(ds)]; twice {
			t.Errorf("%+v has the fingerprint of %+v", opt, was)
		}
		seen[dataloader.Fingerprint(ds)] = opt
	}
}

// sizes is a Decoder that stores the length of a text.
type sizes struct{}

func (sizes) Field(name string) dataloader.Field {
	return dataloader.Field{Name: name, Type: arena.Int32}
}

func (sizes) Decode(_ dataloader.At, encoded, dst []byte) error {
	binary.NativeEndian.PutUint32(dst, uint32(len(encoded)))
	return nil
}

// Records of all lengths around the end of a piece, with quotes across it.
func TestRecordsAtTheEndOfAPiece(t *testing.T) {
	const piece = 1 << 20
	for _, end := range []string{"\n", "\r\n", "\r"} {
		for shift := -5; shift <= 5; shift++ {
			head := "n,s" + end
			fill := "1," + strings.Repeat("a", 997) + end
			var b strings.Builder
			b.WriteString(head)
			want := [][]float64{}
			for b.Len() < piece-2000 {
				b.WriteString(fill)
				want = append(want, []float64{1, 997})
			}
			n := piece + shift - b.Len() - 2 - len(end)
			b.WriteString("2," + strings.Repeat("b", n) + end)
			want = append(want, []float64{2, float64(n)})
			b.WriteString("3,\"\"\"a" + end + "\"\"b" + end + "\"" + end + "4," + end)
			want = append(want, []float64{3, float64(4 + 2*len(end))}, []float64{4, 0})
			for _, held := range []int{0, 1} {
				ds, err := parse("a.csv", b.String(), csv.Options{Held: held, Fields: []csv.Field{{Name: "n"}, {Name: "s", Decoder: sizes{}}}})
				if err != nil {
					t.Fatalf("shift %d, end %q: %v", shift, end, err)
				}
				got := rows(t, ds)
				if !equal(got, want) {
					t.Errorf("shift %d, end %q, held %d: last records %v, want %v", shift, end, held, got[max(0, len(got)-3):], want[len(want)-3:])
				}
				ds.Close()
			}
		}
	}
}
