package pack_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/pack"
)

// small returns a pack of 50 samples with an encoded field.
func small(t testing.TB) []byte {
	ds := &made{n: 50, failing: -1, fields: []dataloader.Field{{Name: "x", Type: arena.Int32, Shape: []int{2}},
		{Name: "jpg", Type: arena.Uint8, Shape: []int{3}}, {Name: "y", Type: arena.Uint8}}}
	return bytesOf(t, write(t, ds, pack.WriteOptions{Encoded: []string{"jpg"}}))
}

var decoders = map[string]dataloader.Decoder{"jpg": measure{}}

// read opens a pack of the given bytes, verifies it if asked to, and reads all samples, at most 100.
func read(t testing.TB, b []byte, opt pack.Options) error {
	p := filepath.Join(t.TempDir(), "a.pack")
	if err := os.WriteFile(p, b, 0o600); err != nil {
		t.Fatal(err)
	}
	opt.Decoders = decoders
	d, err := pack.Open(p, opt)
	if err != nil {
		return err
	}
	defer d.Close()
	dst := memory(d)
	for i := range min(d.Len(), 100) {
		if err := d.Fetch(t.Context(), dataloader.At{Index: i}, dst); err != nil {
			return err
		}
	}
	return nil
}

// described returns a pack whose description edit has changed, with a right checksum.
func described(t testing.TB, b []byte, edit func(d map[string]any)) []byte {
	n := binary.LittleEndian.Uint32(b[8:])
	d := map[string]any{}
	if err := json.Unmarshal(b[16:16+n], &d); err != nil {
		t.Fatal(err)
	}
	edit(d)
	text, err := json.Marshal(d)
	if err != nil || len(text) > int(n) {
		t.Fatal(len(text), n, err)
	}
	text = append(text, strings.Repeat(" ", int(n)-len(text))...)
	b = slices.Clone(b)
	copy(b[16:], text)
	binary.LittleEndian.PutUint32(b[12:], crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// Every number of the description that is wrong is an error of the format; none allocates or panics.
func TestADescriptionThatContradictsTheFileIsRefused(t *testing.T) {
	b := small(t)
	if err := read(t, described(t, b, func(map[string]any) {}), pack.Options{Verify: true}); err != nil {
		t.Fatal(err)
	}
	numbers := []any{0, -1, 1, 7, 4096, 1 << 40, int64(1 << 62), int64(-1 << 63), json.Number("9223372036854775807"), json.Number("1e30"), "text", nil}
	for _, name := range []string{"version", "count", "record", "records", "values", "valueBytes", "sums", "chunk"} {
		for _, n := range numbers {
			if name == "version" && n == 1 || name == "records" && n == 4096 {
				continue
			}
			mustRefuse(t, fmt.Sprintf("%s %v", name, n), read(t, described(t, b, func(d map[string]any) { d[name] = n }), pack.Options{}))
		}
	}
	for _, n := range []any{-1, 10, int64(1 << 50), 1.5} { // a value that is longer than the longest
		mustRefuse(t, fmt.Sprintf("longest %v", n), read(t, described(t, b, func(d map[string]any) { d["longest"] = n }), pack.Options{}))
	}
	field := func(d map[string]any, k int) map[string]any { return d["fields"].([]any)[k].(map[string]any) }
	for name, edit := range map[string]func(d map[string]any){
		"no fields":        func(d map[string]any) { d["fields"] = []any{} },
		"unknown member":   func(d map[string]any) { d["extra"] = 1 },
		"unknown type":     func(d map[string]any) { field(d, 0)["type"] = "int33" },
		"dtype(255)":       func(d map[string]any) { field(d, 0)["type"] = "dtype(255)" },
		"negative shape":   func(d map[string]any) { field(d, 0)["shape"] = []int{-2} },
		"zero shape":       func(d map[string]any) { field(d, 0)["shape"] = []int{0} },
		"overflow":         func(d map[string]any) { field(d, 0)["shape"] = []int{1 << 40, 1 << 40} },
		"large record":     func(d map[string]any) { field(d, 0)["shape"] = []int{1 << 30} },
		"other shape":      func(d map[string]any) { field(d, 0)["shape"] = []int{5} },
		"other offset":     func(d map[string]any) { field(d, 2)["offset"] = 25 },
		"negative offset":  func(d map[string]any) { field(d, 0)["offset"] = -8 },
		"same name":        func(d map[string]any) { field(d, 2)["name"] = "x" },
		"no name":          func(d map[string]any) { field(d, 2)["name"] = "" },
		"nothing encoded":  func(d map[string]any) { field(d, 1)["type"], field(d, 1)["shape"] = "int64", []int{2} },
		"large scale":      func(d map[string]any) { field(d, 0)["scale"] = json.Number("1e999") },
		"other fields":     func(d map[string]any) { maps.Copy(field(d, 0), map[string]any{"dtype": "int32"}) },
		"more values":      func(d map[string]any) { d["valueBytes"] = int64(1 << 61) },
		"values elsewhere": func(d map[string]any) { d["values"] = d["records"] },
	} {
		mustRefuse(t, name, read(t, described(t, b, edit), pack.Options{}))
	}
	if err := read(t, described(t, b, func(d map[string]any) { d["fingerprint"] = "0" }), pack.Options{Verify: true}); !errors.Is(err, dataloader.ErrFormat) {
		t.Errorf("another fingerprint: got %v", err)
	}
}

// mustRefuse fails the test unless err is a *FormatError that names the file.
func mustRefuse(t testing.TB, name string, err error) {
	t.Helper()
	var e *dataloader.FormatError
	if !errors.As(err, &e) || !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), "a.pack") {
		t.Errorf("%s: got %v, want a *FormatError", name, err)
	}
}

