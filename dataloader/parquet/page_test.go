package parquet

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/values"
	"github.com/evenkeel/evenkeel/dataloader/storage"
	"github.com/evenkeel/evenkeel/dataloader/table"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

// pageLimit is Options.Limit of the tests of pages.
const pageLimit = 1 << 20

// thrift writes integers, with consecutive numbers of fields, as a structure of the compact
// protocol; -1 leaves a field out.
func thrift(values ...int64) []byte {
	var b []byte
	step := byte(1)
	for _, v := range values {
		if v < 0 {
			step++
			continue
		}
		b = append(b, step<<4|cInt64)
		b = binary.AppendUvarint(b, uint64(v)<<1)
		step = 1
	}
	return append(b, cStop)
}

// page returns a page: its header and body. levels are the sizes of the levels of version 2.
func page(kind int, uncompressed, values int64, encoding int, body []byte, levels ...int64) []byte {
	b := thrift(int64(kind), uncompressed, int64(len(body)))
	b = b[:len(b)-1]
	switch kind {
	case pageData:
		b = append(append(b, 2<<4|cStruct), thrift(values, int64(encoding), encodingRLE, encodingRLE)...)
	case pageDict:
		b = append(append(b, 4<<4|cStruct), thrift(values, int64(encoding))...)
	case pageDataV2:
		b = append(append(b, 5<<4|cStruct), thrift(values, 0, values, int64(encoding), levels[0], levels[1])...)
	}
	return append(append(b, cStop), body...)
}

// loaded loads a chunk with the given pages as rows of a column, and returns the bytes of the rows.
func loaded(l leaf, codec, rows int, pages ...[]byte) (data []byte, err error) {
	c := table.Column{Name: "x"}
	if l.typ.Bytes() == 0 {
		c.Decoder = first{}
	}
	g, err := table.NewTarget(0, c, l.typ)
	if err != nil {
		return nil, err
	}
	chunkBytes := bytes.Join(pages, nil)
	b := bytes.Join([][]byte{[]byte(magic), chunkBytes, make([]byte, tail)}, nil)
	f := &file{File: storage.Bytes("x", b), name: "x", size: int64(len(b))}
	f.groups = []rowGroup{{rows: int64(rows), chunks: []chunk{{codec: codec, data: 4, compressed: int64(len(chunkBytes))}}}}
	s := &source{limit: pageLimit}
	var buf table.Buffer
	buf.Reset(g, rows, pageLimit)
	r := &columnReader{}
	var bad values.Bad
	if err := r.loadSafely(context.Background(), place{f, 0}, 0, &column{Target: g, leaf: l, reps: repetitions(l.typ.Dims)}, s, rows, &buf, &bad); err != nil {
		return nil, err
	}
	row := make([]byte, g.Field.Bytes())
	for i := range rows {
		if err := bad.Row(i); err != nil {
			return data, err
		}
		if err := buf.Fetch(i, dataloader.At{}, row); err != nil {
			return nil, err
		}
		data = append(data, row...)
	}
	return data, nil
}

// first is a decoder that keeps the first byte.
type first struct{}

func (first) Field(name string) dataloader.Field { return dataloader.Field{Name: name, Type: 3} }
func (first) Decode(_ dataloader.At, encoded, dst []byte) error {
	copy(dst, encoded)
	return nil
}

// Columns of the tests.
var (
	int32s   = leaf{name: "x", physical: physicalInt32, typ: table.Type{Kind: table.Int32}}
	optional = leaf{name: "x", physical: physicalInt32, def: 1, typ: table.Type{Kind: table.Int32}}
	pairs    = leaf{name: "x", physical: physicalInt32, def: 1, repeats: []int{1}, typ: table.Type{Kind: table.Int32, Dims: []int{2}}}
	texts    = leaf{name: "x", physical: physicalBytes, typ: table.Type{Kind: table.Bytes}}
	flags    = leaf{name: "x", physical: physicalBool, typ: table.Type{Kind: table.Bool}}
)

func TestPages(t *testing.T) {
	t.Parallel()
	three := []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0}
	for _, c := range []struct {
		name  string
		leaf  leaf
		rows  int
		pages [][]byte
		want  string // the rows, or "!" and a part of the error
	}{
		{"plain", int32s, 3, [][]byte{page(pageData, 12, 3, 0, three)}, "[1 0 0 0 2 0 0 0 3 0 0 0]"},
		{"two pages", int32s, 3, [][]byte{page(pageData, 8, 2, 0, three[:8]), page(pageData, 4, 1, 0, three[8:])}, "[1 0 0 0 2 0 0 0 3 0 0 0]"},
		{"dictionary", int32s, 3, [][]byte{page(pageDict, 12, 3, 0, three), page(pageData, 3, 3, 8, []byte{2, 3 << 1, 1})}, "[2 0 0 0 2 0 0 0 2 0 0 0]"},
		{"one value in the dictionary", int32s, 3, [][]byte{page(pageDict, 4, 1, 0, three[:4]), page(pageData, 1, 3, 8, []byte{0})}, "[1 0 0 0 1 0 0 0 1 0 0 0]"},
		{"booleans", flags, 3, [][]byte{page(pageData, 1, 3, 0, []byte{5})}, "[1 0 1]"},
		{"booleans in runs", flags, 3, [][]byte{page(pageData, 6, 3, 3, []byte{2, 0, 0, 0, 3 << 1, 1})}, "[1 1 1]"},
		{"levels", optional, 2, [][]byte{page(pageData, 14, 2, 0, append([]byte{2, 0, 0, 0, 2 << 1, 1}, three[:8]...))}, "[1 0 0 0 2 0 0 0]"},
		{"levels of version 2", optional, 2, [][]byte{page(pageDataV2, 10, 2, 0, append([]byte{2 << 1, 1}, three[:8]...), 2, 0)}, "[1 0 0 0 2 0 0 0]"},
		{"lists", pairs, 1, [][]byte{page(pageDataV2, 12, 2, 0, append([]byte{3, 2, 2 << 1, 1}, three[:8]...), 2, 2)}, "[1 0 0 0 2 0 0 0]"},
		{"lists over two pages", pairs, 2, [][]byte{page(pageData, 24, 3, 0, append([]byte{2, 0, 0, 0, 3, 2, 2, 0, 0, 0, 3 << 1, 1}, three...)),
			page(pageData, 16, 1, 0, append([]byte{2, 0, 0, 0, 1 << 1, 1, 2, 0, 0, 0, 1 << 1, 1}, three[:4]...))}, "[1 0 0 0 2 0 0 0 3 0 0 0 1 0 0 0]"},
		{"texts", texts, 2, [][]byte{page(pageData, 10, 2, 0, []byte{1, 0, 0, 0, 'a', 1, 0, 0, 0, 'b'})}, "[97 98]"},

		{"too few rows", int32s, 4, [][]byte{page(pageData, 12, 3, 0, three)}, "!the end of the chunk after 3"},
		{"too many rows", int32s, 2, [][]byte{page(pageData, 12, 3, 0, three)}, "!at most 2"},
		{"fewer values than said", int32s, 4, [][]byte{page(pageData, 12, 4, 0, three)}, "!4 values of 4 bytes in 12 bytes"},
		{"null", optional, 2, [][]byte{page(pageDataV2, 6, 2, 0, append([]byte{3, 1}, three[:4]...), 2, 0)}, "!row 1 of the group"},
		{"a longer page than the chunk", int32s, 3, [][]byte{page(pageData, 12, 3, 0, three)[:20]}, "!the rest of the chunk"},
		{"2 GiB claimed", int32s, 3, [][]byte{page(pageData, 1<<31, 3, 0, three)}, "!Options.Limit"},
		{"other sizes", int32s, 3, [][]byte{page(pageData, 11, 3, 0, three)}, "!size of an uncompressed page"},
		{"no dictionary", int32s, 3, [][]byte{page(pageData, 3, 3, 8, []byte{2, 3 << 1, 1})}, "!dictionary that the chunk does not have"},
		{"two dictionaries", int32s, 3, [][]byte{page(pageDict, 12, 3, 0, three), page(pageDict, 12, 3, 0, three)}, "!second dictionary"},
		{"an index outside of the dictionary", int32s, 3, [][]byte{page(pageDict, 8, 2, 0, three[:8]), page(pageData, 3, 3, 8, []byte{2, 3 << 1, 2})}, "!index 2 of a dictionary of 2"},
		{"indices of 33 bits", int32s, 3, [][]byte{page(pageDict, 12, 3, 0, three), page(pageData, 7, 3, 8, []byte{33, 3 << 1, 1, 0, 0, 0, 0})}, "!33 bits"},
		{"a run of 2^31 indices", int32s, 3, [][]byte{page(pageDict, 12, 3, 0, three), page(pageData, 7, 3, 8, append(binary.AppendUvarint([]byte{2}, 1<<32), 1))}, "!a run of 2147483648 values where 3 are left"},
		{"a run of 2^31 levels", optional, 2, [][]byte{page(pageDataV2, 14, 2, 0, append(append(binary.AppendUvarint(nil, 1<<32), 1), three[:8]...), 6, 0)}, "!a run of"},
		{"a packed run of 2^40", optional, 2, [][]byte{page(pageDataV2, 15, 2, 0, append(append(binary.AppendUvarint(nil, 1<<41|1), 1), three[:8]...), 7, 0)}, "!a packed run"},
		{"levels beyond the page", optional, 2, [][]byte{page(pageDataV2, 14, 2, 0, three, 13, 0)}, "!bytes of levels in a page"},
		{"a level of 3", leaf{name: "x", physical: physicalInt32, def: 2, typ: table.Type{Kind: table.Int32}}, 2, [][]byte{page(pageDataV2, 10, 2, 0, append([]byte{2 << 1, 3}, three[:8]...), 2, 0)}, "!level 3: at most 2"},
		{"2^31 differences", int32s, 3, [][]byte{page(pageData, 12, 3, 5, append(binary.AppendUvarint([]byte{0x80, 1, 4}, 1<<31), 0, 0, 0, 0))}, "!2147483648 differences for 3 values"},
		{"differences in blocks of 0", int32s, 3, [][]byte{page(pageData, 5, 3, 5, []byte{0x80, 1, 0, 3, 0})}, "!in 0 parts"},
		{"a text beyond the page", texts, 2, [][]byte{page(pageData, 10, 2, 0, []byte{1, 0, 0, 0, 'a', 2, 0, 0, 0, 'b'})}, "!2 bytes where 1 are left"},
		{"a longer list", pairs, 1, [][]byte{page(pageDataV2, 16, 3, 0, append([]byte{3, 6, 3 << 1, 1}, three...), 2, 2)}, "!a longer row"},
		{"a list that starts within one", pairs, 1, [][]byte{page(pageDataV2, 12, 2, 0, append([]byte{3, 3, 2 << 1, 1}, three[:8]...), 2, 2)}, "!want the start of a row"},
		{"a shorter list in the end", pairs, 2, [][]byte{page(pageDataV2, 16, 3, 0, append([]byte{3, 2, 3 << 1, 1}, three...), 2, 2)}, "!row 1 of the group at byte 41: want lists of [2] values, got a row of 1"},
		{"a shorter list", pairs, 3, [][]byte{page(pageDataV2, 16, 3, 0, append([]byte{3, 0, 3 << 1, 1}, three...), 2, 2)}, "!got a row of 1"},
		{"an empty list", pairs, 2, [][]byte{page(pageDataV2, 12, 3, 0, append([]byte{3, 2, 3, 3}, three[:8]...), 2, 2)}, "!got an empty list"},
		{"one byte more than the chunk", int32s, 3, [][]byte{bytes.TrimSuffix(page(pageData, 13, 3, 0, append(three, 9)), []byte{9})}, "!the rest of the chunk"},
		{"an unknown page", int32s, 3, [][]byte{page(9, 12, 3, 0, three)}, "!kind of page"},
		{"an unknown encoding", int32s, 3, [][]byte{page(pageData, 12, 3, 77, three)}, "!encoding 77"},
		{"bytes split of another size", int32s, 3, [][]byte{page(pageData, 11, 3, 9, three[:11])}, "!BYTE_STREAM_SPLIT"},
		{"nested too deep", int32s, 3, [][]byte{bytes.Repeat([]byte{1<<4 | cStruct}, 1000)}, "!nested structures"},
		{"a list of 2^40", int32s, 3, [][]byte{append(binary.AppendUvarint([]byte{9<<4 | cList, 15<<4 | cStruct}, 1<<40), make([]byte, 100)...)}, "!ends within a value"},
	} {
		got, err := loaded(c.leaf, codecNone, c.rows, c.pages...)
		if part, bad := strings.CutPrefix(c.want, "!"); bad {
			var f *dataloader.FormatError
			if !errors.As(err, &f) || !strings.Contains(err.Error(), part) || f.File != "x" || f.Offset < 4 {
				t.Errorf("%s: got %v, want a FormatError with %q", c.name, err, part)
			}
		} else if err != nil || fmt.Sprint(got) != c.want {
			t.Errorf("%s: got %v, %v, want %s", c.name, got, err, c.want)
		}
	}
}

