package storage_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/storage"
	"github.com/evenkeel/evenkeel/dataloader/storage/storagetest"
)

// packed returns an archive of files that are stored, or compressed if the name ends in ".z".
func packed(t testing.TB, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i, name := range names {
		h := &zip.FileHeader{Name: name, Method: zip.Store}
		if strings.HasSuffix(name, ".z") {
			h.Method = zip.Deflate
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "/") {
			f.Write(numbers(100 * (i + 1)))
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func openZip(data []byte, opt storage.ZipOptions) (*storage.Archive, error) {
	return storage.Zip(context.Background(), storage.Bytes("x.zip", data), opt)
}

func TestAnArchiveIsAFileSystem(t *testing.T) {
	t.Parallel()
	names := []string{"a/x", "a-b", "a.txt", "a/y.z", "a/b/c", "b", "a0/z", "empty/"}
	data := packed(t, names...)
	a, err := openZip(data, storage.ZipOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(a, names[:7]...); err != nil {
		t.Error(err)
	}
	entries, err := a.ReadDir(".")
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if s := strings.Join(got, " "); s != "a a-b a.txt a0 b empty" || err != nil {
		t.Errorf("entries %q, %v", s, err)
	}
	for i, name := range names[:7] {
		f, err := storage.Open(a, name)
		if err != nil {
			t.Fatal(err)
		}
		want := numbers(100 * (i + 1))
		buf := make([]byte, len(want)-9)
		if err := storage.ReadAt(t.Context(), f, buf, 9); err != nil || !bytes.Equal(buf, want[9:]) || f.Size() != int64(len(want)) {
			t.Errorf("%s: %d bytes, %v", name, f.Size(), err)
		}
		if err := storage.ReadAt(t.Context(), f, buf, 10); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: read into what follows: %v", name, err)
		}
		if v := storage.Version(f); v != fmt.Sprintf("crc32:%08x", crc32.ChecksumIEEE(want)) || f.Name() != "x.zip/"+name {
			t.Errorf("%s has version %s", f.Name(), v)
		}
		f.Close()
		if _, err := f.ReadAt(buf, 0); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	if err := errors.Join(a.Close(), a.Close()); err != nil {
		t.Error(err)
	}
	if _, err := storage.Open(a, "b"); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("open in a closed archive: %v", err)
	}
}

func TestStoredFilesAllocateNothing(t *testing.T) {
	a, err := openZip(packed(t, "a"), storage.ZipOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := storage.Open(a, "a")
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 10)
	if n := testing.AllocsPerRun(100, func() { err = errors.Join(err, storage.ReadAt(context.Background(), f, buf, 50)) }); n != 0 || err != nil {
		t.Errorf("%v allocations, %v", n, err)
	}
}

func TestArchivesOfOthersAreRead(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"stored", "large", "deflated", "prefixed"} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile("testdata/" + name + ".zip")
			if err != nil {
				t.Fatal(err)
			}
			a, err := openZip(data, storage.ZipOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{
				"a.txt": "first\n", "b/é.bin": strings.Repeat(string(binary256()), 8), "b/empty": "",
			} {
				got, err := fs.ReadFile(a, name)
				if err != nil || string(got) != want {
					t.Errorf("%s: %d bytes, %v", name, len(got), err)
				}
			}
			info, err := a.Stat("a.txt")
			if err != nil || info.ModTime().String() != "2026-11-29 14:30:58 +0000 UTC" {
				t.Errorf("time %v, %v", info.ModTime(), err)
			}
		})
	}
	data, err := os.ReadFile("testdata/lzma.zip")
	if err != nil {
		t.Fatal(err)
	}
	a, err := openZip(data, storage.ZipOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Open("a.txt"); !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), "got 14") {
		t.Errorf("another method: %v", err)
	}
}

func binary256() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func TestArchivesOfManyFilesAreRead(t *testing.T) {
	t.Parallel()
	const n = 66_000 // more than 16 bits count
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := range n {
		f, err := w.CreateRaw(&zip.FileHeader{Name: fmt.Sprintf("%03d/%05d", i/1000, i), Method: zip.Store, CompressedSize64: 1, UncompressedSize64: 1})
		if err != nil {
			t.Fatal(err)
		}
		f.Write([]byte{byte(i)})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"", "some bytes before"} {
		a, err := openZip(append([]byte(prefix), b.Bytes()...), storage.ZipOptions{})
		if err != nil {
			t.Fatal(err)
		}
		entries, err := a.ReadDir("065")
		if len(entries) != 1000 || err != nil {
			t.Errorf("%d entries, %v", len(entries), err)
		}
		if got, err := fs.ReadFile(a, "065/65999"); err != nil || len(got) != 1 || got[0] != 65999&255 {
			t.Errorf("the last file: %v, %v", got, err)
		}
	}
	if _, err := openZip(b.Bytes(), storage.ZipOptions{MaxDirectory: 1 << 20}); !errors.Is(err, dataloader.ErrOption) || !strings.Contains(err.Error(), "MaxDirectory") {
		t.Errorf("above MaxDirectory: %v", err)
	}
	if _, err := openZip(b.Bytes(), storage.ZipOptions{MaxDirectory: -1}); !errors.Is(err, dataloader.ErrOption) {
		t.Errorf("MaxDirectory below 0: %v", err)
	}
}

func TestHostileArchivesAreRefused(t *testing.T) {
	t.Parallel()
	le := binary.LittleEndian
	good := packed(t, "a", "b.z")
	second := bytes.LastIndex(good, []byte("PK\x03\x04"))
	dir := bytes.Index(good, []byte("PK\x01\x02"))
	dir2 := bytes.LastIndex(good, []byte("PK\x01\x02"))
	end := bytes.Index(good, []byte("PK\x05\x06"))
	edit := func(f func(b []byte)) []byte {
		b := bytes.Clone(good)
		f(b)
		return b
	}
	for _, c := range []struct {
		name string
		data []byte
		file string // refused when it is opened; "": when the archive is
		want string
	}{
		{"empty", nil, "", "end of the archive"},
		{"text", []byte(strings.Repeat("no archive ", 10)), "", "end of the archive"},
		{"cut", good[:len(good)-1], "", "end of the archive"},
		{"bytes after the end", append(bytes.Clone(good), 0), "", "end of the archive"},
		{"several parts", edit(func(b []byte) { b[end+4] = 1 }), "", "part"},
		{"a directory that is too long", edit(func(b []byte) { le.PutUint32(b[end+12:], uint32(len(b))) }), "", "directory"},
		{"a directory that begins too late", edit(func(b []byte) { le.PutUint32(b[end+16:], uint32(dir+1)) }), "", "directory"},
		{"too many files", edit(func(b []byte) { le.PutUint16(b[end+10:], 60_000) }), "", "number of files"},
		{"one file more", edit(func(b []byte) { le.PutUint16(b[end+10:], 3) }), "", "number of files"},
		{"one file fewer", edit(func(b []byte) { le.PutUint16(b[end+10:], 1) }), "", "1 files to fill"},
		{"another record", edit(func(b []byte) { b[dir] = 'Q' }), "", "directory"},
		{"a name beyond the end", edit(func(b []byte) { le.PutUint16(b[dir2+28:], 65_535) }), "", "directory"},
		{"the same place twice", edit(func(b []byte) { le.PutUint32(b[dir2+42:], 0) }), "", "overlaps"},
		{"overlapping files", edit(func(b []byte) { le.PutUint32(b[dir2+42:], uint32(second-17)) }), "", "overlaps"},
		{"a file over the directory", edit(func(b []byte) { le.PutUint32(b[dir2+20:], uint32(dir-second)) }), "", "overlaps"},
		{"a file beyond the end", edit(func(b []byte) { le.PutUint32(b[dir2+42:], uint32(len(b))) }), "", "lie before"},
		{"a stored size that lies", edit(func(b []byte) { le.PutUint32(b[dir+24:], 1000) }), "", "size of the stored file"},
		{"twice the same name", packed(t, "a", "a"), "", "twice"},
		{"a file that is a folder", packed(t, "a/b", "a-", "a"), "", "as both"},
		{"a file that is a folder, too", packed(t, "a/", "a"), "", "as both"},
		{"a path that leads out", packed(t, "../a"), "", "name of a file"},
		{"an absolute path", packed(t, "/a"), "", "name of a file"},
		{"a backslash", packed(t, `a\b`), "", "name of a file"},
		{"NUL", packed(t, "a\x00b"), "", "name of a file"},
		{"no name", packed(t, ""), "", "name of a file"},
		{"a number of 64 bits is missing", large(good, dir, dir2, end, 0), "", "extra field"},
		{"a size of 64 bits", large(good, dir, dir2, end, 1<<63), "", "before the directory"},

		{"encrypted", edit(func(b []byte) { b[dir+8] |= 1 }), "a", "encrypted"},
		{"a symbolic link", edit(func(b []byte) { b[dir+5], b[dir+41] = 3, 0xa1 }), "a", "symbolic link"},
		{"another header", edit(func(b []byte) { b[0] = 'Q' }), "a", "header"},
		{"another name in the header", edit(func(b []byte) { b[30] = 'q' }), "a", "its name"},
		{"another method in the header", edit(func(b []byte) { b[8] = 8 }), "a", "method"},
		{"a header over the next file", edit(func(b []byte) { le.PutUint16(b[28:], 5000) }), "a", "overlaps"},
		{"deflate: damage", edit(func(b []byte) { b[second+33] ^= 0xff }), "b.z", "compressed file"},
		{"deflate: more bytes than it says", edit(func(b []byte) { le.PutUint32(b[dir2+24:], 199) }), "b.z", "want 199 bytes"},
		{"deflate: fewer bytes than it says", edit(func(b []byte) { le.PutUint32(b[dir2+24:], 201) }), "b.z", "want 201 bytes"},
		{"deflate: cut", edit(func(b []byte) { le.PutUint32(b[dir2+20:], le.Uint32(b[dir2+20:])-9) }), "b.z", "compressed file"},
		{"deflate: more than deflate can", edit(func(b []byte) { le.PutUint32(b[dir2+24:], 60<<20) }), "b.z", "at most"},
		{"deflate: another sum", edit(func(b []byte) { b[dir2+16] ^= 1 }), "b.z", "CRC"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := openZip(c.data, storage.ZipOptions{})
			if c.file != "" && err == nil {
				_, err = a.Open(c.file)
			} else if c.file != "" {
				t.Fatalf("the archive: %v", err)
			}
			var e *dataloader.FormatError
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) || e.File != "x.zip" {
				t.Errorf("got %v, want a FormatError with %q", err, c.want)
			}
		})
	}
	a, err := openZip(edit(func(b []byte) { le.PutUint32(b[dir2+24:], 64<<20+1) }), storage.ZipOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Open("b.z"); !errors.Is(err, dataloader.ErrOption) || !strings.Contains(err.Error(), "MaxInflated") {
		t.Errorf("a bomb: %v", err)
	}
	if a, err = openZip(good, storage.ZipOptions{MaxInflated: -1}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Open("b.z"); !errors.Is(err, dataloader.ErrOption) {
		t.Errorf("compressed files are not wanted: %v", err)
	}
}

// large returns an archive whose first file says that its size has 64 bits, and has it in a field
// of 8 bytes, or has no field if size is 0.
func large(good []byte, dir, dir2, end int, size uint64) []byte {
	le := binary.LittleEndian
	field := []byte{1, 0, 0, 0}
	if size != 0 {
		field = le.AppendUint64([]byte{1, 0, 8, 0}, size)
	}
	record := bytes.Clone(good[dir:dir2])
	le.PutUint32(record[24:], 1<<32-1)
	name := int(le.Uint16(record[28:]))
	rest := bytes.Clone(record[46+name:])
	le.PutUint16(record[30:], uint16(len(rest)+len(field)))
	record = append(append(record[:46+name], field...), rest...)
	b := append(bytes.Clone(good[:dir]), record...)
	b = append(b, good[dir2:end]...)
	tail := bytes.Clone(good[end:])
	le.PutUint32(tail[12:], uint32(len(b)-dir))
	return append(b, tail...)
}

func TestFaultsOfTheStorageOfAnArchive(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{"x.zip": {Data: packed(t, "a", "b.z")}}
	storagetest.Every(t, fsys, func(ctx context.Context, fsys fs.FS) error {
		f, err := storage.Open(fsys, "x.zip")
		if err != nil {
			return err
		}
		defer f.Close()
		a, err := storage.Zip(ctx, f, storage.ZipOptions{})
		if err != nil {
			return err
		}
		for i, name := range []string{"a", "b.z"} {
			opened, err := a.OpenContext(ctx, name)
			if err != nil {
				return err
			}
			buf := make([]byte, 100*(i+1))
			if err := storage.ReadAt(ctx, opened.(storage.File), buf, 0); err != nil {
				return err
			}
			if !bytes.Equal(buf, numbers(len(buf))) {
				t.Errorf("%s: wrong bytes", name)
			}
		}
		return nil
	})
}

func FuzzZip(f *testing.F) {
	f.Add(packed(f, "a", "b.z", "c/d", "c/e/"))
	for _, name := range []string{"stored", "large", "deflated", "prefixed", "lzma"} {
		data, err := os.ReadFile("testdata/" + name + ".zip")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := openZip(data, storage.ZipOptions{MaxInflated: 1 << 20})
		if err != nil {
			if !errors.Is(err, dataloader.ErrFormat) {
				t.Fatalf("opened: %v", err)
			}
			return
		}
		theirs, theirErr := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if theirErr != nil {
			theirs = nil // they check less, and here and there more
		}
		err = fs.WalkDir(a, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			got, err := fs.ReadFile(a, name)
			if err != nil {
				if !errors.Is(err, dataloader.ErrFormat) && !errors.Is(err, dataloader.ErrOption) {
					t.Fatalf("%s: %v", name, err)
				}
				return nil
			}
			compareZip(t, theirs, name, got)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// compareZip compares a file with what package zip reads, where it reads the file.
func compareZip(t *testing.T, theirs *zip.Reader, name string, got []byte) {
	if theirs == nil {
		return
	}
	for _, f := range theirs.File {
		if path.Clean(f.Name) != name {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return
		}
		defer r.Close()
		if want, err := io.ReadAll(r); err == nil && !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, package zip reads %d others", name, len(got), len(want))
		}
	}
}