// A file of any other length is refused, without reading samples.
func TestAFileOfAnotherLengthIsRefused(t *testing.T) {
	b := small(t)
	for _, n := range []int{0, 1, 8, 15, 16, 17, 300, 4095, 4096, len(b) / 2, len(b) - 4, len(b) - 1} {
		err := read(t, b[:n], pack.Options{})
		mustRefuse(t, fmt.Sprintf("%d bytes", n), err)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes: got %v, want io.ErrUnexpectedEOF", n, err)
		}
	}
	mustRefuse(t, "one byte more", read(t, append(slices.Clone(b), 0), pack.Options{}))
}

// Any flipped bit of the header, of the samples and of the checksums is found by Verify.
func TestFlippedBitsAreFound(t *testing.T) {
	b := small(t)
	r := random(t)
	n := int(binary.LittleEndian.Uint32(b[8:]))
	for i := range 300 {
		at := r.IntN(len(b))
		if i < 16 {
			at = i
		}
		if at >= 16+n && at < 4096 { // between the parts
			continue
		}
		flipped := slices.Clone(b)
		flipped[at] ^= 1 << r.IntN(8)
		mustRefuse(t, fmt.Sprintf("byte %d", at), read(t, flipped, pack.Options{Verify: true}))
	}
}

// The place of an encoded value must lie in the part of the values, whatever the numbers.
func TestPlacesOfValuesAreChecked(t *testing.T) {
	b := small(t)
	for _, c := range []struct{ off, n uint64 }{
		{0, 10}, {4095, 1}, {1 << 63, 1}, {^uint64(0), 2}, {^uint64(0) - 1, ^uint64(0)}, {uint64(len(b)), 1}, {uint64(len(b)) - 300, 2000}, {5000, 1 << 40}, {10000, ^uint64(0)},
	} {
		bad := slices.Clone(b)
		entry := bad[4096+2*32+8:] // sample 2: two int32, then the place
		binary.LittleEndian.PutUint64(entry, c.off)
		binary.LittleEndian.PutUint64(entry[8:], c.n)
		err := read(t, bad, pack.Options{})
		mustRefuse(t, fmt.Sprintf("%d bytes at %d", c.n, c.off), err)
		if e := new(dataloader.FormatError); !errors.As(err, &e) || e.Offset != 4096+2*32+8 || !strings.Contains(e.What, `"jpg" of sample 2`) {
			t.Errorf("got %v, want the place of the entry", err)
		}
	}
}

func TestLongValuesNeedAnOption(t *testing.T) {
	b := small(t)
	mustRefuse(t, "limit", read(t, b, pack.Options{MaxValue: 100}))
	if err := read(t, b, pack.Options{MaxValue: 3000}); err != nil {
		t.Error(err)
	}
}

// A file that shrinks while it is open is an error of each read, mapped or not.
func TestAFileThatShrinksIsAnError(t *testing.T) {
	for _, mapped := range []bool{false, true} {
		if mapped && runtime.GOOS == "windows" { // which keeps a mapped file as long as it is
			continue
		}
		ds := &made{n: 200, fields: []dataloader.Field{{Name: "x", Type: arena.Uint8, Shape: []int{4096}}}, failing: -1}
		p := write(t, ds, pack.WriteOptions{})
		d := open(t, p, pack.Options{Mapped: mapped})
		if err := os.Truncate(p, 20*4096); err != nil {
			t.Fatal(err)
		}
		if err := d.Fetch(t.Context(), dataloader.At{Index: 150}, memory(d)); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("mapped %v: got %v, want io.ErrUnexpectedEOF", mapped, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	b := small(f)
	f.Add(b)
	f.Add(b[:len(b)/2])
	f.Add(described(f, b, func(d map[string]any) { d["count"] = 49 }))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= 16 { // most inputs should get beyond the checksum
			if n := int(binary.LittleEndian.Uint32(b[8:])); n <= len(b)-16 {
				b = slices.Clone(b)
				binary.LittleEndian.PutUint32(b[12:], crc32.Checksum(b[16:16+n], crc32.MakeTable(crc32.Castagnoli)))
			}
		}
		if err := read(t, b, pack.Options{Verify: len(b)%2 == 0}); err != nil && !errors.Is(err, dataloader.ErrFormat) && !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("got %v", err)
		}
	})
}