// packedZeros compresses n zeros.
func packedZeros(t *testing.T, codec, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch codec {
	case codecSnappy:
		return snappy.Encode(nil, make([]byte, n))
	case codecGzip:
		w = gzip.NewWriter(&b)
	case codecBrotli:
		w = brotli.NewWriter(&b)
	case codecZstd:
		w, _ = zstd.NewWriter(&b)
	case codecLZ4: // a literal and a match that repeats it
		b.Write([]byte{0x1f, 0, 1, 0})
		left := n - 1 - 5 - 4 - 15
		for ; left >= 255; left -= 255 {
			b.WriteByte(255)
		}
		b.Write([]byte{byte(left), 0x50, 0, 0, 0, 0, 0})
		return b.Bytes()
	}
	if _, err := w.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestCompressedPagesHaveTheSizeThatTheySay(t *testing.T) {
	for _, codec := range []int{codecSnappy, codecGzip, codecBrotli, codecZstd, codecLZ4} {
		const n = 100_000
		body := packedZeros(t, codec, n)
		if got, err := loaded(int32s, codec, n/4, page(pageData, n, n/4, 0, body)); err != nil || len(got) != n {
			t.Errorf("%s: %d bytes, %v", codecName(codec), len(got), err)
		}
		bomb := packedZeros(t, codec, 16<<20)
		for _, size := range []int64{100, 99_996, 200_000} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := loaded(int32s, codec, 25, page(pageData, size, 25, 0, bomb))
			runtime.ReadMemStats(&after)
			if !errors.Is(err, dataloader.ErrFormat) {
				t.Errorf("%s: 16 MiB in a page of %d bytes: got %v, want ErrFormat", codecName(codec), size, err)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
				t.Errorf("%s: 16 MiB in a page of %d bytes: %d bytes allocated", codecName(codec), size, n)
			}
		}
		for cut := range min(len(body), 40) {
			if _, err := loaded(int32s, codec, n/4, page(pageData, n, n/4, 0, body[:len(body)-1-cut])); !errors.Is(err, dataloader.ErrFormat) {
				t.Errorf("%s cut by %d: got %v, want ErrFormat", codecName(codec), cut+1, err)
			}
		}
	}
	if _, err := loaded(int32s, 3, 3, page(pageData, 12, 3, 0, make([]byte, 5))); err == nil || !strings.Contains(err.Error(), "LZO is not read") {
		t.Errorf("LZO: got %v", err)
	}
}

