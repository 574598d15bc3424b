//go:build unix

package storage_test

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/storage"
	"golang.org/x/sys/unix"
)

func TestSpecialFilesAreRefusedWithoutOpeningThem(t *testing.T) {
	t.Parallel()
	path, err := os.MkdirTemp("", "") // shorter than t.TempDir: names of sockets are
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(path)
	if err := unix.Mkfifo(filepath.Join(path, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(path, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir, err := storage.Dir(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	open := map[string]func(string) error{
		"Folder.Open":     func(name string) error { _, err := dir.Open(name); return err },
		"storage.Open":    func(name string) error { _, err := storage.Open(dir, name); return err },
		"Open in a DirFS": func(name string) error { _, err := storage.Open(os.DirFS(path), name); return err },
		"OpenFile":        func(name string) error { _, err := storage.OpenFile(filepath.Join(path, name)); return err },
	}
	for how, open := range open {
		for name, kind := range map[string]string{"pipe": "a pipe", "socket": "a socket"} {
			done := make(chan error, 1)
			go func() { done <- open(name) }()
			select {
			case err := <-done:
				if !errors.Is(err, dataloader.ErrFormat) || !errors.Is(err, fs.ErrInvalid) || !strings.Contains(err.Error(), kind) {
					t.Errorf("%s of %s: %v", how, name, err)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%s of %s hangs", how, name)
			}
		}
	}
	if _, err := storage.OpenFile("/dev/null"); !errors.Is(err, fs.ErrInvalid) || !strings.Contains(err.Error(), "a device") {
		t.Errorf("a device: %v", err)
	}
}

func TestLinksStayInTheFolder(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string][]byte{"in/a": numbers(10)})
	outside := filepath.Join(t.TempDir(), "secret")
	link := func(name, target string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir.Name(), name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(outside, numbers(10), 0o600); err != nil {
		t.Fatal(err)
	}
	link("within", "in/a")
	link("out", outside)
	link("up", "../"+filepath.Base(filepath.Dir(outside)))
	link("folder", filepath.Dir(outside))
	link("loop", "loop")
	link("ping", "pong")
	link("pong", "ping")

	f, err := storage.Open(dir, "within")
	if err != nil {
		t.Fatalf("a link that stays within: %v", err)
	}
	f.Close()
	for _, name := range []string{"out", "up", "folder/secret", "loop", "ping"} {
		if f, err := storage.Open(dir, name); err == nil {
			t.Errorf("%s: opened %s", name, f.Name())
		}
		if _, err := dir.Stat(name); err == nil {
			t.Errorf("%s: described", name)
		}
	}
	if target, err := dir.ReadLink("within"); err != nil || target != "in/a" {
		t.Errorf("target %q, %v", target, err)
	}
	info, err := dir.Lstat("out")
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("a link's own description: %v", err)
	}
	// The caller names the file: OpenFile follows links.
	if f, err = storage.OpenFile(filepath.Join(dir.Name(), "out")); err != nil {
		t.Errorf("OpenFile of a link: %v", err)
	} else {
		f.Close()
	}
	seen := 0
	if err := fs.WalkDir(dir, ".", func(string, fs.DirEntry, error) error { seen++; return nil }); err != nil || seen > 12 {
		t.Errorf("a walk sees %d entries, %v", seen, err)
	}
}

func TestAMappedFileThatShrinksIsAnError(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string][]byte{"a": numbers(100_000), "b": numbers(100_000)})
	path := filepath.Join(dir.Name(), "a")
	f, err := storage.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, mem, err := storage.Map(f)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := os.Truncate(path, 10); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	err = storage.ReadAt(t.Context(), m, buf, 50_000)
	if !wantEOF(err) {
		t.Errorf("ReadAt: %v", err)
	}
	if err := storage.CopyMapped(buf, mem[50_000:50_100]); !wantEOF(err) {
		t.Errorf("CopyMapped: %v", err)
	}
	if err := storage.ReadAt(t.Context(), m, buf[:10], 0); err != nil || string(buf[:10]) != string(numbers(10)) {
		t.Errorf("what is left: %v", err)
	}

	path = filepath.Join(dir.Name(), "b")
	if f, err = storage.OpenFile(path); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, 10); err != nil {
		t.Fatal(err)
	}
	if _, _, err := storage.Map(f); !wantEOF(err) {
		t.Errorf("shorter before it is mapped: %v", err)
	}
	if err := storage.ReadAt(t.Context(), f, buf, 50_000); !wantEOF(err) {
		t.Errorf("not mapped: %v", err)
	}
}

func wantEOF(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }
