package tokens_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/tokens"
)

// encoded returns tokens as a file has them, after a header.
func encoded(header, bits int, all []uint32) []byte {
	b := make([]byte, header)
	for _, t := range all {
		if bits == 16 {
			b = binary.LittleEndian.AppendUint16(b, uint16(t))
		} else {
			b = binary.LittleEndian.AppendUint32(b, t)
		}
	}
	return b
}

// fetched returns the fields of sample i.
func fetched(t testing.TB, ds dataloader.Dataset, i int) (fields [][]int32, err error) {
	t.Helper()
	var dst [][]byte
	for _, f := range ds.Fields() {
		fields = append(fields, make([]int32, f.Shape[0]))
		dst = append(dst, make([]byte, f.Bytes()))
	}
	err = ds.Fetch(t.Context(), dataloader.At{Index: i}, dst)
	for k, b := range dst {
		copy(fields[k], dataloader.View[int32](b))
	}
	return fields, err
}

// windows returns the windows that a file has, in order.
func windows(all []uint32, opt tokens.Options) (w [][]int32) {
	stride := opt.Stride
	if stride == 0 {
		stride = opt.Window
	}
	for at := 0; at+opt.Window+1 <= len(all); at += stride {
		var one []int32
		for _, t := range all[at : at+opt.Window+1] {
			one = append(one, int32(t))
		}
		w = append(w, one)
	}
	return w
}

// check compares all samples with the windows of the files.
func check(t testing.TB, ds *tokens.Dataset, want [][]int32, opt tokens.Options) {
	t.Helper()
	if ds.Len() != len(want) {
		t.Fatalf("%d samples, want %d", ds.Len(), len(want))
	}
	for i, w := range want {
		got, err := fetched(t, ds, i)
		if err != nil {
			t.Fatalf("sample %d: %v", i, err)
		}
		split := [][]int32{w[:opt.Window], w[1:]}
		if opt.Single {
			split = [][]int32{w}
		}
		if !slices.EqualFunc(got, split, slices.Equal[[]int32]) {
			t.Fatalf("sample %d is %v, want %v", i, got, split)
		}
	}
}

func TestWindowsAreThoseOfTheFiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, opt := range []tokens.Options{
		{Window: 4}, {Window: 4, Stride: 1}, {Window: 3, Stride: 7, Bits: 32}, {Window: 1, Bits: 16, Single: true},
		{Window: 5, Stride: 2, Header: 6, Single: true, Unmapped: true}, {Window: 4, Bits: 32, Header: 1024, Unmapped: true},
	} {
		t.Run(fmt.Sprintf("%+v", opt), func(t *testing.T) {
			dir, bits := t.TempDir(), max(opt.Bits, 16)
			var want [][]int32
			for i, n := range []int{17, 3, 0, 5, 40} { // some are shorter than a window
				all := make([]uint32, n)
				for k := range all {
					all[k] = r.Uint32() & (1<<(bits-bits/32) - 1)
				}
				want = append(want, windows(all, opt)...)
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.bin", i)), encoded(int(opt.Header), bits, all), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			ds, err := tokens.Open(dir, opt)
			if err != nil {
				t.Fatal(err)
			}
			check(t, ds, want, opt)
			if err := ds.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestMistakesAreNamed(t *testing.T) {
	folder := fstest.MapFS{
		"odd.bin":   {Data: make([]byte, 7)},
		"short.bin": {Data: make([]byte, 8)},
		"large.bin": {Data: encoded(0, 32, []uint32{1, 2, 1 << 31, 4})},
		"good.bin":  {Data: encoded(0, 16, []uint32{1, 2, 300, 4, 65535})},
	}
	for _, c := range []struct {
		file string
		opt  tokens.Options
		is   error
		text string
	}{
		{"good.bin", tokens.Options{}, dataloader.ErrOption, "window of 0 tokens"},
		{"good.bin", tokens.Options{Window: 1 << 31}, dataloader.ErrOption, "window of 2147483648 tokens"},
		{"good.bin", tokens.Options{Window: 2, Stride: -1, Bits: 8, Header: -1, Vocabulary: -1}, dataloader.ErrOption,
			"stride -1: must be 0 (default) or more: bad option\ntokens of 8 bits: must be 16 or 32: bad option\nheader of -1 bytes"},
		{"odd.bin", tokens.Options{Window: 2}, dataloader.ErrFormat, "odd.bin: size at byte 7: want a header of 0 bytes and a whole number of tokens of 2 bytes, got 7 bytes"},
		{"odd.bin", tokens.Options{Window: 2, Header: 8}, dataloader.ErrFormat, "a header of 8 bytes"},
		{"short.bin", tokens.Options{Window: 4}, dataloader.ErrEmpty, "no file has the 4 tokens of a window and the one after it"},
		{"none.bin", tokens.Options{Window: 4}, os.ErrNotExist, "none.bin"},
	} {
		ds, err := tokens.OpenFS(folder, c.file, c.opt)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) || ds != nil {
			t.Errorf("%s, %+v: got %v, want %q", c.file, c.opt, err, c.text)
		}
	}
	for _, c := range []struct {
		file  string
		opt   tokens.Options
		index int
		text  string // "": no error
	}{
		{"good.bin", tokens.Options{Window: 2, Vocabulary: 301}, 0, ""},
		{"good.bin", tokens.Options{Window: 2, Vocabulary: 300}, 0, "good.bin: token at byte 4: want 0 to 299, got 300"},
		{"good.bin", tokens.Options{Window: 2}, 1, ""},
		{"good.bin", tokens.Options{Window: 2, Stride: 2, Vocabulary: 1 << 16}, 1, ""},
		{"good.bin", tokens.Options{Window: 2, Stride: 2, Vocabulary: 65535}, 1, "good.bin: token at byte 8: want 0 to 65534, got 65535"},
		{"large.bin", tokens.Options{Window: 2, Bits: 32}, 0, "large.bin: token at byte 8: want 0 to 2147483647, got 2147483648"},
	} {
		ds, err := tokens.OpenFS(folder, c.file, c.opt)
		if err != nil {
			t.Fatal(err)
		}
		_, err = fetched(t, ds, c.index)
		if c.text == "" && err != nil || c.text != "" && (!errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), c.text)) {
			t.Errorf("%s, %+v: got %v, want %q", c.file, c.opt, err, c.text)
		}
		for _, i := range []int{-1, ds.Len()} {
			if _, err := fetched(t, ds, i); !errors.Is(err, dataloader.ErrOption) {
				t.Errorf("sample %d: got %v", i, err)
			}
		}
	}
}

func TestAFileThatShrinksIsAnError(t *testing.T) {
	for _, unmapped := range []bool{false, true} {
		if !unmapped && runtime.GOOS == "windows" { // which keeps a mapped file as long as it is
			continue
		}
		path := filepath.Join(t.TempDir(), "t.bin")
		if err := os.WriteFile(path, make([]byte, 1<<20), 0o666); err != nil {
			t.Fatal(err)
		}
		ds, err := tokens.Open(path, tokens.Options{Window: 16, Unmapped: unmapped})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, 1<<13); err != nil {
			t.Fatal(err)
		}
		if _, err := fetched(t, ds, 0); err != nil {
			t.Errorf("what is left: %v", err)
		}
		if _, err := fetched(t, ds, ds.Len()-1); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "t.bin") {
			t.Errorf("what is gone: %v", err)
		}
		if err := ds.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestFetchAllocatesNothingAndEndsWithItsContext(t *testing.T) {
	for _, unmapped := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "t.bin")
		if err := os.WriteFile(path, make([]byte, 1<<16), 0o666); err != nil {
			t.Fatal(err)
		}
		ds, err := tokens.Open(path, tokens.Options{Window: 64, Stride: 1, Unmapped: unmapped})
		if err != nil {
			t.Fatal(err)
		}
		defer ds.Close()
		dst := [][]byte{make([]byte, 256), make([]byte, 256)}
		i := 0
		if n := testing.AllocsPerRun(100, func() {
			i += 7
			if err := ds.Fetch(t.Context(), dataloader.At{Index: i}, dst); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("unmapped %v: %v allocations", unmapped, n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := ds.Fetch(ctx, dataloader.At{}, dst); !errors.Is(err, context.Canceled) {
			t.Errorf("unmapped %v: got %v", unmapped, err)
		}
	}
}

func TestFingerprintsTellOptionsAndFilesApart(t *testing.T) {
	seen := map[uint64]string{}
	for name, size := range map[string]int{"a": 64, "b": 64, "c": 66} {
		for _, opt := range []tokens.Options{{Window: 3}, {Window: 4}, {Window: 3, Stride: 2}, {Window: 3, Single: true}, {Window: 3, Header: 2}} {
			ds, err := tokens.OpenFS(fstest.MapFS{name: {Data: make([]byte, size)}}, name, opt)
			if err != nil {
				t.Fatal(err)
			}
			what, f := fmt.Sprint(name, opt), dataloader.Fingerprint(ds)
			if seen[f] != "" {
				t.Errorf("%s has the fingerprint of %s", what, seen[f])
			}
			seen[f] = what
		}
	}
}

// FuzzOpen reads files of any bytes.
func FuzzOpen(f *testing.F) {
	f.Add([]byte("some tokens"), 2, 1, 0, true, false)
	f.Add(make([]byte, 64), 3, 3, 8, false, true)
	f.Fuzz(func(t *testing.T, data []byte, window, stride, header int, wide, single bool) {
		opt := tokens.Options{Window: window, Stride: stride, Header: int64(header), Single: single, Bits: 16}
		if wide {
			opt.Bits = 32
		}
		ds, err := tokens.OpenFS(fstest.MapFS{"t.bin": {Data: data}}, "t.bin", opt)
		if err != nil {
			return
		}
		var all []uint32
		for b := data[header:]; len(b) > 0; b = b[opt.Bits/8:] {
			t := uint32(binary.LittleEndian.Uint16(b))
			if wide {
				t = binary.LittleEndian.Uint32(b)
			}
			if t > 1<<31-1 {
				return // Fetch refuses it
			}
			all = append(all, t)
		}
		check(t, ds, windows(all, opt), opt)
	})
}

func BenchmarkFetch(b *testing.B) {
	path := filepath.Join(b.TempDir(), "t.bin")
	if err := os.WriteFile(path, make([]byte, 1<<24), 0o666); err != nil {
		b.Fatal(err)
	}
	for _, unmapped := range []bool{false, true} {
		b.Run(fmt.Sprintf("unmapped=%v", unmapped), func(b *testing.B) {
			ds, err := tokens.Open(path, tokens.Options{Window: 1024, Stride: 1, Unmapped: unmapped})
			if err != nil {
				b.Fatal(err)
			}
			defer ds.Close()
			dst, r := [][]byte{make([]byte, 4096), make([]byte, 4096)}, rand.New(rand.NewPCG(1, 1))
			b.ReportAllocs()
			for b.Loop() {
				if err := ds.Fetch(b.Context(), dataloader.At{Index: r.IntN(ds.Len())}, dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func ExampleOpen() {
	folder := fstest.MapFS{"train.bin": {Data: encoded(0, 16, []uint32{10, 11, 12, 13, 14, 15})}}
	ds, err := tokens.OpenFS(folder, "train.bin", tokens.Options{Window: 2, Vocabulary: 50257})
	if err != nil {
		panic(err)
	}
	defer ds.Close()
	x, y := make([]byte, 8), make([]byte, 8)
	for i := range ds.Len() {
		if err := ds.Fetch(context.Background(), dataloader.At{Index: i}, [][]byte{x, y}); err != nil {
			panic(err)
		}
		fmt.Println(dataloader.View[int32](x), dataloader.View[int32](y))
	}
	// Output:
	// [10 11] [11 12]
	// [12 13] [13 14]
}
