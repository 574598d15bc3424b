package tabletest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/float16"
)

// Expect returns the columns of a table in testdata/expect.json, by name and row.
func Expect(t testing.TB, name string) map[string][]any {
	t.Helper()
	f, err := os.Open("testdata/expect.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := json.NewDecoder(f)
	d.UseNumber()
	var all map[string]map[string][]any
	if err := d.Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all[name]
}

// Column returns the expected values of a column of whole numbers.
func Column(values ...int) (column []any) {
	for _, v := range values {
		column = append(column, json.Number(fmt.Sprint(v)))
	}
	return column
}

// Numbers returns the elements of a field as decimal text, exactly.
func Numbers(f dataloader.Field, b []byte) []string {
	var s []string
	for i := 0; i < len(b); i += int(f.Type.Size()) {
		switch f.Type {
		case arena.Uint8:
			s = append(s, fmt.Sprint(b[i]))
		case arena.Int32:
			s = append(s, fmt.Sprint(int32(binary.NativeEndian.Uint32(b[i:]))))
		case arena.Int64:
			s = append(s, fmt.Sprint(int64(binary.NativeEndian.Uint64(b[i:]))))
		case arena.Float16:
			s = append(s, fmt.Sprint(float64(float16.FromFloat16(binary.NativeEndian.Uint16(b[i:])))))
		case arena.Float32:
			s = append(s, fmt.Sprint(float64(math.Float32frombits(binary.NativeEndian.Uint32(b[i:])))))
		case arena.Float64:
			s = append(s, fmt.Sprint(math.Float64frombits(binary.NativeEndian.Uint64(b[i:]))))
		}
	}
	return s
}

// flat returns the numbers of an expected value, which may be nested lists, in the same form. A
// null is fill.
func flat(v any, t arena.DType, fill string) []string {
	switch v := v.(type) {
	case []any:
		var s []string
		for _, x := range v {
			s = append(s, flat(x, t, fill)...)
		}
		return s
	case bool:
		if v {
			return []string{"1"}
		}
		return []string{"0"}
	case nil:
		return []string{fill}
	}
	n := v.(json.Number)
	if t == arena.Float16 || t.Float() {
		x, _ := n.Float64()
		return []string{fmt.Sprint(x)}
	}
	return []string{n.String()}
}

// Compare compares all rows of d with the columns want, in which a null is fill.
func Compare(t *testing.T, d dataloader.Dataset, want map[string][]any, fill string) {
	t.Helper()
	for k, f := range d.Fields() {
		column := want[f.Name]
		if len(column) != d.Len() {
			t.Errorf("%s: %d rows, want %d", f.Name, d.Len(), len(column))
			continue
		}
		for i := range column {
			if !equal(t, f, i, Fetch(t, d, i)[k], column[i], fill) {
				break
			}
		}
	}
}

// equal compares the value of field f in row i with what is expected.
func equal(t *testing.T, f dataloader.Field, i int, b []byte, want any, fill string) bool {
	t.Helper()
	got, text := fmt.Sprint(Numbers(f, b)), fmt.Sprint(flat(want, f.Type, fill))
	if got != text {
		t.Errorf("%s row %d: got %s, want %s", f.Name, i, got, text)
	}
	return got == text
}
