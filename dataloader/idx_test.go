package dataloader_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

// raw builds an IDX file by hand.
func raw(code byte, dims []uint32, elements []byte) []byte {
	b := []byte{0, 0, code, byte(len(dims))}
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, d)
	}
	return append(b, elements...)
}

func zip(t testing.TB, b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func write(t testing.TB, dir, name string, b []byte) string {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// readers are the ways in which an IDX file can arrive.
var readers = map[string]func(t testing.TB, b []byte) (*dataloader.IDX, error){
	"reader": func(_ testing.TB, b []byte) (*dataloader.IDX, error) {
		return dataloader.ReadIDX(bytes.NewReader(b), 0)
	},
	"slow reader": func(_ testing.TB, b []byte) (*dataloader.IDX, error) {
		return dataloader.ReadIDX(iotest.OneByteReader(bytes.NewReader(b)), 0)
	},
	"gzipped reader": func(t testing.TB, b []byte) (*dataloader.IDX, error) {
		return dataloader.ReadIDX(bytes.NewReader(zip(t, b)), 0)
	},
	"file": func(t testing.TB, b []byte) (*dataloader.IDX, error) {
		return dataloader.OpenIDX(write(t, t.TempDir(), "f", b), 0)
	},
	"gzipped file": func(t testing.TB, b []byte) (*dataloader.IDX, error) {
		return dataloader.OpenIDX(write(t, t.TempDir(), "f.gz", zip(t, b)), 0)
	},
}

func TestIDXValuesArriveInThisMachinesOrder(t *testing.T) {
	for name, read := range readers {
		t.Run(name, func(t *testing.T) {
			x, err := read(t, raw(0x0c, []uint32{2, 2}, []byte{0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe, 0, 1, 0, 0, 0x7f, 0xff, 0xff, 0xff}))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := dataloader.View[int32](x.Data), []int32{1, -2, 65536, 1<<31 - 1}; !reflect.DeepEqual(got, want) || x.Type != arena.Int32 || x.Len() != 2 {
				t.Errorf("got %v %v, want %v", x.Type, got, want)
			}
			x, err = read(t, raw(0x0d, []uint32{1}, []byte{0x3f, 0xc0, 0, 0}))
			if err != nil || dataloader.View[float32](x.Data)[0] != 1.5 {
				t.Errorf("float32: got %v, %v, want 1.5", x, err)
			}
			x, err = read(t, raw(0x0e, []uint32{1}, []byte{0xc0, 4, 0, 0, 0, 0, 0, 0}))
			if err != nil || dataloader.View[float64](x.Data)[0] != -2.5 {
				t.Errorf("float64: got %v, %v, want -2.5", x, err)
			}
		})
	}
}

func TestIDXRoundTripsForAllTypesAndShapes(t *testing.T) {
	rng := random(t)
	for _, typ := range []arena.DType{arena.Uint8, arena.Int32, arena.Float32, arena.Float64} {
		for range 5 {
			want := &dataloader.IDX{Type: typ, Dims: make([]int, 1+rng.IntN(4))}
			n := typ.Size()
			for i := range want.Dims {
				want.Dims[i] = 1 + rng.IntN(12)
				n *= int64(want.Dims[i])
			}
			want.Data = make([]byte, n)
			for i := range want.Data {
				want.Data[i] = byte(rng.Uint32())
			}
			b, err := want.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			for name, read := range readers {
				got, err := read(t, b)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				got.File = ""
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("%s, %v %v: got %v, want %v", name, typ, want.Dims, got, want)
				}
			}
		}
	}
	for _, bad := range []dataloader.IDX{
		{Type: arena.Int64, Dims: []int{1}, Data: make([]byte, 8)}, {Type: arena.Uint8}, {Type: arena.Uint8, Dims: []int{-1}},
		{Type: arena.Uint8, Dims: []int{2}, Data: make([]byte, 3)}, {Type: arena.Uint8, Dims: []int{1 << 30, 1 << 30, 1 << 30}},
	} {
		if _, err := bad.Bytes(); !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("%v %v: got %v, want %v", bad.Type, bad.Dims, err, dataloader.ErrOption)
		}
	}
}