func FuzzPages(f *testing.F) {
	three := []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0}
	f.Add(byte(0), byte(0), byte(0), byte(3), three, three, byte(0))
	f.Add(byte(0), byte(8), byte(0), byte(3), three, []byte{2, 3 << 1, 1}, byte(0))
	f.Add(byte(1), byte(0), byte(3), byte(2), three, []byte{3, 1, 1, 0, 0, 0}, byte(2))
	f.Add(byte(2), byte(0), byte(3), byte(2), three, append([]byte{3, 2, 2 << 1, 1}, three...), byte(2))
	f.Add(byte(3), byte(6), byte(0), byte(2), three, []byte{0x80, 1, 4, 2, 2, 0, 0, 0, 0, 0, 'a', 'b'}, byte(0))
	f.Add(byte(0), byte(5), byte(0), byte(5), three, []byte{0x80, 1, 4, 5, 2, 2, 2, 2, 2, 2, 1, 2, 3, 4, 5, 6, 7, 8}, byte(0))
	f.Add(byte(4), byte(3), byte(0), byte(3), three, []byte{2, 0, 0, 0, 6, 1}, byte(0))
	f.Add(byte(5), byte(9), byte(0), byte(1), three, []byte{1, 2, 3, 4, 5, 6, 7, 8}, byte(0))
	int64s := leaf{name: "x", physical: physicalInt64, typ: table.Type{Kind: table.Int64}}
	wide := leaf{name: "x", physical: physicalFixed, length: 3, typ: table.Type{Kind: table.Fixed, Width: 3}}
	leaves := []leaf{int32s, optional, pairs, texts, flags, int64s, wide}
	f.Fuzz(func(t *testing.T, which, encoding, kind, rows byte, dict, body []byte, levelBytes byte) {
		l := leaves[int(which)%len(leaves)]
		kind = kind % 4
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for codec := range 8 {
			pages := [][]byte{page(int(kind), int64(len(body)), int64(rows), int(encoding%12), body, int64(levelBytes), int64(levelBytes))}
			if encoding == encodingRLEDict || encoding == encodingPlainDict {
				pages = append([][]byte{page(pageDict, int64(len(dict)), int64(len(dict)/4), 0, dict)}, pages...)
			}
			if _, err := loaded(l, codec, int(rows), pages...); err != nil && !errors.Is(err, dataloader.ErrFormat) {
				t.Errorf("an error without a class: %v", err)
			}
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20+uint64(1000*(len(body)+len(dict))) {
			t.Errorf("%d bytes allocated for a page of %d", n, len(body))
		}
	})
}

