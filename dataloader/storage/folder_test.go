package storage_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/storage"
)

func sha(b []byte) [32]byte { return sha256.Sum256(b) }

// folder returns a folder with files.
func folder(t testing.TB, files map[string][]byte) *storage.Folder {
	t.Helper()
	path := t.TempDir()
	for name, data := range files {
		p := filepath.Join(path, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := storage.Dir(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return dir
}

func TestAFolderIsAFileSystem(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string][]byte{"b/2": numbers(5), "b/10": nil, "a": numbers(7), "B": nil})
	if err := fstest.TestFS(dir, "b/2", "b/10", "a", "B"); err != nil {
		t.Error(err)
	}
	entries, err := dir.ReadDir(".")
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "B a b" || err != nil {
		t.Errorf("entries %q, %v: want them in the order of their bytes", got, err)
	}
	if _, err := dir.ReadDir("a"); err == nil {
		t.Error("a file has entries")
	}
	if err := errors.Join(dir.Close(), dir.Close()); err != nil {
		t.Error(err)
	}
	if _, err := dir.Open("a"); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("open in a closed folder: %v", err)
	}
}

func TestOpenReadsFilesOfEveryFileSystem(t *testing.T) {
	t.Parallel()
	data := numbers(1000)
	dir := folder(t, map[string][]byte{"a/x": data})
	for name, fsys := range map[string]fs.FS{
		"folder": dir, "os.DirFS": os.DirFS(dir.Name()), "map": fstest.MapFS{"a/x": {Data: data}},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := storage.Open(fsys, "a/x")
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 990)
			if err := storage.ReadAt(t.Context(), f, got, 10); err != nil || !bytes.Equal(got, data[10:]) || f.Size() != 1000 || f.Name() != "a/x" {
				t.Errorf("%s of %d bytes: %v", f.Name(), f.Size(), err)
			}
			if err := errors.Join(f.Close(), f.Close()); err != nil {
				t.Error(err)
			}
			if err := storage.ReadAt(t.Context(), f, got, 0); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
			if _, err := f.ReadAt(got, 0); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("ReadAt after Close: %v", err)
			}
			if _, err := storage.Open(fsys, "a"); !errors.Is(err, dataloader.ErrFormat) || !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("a folder: %v", err)
			}
			if _, err := storage.Open(fsys, "b"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("nothing: %v", err)
			}
			if _, err := storage.Open(fsys, "../x"); !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("a path that leads out: %v", err)
			}
		})
	}
	f, err := storage.OpenFile(filepath.Join(dir.Name(), "a", "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := storage.Digest(t.Context(), f); err != nil || got != sha(data) {
		t.Errorf("OpenFile: %v", err)
	}
	if _, err := storage.OpenFile(dir.Name()); !errors.Is(err, dataloader.ErrFormat) {
		t.Errorf("OpenFile of a folder: %v", err)
	}
	if _, err := storage.OpenFile(filepath.Join(dir.Name(), "z")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenFile of nothing: %v", err)
	}
	if _, err := storage.Dir(filepath.Join(dir.Name(), "a", "x")); err == nil {
		t.Error("a file is a folder")
	}
}

// sequential is a file system whose files have no ReadAt.
type sequential struct{ fs.FS }

func (s sequential) Open(name string) (fs.File, error) {
	f, err := s.FS.Open(name)
	return struct{ fs.File }{f}, err
}

func TestLoadReadsFilesWithoutReadAt(t *testing.T) {
	t.Parallel()
	fsys := sequential{fstest.MapFS{"a": {Data: numbers(1000)}, "d/x": {}}}
	if _, err := storage.Open(fsys, "a"); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "storage.Load") {
		t.Errorf("Open: %v", err)
	}
	f, err := storage.Load(t.Context(), fsys, "a", 1000)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := storage.Digest(t.Context(), f); err != nil || got != sha(numbers(1000)) || f.Name() != "a" {
		t.Errorf("%s: %v", f.Name(), err)
	}
	if _, err := storage.Load(t.Context(), fsys, "a", 999); !errors.Is(err, dataloader.ErrOption) {
		t.Errorf("above the limit: %v", err)
	}
	if _, err := storage.Load(t.Context(), fsys, "d", 999); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a folder: %v", err)
	}
	// A file that goes on for ever, whatever its Stat says.
	if _, err := storage.Load(t.Context(), endless{fsys}, "a", 1<<20); !errors.Is(err, dataloader.ErrOption) {
		t.Errorf("an endless file: %v", err)
	}
}

// endless is a file system whose files do not end.
type endless struct{ fs.FS }

type zeros struct{ fs.File }

func (e endless) Open(name string) (fs.File, error) {
	f, err := e.FS.Open(name)
	return zeros{f}, err
}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestBytesIsAFile(t *testing.T) {
	t.Parallel()
	f := storage.Bytes("b", numbers(10))
	var buf [10]byte
	if n, err := f.ReadAt(buf[:], 5); n != 5 || err != io.EOF || buf[0] != numbers(10)[5] {
		t.Errorf("%d, %v", n, err)
	}
	f.Close()
	if _, err := f.ReadAt(buf[:], 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