// wantFormat makes sure that err is a format error at offset that says all of says.
func wantFormat(t *testing.T, err error, offset int64, says ...string) {
	t.Helper()
	var f *dataloader.FormatError
	if !errors.Is(err, dataloader.ErrFormat) || !errors.As(err, &f) || errors.Is(err, io.EOF) {
		t.Errorf("got %v, want a format error", err)
		return
	}
	if offset >= 0 && f.Offset != offset {
		t.Errorf("got %v: at %d, want %d", err, f.Offset, offset)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("got %q, want it to say %q", err, s)
		}
	}
}

func TestBadIDXIsRefusedWithPlaceAndReason(t *testing.T) {
	good := raw(8, []uint32{2, 3}, []byte{1, 2, 3, 4, 5, 6})
	for _, c := range []struct {
		name   string
		b      []byte
		offset int64
		says   []string
	}{
		{"empty", nil, 0, []string{"magic number", "want 4 bytes, got 0"}},
		{"wrong magic", append([]byte("PNG!"), good...), 0, []string{"magic number", "50 4e 47 21"}},
		{"type int8", raw(9, []uint32{1}, []byte{1}), 2, []string{"type", "int8"}},
		{"type int16", raw(0x0b, []uint32{1}, []byte{1, 1}), 2, []string{"type", "int16"}},
		{"type unknown", raw(0x42, []uint32{1}, []byte{1}), 2, []string{"42"}},
		{"no dimension", raw(8, nil, nil), 3, []string{"rank", "got 0"}},
		{"too many dimensions", raw(8, make([]uint32, 255), nil), 3, []string{"rank", "got 255"}},
		{"zero dimension", raw(8, []uint32{2, 0}, nil), 8, []string{"dimension 1", "got 0"}},
		{"huge dimension", raw(8, []uint32{1 << 31}, nil), 4, []string{"dimension 0"}},
		{"huge product", raw(0x0e, []uint32{1 << 30, 1 << 30, 1 << 30, 1 << 30}, nil), 4, []string{"at most 1073741824 bytes"}},
		{"product that overflows to 0", raw(8, []uint32{1 << 16, 1 << 16, 1 << 16, 1 << 16}, nil), 8, []string{"dimension 1"}},
		{"cut in the dimensions", good[:10], 10, []string{"dimension 1", "want 4 bytes, got 2"}},
		{"cut in the elements", good[:len(good)-1], -1, []string{"elements", "6 bytes for [2 3]"}},
		{"bytes after the end", append(bytes.Clone(good), 0), 18, []string{"end", "more bytes"}},
	} {
		for name, read := range readers {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				x, err := read(t, c.b)
				if x != nil {
					t.Errorf("got an array with an error: %v", x)
				}
				wantFormat(t, err, c.offset, c.says...)
			})
		}
	}
}

func TestEveryTruncationAndEveryFlippedByteIsSafe(t *testing.T) {
	t.Parallel()
	good := raw(8, []uint32{4, 5}, make([]byte, 20))
	for _, b := range [][]byte{good, zip(t, good)} {
		for n := range b {
			_, err := dataloader.ReadIDX(bytes.NewReader(b[:n]), 0)
			wantFormat(t, err, -1)
			_, err = dataloader.OpenIDX(write(t, t.TempDir(), "f", b[:n]), 0)
			wantFormat(t, err, -1, "f: ")
		}
		for i := range b {
			for bit := range 8 {
				c := bytes.Clone(b)
				c[i] ^= 1 << bit
				if _, err := dataloader.ReadIDX(bytes.NewReader(c), 0); err != nil {
					wantFormat(t, err, -1)
				}
			}
		}
	}
	_, err := dataloader.ReadIDX(bytes.NewReader(append(zip(t, good), "tail"...)), 0)
	wantFormat(t, err, -1, "end")
}

