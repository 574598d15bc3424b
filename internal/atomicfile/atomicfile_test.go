package atomicfile_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/evenkeel/evenkeel/internal/atomicfile"
)

// save replaces a file in three writes and a patch, as a checksum is patched in.
func save(files atomicfile.FS, path string, data []byte) (err error) {
	f, err := atomicfile.Create(files, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for p := range slices.Chunk(data, (len(data)+2)/3) {
		if _, err := f.Write(p); err != nil {
			return err
		}
	}
	if _, err := f.WriteAt(data[:1], 0); err != nil {
		return err
	}
	return f.Commit()
}

// content returns the bytes of a file.
func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// names returns the names in a folder.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

var steps = []string{"create", "chmod", "write", "write", "write", "writeat", "sync", "close", "rename", "syncdir"}

func TestEveryStepIsThereInItsOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	var faults atomicfile.Faults
	if err := save(&faults, path, []byte("the new file")); err != nil {
		t.Fatal(err)
	}
	if got := faults.Calls(); !slices.Equal(got, steps) {
		t.Errorf("calls %q, want %q", got, steps)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("permissions %v, %v", info.Mode(), err)
	}
	if got := content(t, path); got != "the new file" {
		t.Errorf("got %q", got)
	}
}

// Whatever call fails, and however, the path holds the whole former file, or, if only the folder
// could not be synced, the whole new one; no other file is left.
func TestTheFormerFileSurvivesTheFaultOfEveryCall(t *testing.T) {
	for _, cause := range []error{syscall.ENOSPC, syscall.EIO, syscall.EROFS, io.ErrShortWrite} {
		for n, op := range steps {
			for _, short := range []int{0, 1, 100} {
				t.Run(fmt.Sprint(cause, n, op, short), func(t *testing.T) {
					dir := t.TempDir()
					path := filepath.Join(dir, "a")
					if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
						t.Fatal(err)
					}
					faults := atomicfile.Faults{NoSync: true, Short: short, Fail: func(i int, _, _ string) error {
						if i == n {
							return cause
						}
						return nil
					}}
					if err := save(&faults, path, []byte("the new file")); !errors.Is(err, cause) {
						t.Errorf("got %v, want %v", err, cause)
					}
					want := "old"
					if op == "syncdir" {
						want = "the new file"
					}
					if got := content(t, path); got != want {
						t.Errorf("the file is %q, want %q", got, want)
					}
					if got := names(t, dir); !slices.Equal(got, []string{"a"}) {
						t.Errorf("files %q", got)
					}
				})
			}
		}
	}
}

// From the fault on, nothing works any more: the temporary file stays, and is known as one.
func TestTheFormerFileSurvivesADeadDisk(t *testing.T) {
	for n, op := range steps[:len(steps)-1] {
		dir := t.TempDir()
		path := filepath.Join(dir, "a")
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		faults := atomicfile.Faults{NoSync: true, Fail: func(i int, _, _ string) error {
			if i >= n {
				return syscall.EIO
			}
			return nil
		}}
		if err := save(&faults, path, []byte("the new file")); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: got %v, want EIO", op, err)
		}
		if got := content(t, path); got != "old" {
			t.Errorf("%s: the file is %q", op, got)
		}
		left := names(t, dir)
		temporary := slices.DeleteFunc(left, func(name string) bool { return !atomicfile.IsTemporary(name) })
		if want := min(n, 1); len(temporary) != want {
			t.Errorf("%s: %d temporary files, want %d", op, len(temporary), want)
		}
	}
}

func TestWhatIsNotARegularFileIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	if _, err := atomicfile.Create(nil, dir); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a folder: got %v, want ErrInvalid", err)
	}
	if _, err := atomicfile.Create(nil, os.DevNull); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a device: got %v, want ErrInvalid", err)
	}
	if _, err := atomicfile.Create(nil, filepath.Join(dir, "none", "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing folder: got %v, want ErrNotExist", err)
	}
	// A link stays one.
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(target, []byte("old"), 0o600), os.Symlink("target", link)); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.WriteFile(nil, link, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if got := content(t, target); got != "new" {
		t.Errorf("the target is %q", got)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info.Mode(), err)
	}
}

func TestAFolderThatVanishesIsAnError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := atomicfile.Create(nil, filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func TestAnEndedReplacementIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	for _, end := range []func(f *atomicfile.File) error{(*atomicfile.File).Commit, (*atomicfile.File).Close} {
		f, err := atomicfile.Create(nil, path)
		if err != nil {
			t.Fatal(err)
		}
		if err := end(f); err != nil {
			t.Fatal(err)
		}
		_, write := f.Write([]byte("x"))
		_, writeAt := f.WriteAt([]byte("x"), 0)
		for _, err := range []error{write, writeAt, f.Commit()} {
			if !errors.Is(err, fs.ErrClosed) {
				t.Errorf("got %v, want ErrClosed", err)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestRemovingIsDurable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), 9), 0o600); err != nil {
		t.Fatal(err)
	}
	var faults atomicfile.Faults
	if err := atomicfile.Remove(&faults, path); err != nil {
		t.Fatal(err)
	}
	if got, want := faults.Calls(), []string{"remove", "syncdir"}; !slices.Equal(got, want) {
		t.Errorf("calls %q, want %q", got, want)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// A caller that overlooks the error of a write, or a short write without one, gets it from Commit.
func TestAFailedWriteIsNotCommitted(t *testing.T) {
	for _, at := range []bool{false, true} {
		dir := t.TempDir()
		faults := &atomicfile.Faults{Fail: func(_ int, op, _ string) error {
			if op == "write" && !at || op == "writeat" && at {
				return syscall.ENOSPC
			}
			return nil
		}}
		f, err := atomicfile.Create(faults, filepath.Join(dir, "a"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = f.Write([]byte("x"))
		_, _ = f.WriteAt([]byte("y"), 0)
		if err := f.Commit(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("got %v, want ENOSPC", err)
		}
		if got := names(t, dir); len(got) != 0 {
			t.Errorf("files %q", got)
		}
	}
}
