package arrow

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/storage"
	"github.com/evenkeel/evenkeel/dataloader/table"
	flatbuffers "github.com/google/flatbuffers/go"
)

// batchMeta returns the metadata of a record batch without columns.
func batchMeta(rows, body int64, buffers int, variadic ...int64) []byte {
	b := flatbuffers.NewBuilder(0)
	b.StartVector(16, buffers, 8)
	for range buffers {
		b.Prep(8, 16)
		b.PrependInt64(0)
		b.PrependInt64(0)
	}
	bufs := b.EndVector(buffers)
	b.StartVector(8, len(variadic), 8)
	for _, v := range variadic {
		b.PrependInt64(v)
	}
	counts := b.EndVector(len(variadic))
	b.StartObject(5)
	b.PrependInt64Slot(0, rows, 0)
	b.PrependUOffsetTSlot(2, bufs, 0)
	b.PrependUOffsetTSlot(4, counts, 0)
	batch := b.EndObject()
	b.StartObject(5)
	b.PrependByteSlot(1, kindBatch, 0)
	b.PrependUOffsetTSlot(2, batch, 0)
	b.PrependInt64Slot(3, body, 0)
	b.Finish(b.EndObject())
	return b.FinishedBytes()
}

// framed returns a message with its length before it.
func framed(meta, body []byte) []byte {
	meta = append(bytes.Clone(meta), make([]byte, (8-len(meta)%8)%8)...)
	b := binary.LittleEndian.AppendUint32([]byte{255, 255, 255, 255}, uint32(len(meta)))
	return append(append(b, meta...), body...)
}

func TestLengthsInMetadataAreChecked(t *testing.T) {
	t.Parallel()
	m, err := parse(batchMeta(7, 64, 77, 3, 77))
	if err != nil || m.rows != 7 || m.bodyBytes != 64 || m.kind != kindBatch || m.compressed {
		t.Errorf("got %+v, %v", m, err)
	}
	for _, k := range []int64{-1, 78, 1 << 40} {
		if _, err := parse(batchMeta(7, 64, 77, k)); err == nil || !strings.Contains(err.Error(), "where the batch has 77") {
			t.Errorf("%d buffers of a column: got %v", k, err)
		}
	}
	if _, err := parse(batchMeta(-1, 64, 77)); err == nil || !strings.Contains(err.Error(), "-1 rows") {
		t.Errorf("-1 rows: got %v", err)
	}
	meta := batchMeta(7, 64, 77)
	at := bytes.Index(meta, []byte{77, 0, 0, 0})
	for _, n := range []uint32{uint32(len(meta)-at-4)/16 + 1, 1 << 27, 1 << 31} {
		binary.LittleEndian.PutUint32(meta[at:], n)
		if _, err := parse(meta); !errors.Is(err, errVector) {
			t.Errorf("a list of %d: got %v, want errVector", n, err)
		}
	}
	if _, err := parse([]byte{255, 255, 255, 127, 0, 0, 0, 0}); err == nil || !strings.Contains(err.Error(), "outside of the metadata") {
		t.Errorf("an offset outside: got %v", err)
	}
}

func TestStreamsThatClaimMore(t *testing.T) {
	t.Parallel()
	stream, err := os.ReadFile("testdata/numbers-stream.arrows")
	if err != nil {
		t.Fatal(err)
	}
	schema := stream[:8+int(binary.LittleEndian.Uint32(stream[4:]))]
	for _, c := range []struct {
		name, want string
		batch      []byte
	}{
		{"as many rows as bits", "", framed(batchMeta(512, 64, 0), make([]byte, 64))},
		{"more rows than bits", "at most 512 rows in 64 bytes, got 513", framed(batchMeta(513, 64, 0), make([]byte, 64))},
		{"a body beyond the end", "0 to 63 bytes, got 64", framed(batchMeta(1, 64, 0), make([]byte, 63))},
		{"a negative body", "got -8", framed(batchMeta(1, -8, 0), make([]byte, 63))},
		{"metadata beyond the end", "length of a message", []byte{255, 255, 255, 255, 0, 0, 0, 1}},
		{"a second schema", "one schema", schema},
	} {
		_, err := openFile(t.Context(), storage.Bytes("x", append(bytes.Clone(schema), c.batch...)), true)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestNothingBeyondABufferIsRead(t *testing.T) {
	t.Parallel()
	target, err := table.NewTarget(0, table.Column{Name: "x"}, table.Type{Kind: table.Int32})
	if err != nil {
		t.Fatal(err)
	}
	short := make([]byte, 8, 64) // two values of three
	data := array.NewData(arrow.PrimitiveTypes.Int32, 3, []*memory.Buffer{nil, memory.NewBufferBytes(short)}, nil, 0, 0)
	v := &view{column: &column{Target: target}}
	if err := v.values(data); err != nil {
		t.Fatal(err)
	}
	b := &batch{at: place{file: &file{messages: make([]message, 1), batches: []int{0}}}, views: []*view{v}}
	dst := [][]byte{make([]byte, 4)}
	for row, bad := range []bool{false, false, true} {
		if err := b.Fetch(t.Context(), row, dataloader.At{}, dst); (err != nil) != bad || bad && !errors.Is(err, dataloader.ErrFormat) {
			t.Errorf("row %d: got %v", row, err)
		}
	}
}

// A list whose offsets the file does not have is not one of a fixed length.
func TestListsWithoutOffsetsAreDamaged(t *testing.T) {
	t.Parallel()
	target, err := table.NewTarget(0, table.Column{Name: "x"}, table.Type{Kind: table.Int32, Dims: []int{2}})
	if err != nil {
		t.Fatal(err)
	}
	data := array.NewData(arrow.ListOf(arrow.PrimitiveTypes.Int32), 1, []*memory.Buffer{nil, nil}, nil, 0, 0)
	v := &view{column: &column{Target: target}, kind: packed, width: 4, data: make([]byte, 8), lists: []list{listOf(data, 2)}}
	b := &batch{at: place{file: &file{messages: make([]message, 1), batches: []int{0}}}, views: []*view{v}}
	if err := b.Fetch(t.Context(), 0, dataloader.At{}, [][]byte{make([]byte, 8)}); !errors.Is(err, dataloader.ErrFormat) {
		t.Errorf("got %v, want ErrFormat", err)
	}
}

func TestViewsOfTextInPlaceAndElsewhere(t *testing.T) {
	t.Parallel()
	entry := func(n int, rest string) []byte {
		return append(binary.LittleEndian.AppendUint32(nil, uint32(n)), rest[:12]...)
	}
	v := &view{kind: views, buffers: [][]byte{nil, []byte("..thirteen byte")}, offsets: bytes.Join([][]byte{
		entry(12, "twelve bytes"), entry(0, strings.Repeat("x", 12)), entry(13, "thir\x01\x00\x00\x00\x02\x00\x00\x00")}, nil)}
	for i, want := range []string{"twelve bytes", "", "thirteen byte"} {
		if got, err := v.piece(i); err != nil || string(got) != want {
			t.Errorf("view %d: got %q, %v, want %q", i, got, err, want)
		}
	}
}