func TestRuns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		src      []byte
		width, n int
		want     int // values in all, or -1
	}{
		{[]byte{3 << 1, 1}, 2, 3, 3}, {[]byte{4 << 1, 1}, 2, 3, -1}, {[]byte{3 << 1}, 2, 3, -1}, {[]byte{3 << 1}, 0, 3, 3}, {[]byte{2 << 1, 1}, 2, 3, -1},
		{[]byte{1<<1 | 1, 1, 2}, 2, 3, 8}, {[]byte{1<<1 | 1, 1}, 2, 3, -1}, {[]byte{1<<1 | 1, 1, 2, 2 << 1, 7}, 2, 10, 10}, {nil, 1, 0, 0}, {nil, 1, 1, -1},
		{append(binary.AppendUvarint(nil, 64<<1|1), make([]byte, 64)...), 1, 1, 512}, {append(binary.AppendUvarint(nil, 65<<1|1), make([]byte, 65)...), 1, 1, -1},
	} {
		part, all, err := runs(c.src, c.width, c.n)
		if err != nil {
			all = -1
		}
		if all != c.want || err == nil && len(part) != len(c.src) {
			t.Errorf("runs(%v, %d, %d): got %d of %d bytes, %v, want %d", c.src, c.width, c.n, all, len(part), err, c.want)
		}
	}
}