// allocated is the bytes that f takes from the heap.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestAHeaderCannotClaimMemoryThatItsDataDoNotFill(t *testing.T) {
	dir := t.TempDir()
	big := raw(8, []uint32{1 << 30}, make([]byte, 100))
	bomb := zip(t, raw(8, []uint32{10}, make([]byte, 8<<20))) // 8 MiB follow a header for 10 bytes
	over := zip(t, raw(8, []uint32{4 << 20}, make([]byte, 4<<20)))
	plain, zipped, bombed := write(t, dir, "plain", big), write(t, dir, "zipped", zip(t, big)), write(t, dir, "bomb", bomb)
	for _, c := range []struct {
		name string
		read func() (*dataloader.IDX, error)
	}{
		{"reader", func() (*dataloader.IDX, error) { return dataloader.ReadIDX(bytes.NewReader(big), 0) }},
		{"file", func() (*dataloader.IDX, error) { return dataloader.OpenIDX(plain, 0) }},
		{"gzipped file", func() (*dataloader.IDX, error) { return dataloader.OpenIDX(zipped, 0) }},
		{"bomb", func() (*dataloader.IDX, error) { return dataloader.OpenIDX(bombed, 0) }},
		{"over the limit", func() (*dataloader.IDX, error) { return dataloader.ReadIDX(bytes.NewReader(over), 1<<20) }},
	} {
		var err error
		// A read buffer, gzip's tables and the first chunk of elements are 1.2 MiB.
		if got := allocated(func() { _, err = c.read() }); got > 2<<20 {
			t.Errorf("%s: took %d bytes", c.name, got)
		}
		wantFormat(t, err, -1)
	}
	if _, err := dataloader.ReadIDX(bytes.NewReader(big), -1); !errors.Is(err, dataloader.ErrOption) {
		t.Errorf("negative limit: got %v", err)
	}
}

func TestTroubleOfTheMediumIsNotAFormatError(t *testing.T) {
	broken := errors.New("cable pulled")
	_, err := dataloader.ReadIDX(io.MultiReader(bytes.NewReader(raw(8, []uint32{9}, nil)), iotest.ErrReader(broken)), 0)
	if !errors.Is(err, broken) || errors.Is(err, dataloader.ErrFormat) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if _, err := dataloader.OpenIDX(filepath.Join(t.TempDir(), "none"), 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
}

func FuzzReadIDX(f *testing.F) {
	f.Add(raw(8, []uint32{2, 3}, []byte{1, 2, 3, 4, 5, 6}))
	f.Add(raw(0x0d, []uint32{1}, []byte{0x3f, 0xc0, 0, 0}))
	f.Add(zip(f, raw(8, []uint32{2}, []byte{1, 2})))
	f.Add(raw(0x0e, []uint32{1 << 30, 1 << 30}, nil))
	f.Add([]byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := dataloader.ReadIDX(bytes.NewReader(b), 1<<20)
		if err != nil {
			if !errors.Is(err, dataloader.ErrFormat) {
				t.Fatalf("got %v, want a format error", err)
			}
			return
		}
		again, err := x.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		if b[0] == 0 && !bytes.Equal(again, b) {
			t.Fatalf("got % x back, want % x", again, b)
		}
		y, err := dataloader.ReadIDX(bytes.NewReader(again), 0)
		if err != nil || !reflect.DeepEqual(x, y) {
			t.Fatalf("got %v, %v back, want %v", y, err, x)
		}
	})
}

func TestSignedLabelsOutsideTheClassesAreFound(t *testing.T) {
	x, err := dataloader.ReadIDX(bytes.NewReader(raw(0x0c, []uint32{2}, []byte{0, 0, 0, 3, 0xff, 0xff, 0xff, 0xff})), 0)
	if err != nil {
		t.Fatal(err)
	}
	wantFormat(t, x.CheckLabels(4), 12, "sample 1", "got -1")
	x.Dims[0] = 1
	if err := x.CheckLabels(4); err != nil {
		t.Error(err)
	}
	wantFormat(t, x.CheckLabels(3), 8, "got 3")
}