func TestASizeThatCompressedBytesCannotHaveIsNotBelieved(t *testing.T) {
	t.Parallel()
	for codec, most := range map[int]int64{codecSnappy: 22*10 + 64, codecGzip: 10320, codecLZ4: 2614} {
		_, err := loaded(int32s, codec, 25, page(pageData, most+1, 25, 0, make([]byte, 10)))
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("want at most %d bytes from 10", most)) {
			t.Errorf("%s: got %v", codecName(codec), err)
		}
		if _, err = loaded(int32s, codec, 25, page(pageData, most, 25, 0, make([]byte, 10))); err == nil || strings.Contains(err.Error(), "at most") {
			t.Errorf("%s: got %v", codecName(codec), err)
		}
	}
}

func TestAPanicIsAnError(t *testing.T) {
	t.Parallel()
	f := &file{name: "x", size: 100, groups: []rowGroup{{chunks: []chunk{{data: 4}}}}}
	r := &columnReader{}
	err := r.loadSafely(t.Context(), place{f, 0}, 0, &column{leaf: int32s}, &source{}, 1, nil, nil)
	if !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), "nil pointer") {
		t.Errorf("got %v, want ErrFormat", err)
	}
}

func TestFooters(t *testing.T) {
	t.Parallel()
	end := func(n uint32, magic string) []byte { return append(binary.LittleEndian.AppendUint32(nil, n), magic...) }
	for _, c := range []struct {
		file []byte
		want string
	}{
		{[]byte("PAR1"), "12 bytes or more"},
		{append([]byte("PAR1"), end(0, "PAR2")...), "the file is cut"},
		{append([]byte("PARE"), end(0, "PARE")...), "encrypted"},
		{append([]byte("PAR1"), end(1, magic)...), "at most 0 bytes"},
		{append([]byte("PAR1"), end(1<<32-1, magic)...), "at most 0 bytes"},
		{append([]byte("PAR1"), end(0, magic)...), ""},
	} {
		_, err := readFooter("x", int64(len(c.file)), func(p []byte, off int64) error {
			copy(p, c.file[off:])
			return nil
		})
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: got %v, want %q", c.file, err, c.want)
		}
	}
	group := func(columns byte, rows byte) []byte { // a footer with one row group
		b := []byte{4<<4 | cList, 1<<4 | cStruct, 1<<4 | cList, columns<<4 | cStruct}
		for range columns {
			b = append(b, 3<<4|cStruct, 7<<4|cInt64, 20, 2<<4|cInt64, 8, cStop, cStop) // 10 bytes from 4 on
		}
		return append(b, 2<<4|cInt64, rows<<1, cStop, cStop)
	}
	for _, c := range []struct {
		columns, rows byte
		want          string
	}{{2, 5, ""}, {1, 5, "has 1 columns"}, {3, 5, "has 3 columns"}, {0, 5, "has 0 columns"}, {0, 0, ""}} {
		f := &footer{}
		err := f.parseGroups(group(c.columns, c.rows), []int{-1, 0}, 1)
		if c.want == "" && (err != nil || len(f.groups) != 1 || c.rows > 0 && f.groups[0].chunks[0] != (chunk{compressed: 10, data: 4})) {
			t.Errorf("%d columns: got %v, %v", c.columns, f.groups, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%d columns: got %v, want %q", c.columns, err, c.want)
		}
	}
	many := &compact{b: append(binary.AppendUvarint([]byte{15<<4 | cStruct}, 1<<40), 0)}
	if n, _ := many.list(); n != 0 || !errors.Is(many.err, errCut) {
		t.Errorf("a list of 2^40 elements in a byte: got %d, %v", n, many.err)
	}
	empty := append([]byte{2<<4 | cList, 15<<4 | cStruct}, append(binary.AppendUvarint(nil, maxElements+1), make([]byte, maxElements+2)...)...)
	if _, err := parseSchema(empty); err == nil || !strings.Contains(err.Error(), "65536 columns") {
		t.Errorf("too many columns: got %v", err)
	}
}
