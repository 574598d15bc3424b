package storagetest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/dataloader/storage"
	"github.com/evenkeel/evenkeel/dataloader/storage/storagetest"
)

var want = bytes.Repeat([]byte("abcdefg"), 100)

func fsys() fs.FS { return fstest.MapFS{"dir/a.bin": {Data: want}} }

// recorder is a testing.TB that keeps failures.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}
func (r *recorder) Logf(string, ...any) {}
func (r *recorder) Helper()             {}

// good reads a file as it should be read.
func good(ctx context.Context, fsys fs.FS) error {
	if _, err := fs.ReadDir(fsys, "dir"); err != nil {
		return err
	}
	f, err := storage.Open(fsys, "dir/a.bin")
	if err != nil {
		return err
	}
	defer f.Close()
	got := make([]byte, len(want))
	if err := storage.ReadAt(ctx, f, got[:300], 0); err != nil {
		return err
	}
	if err := storage.ReadAt(ctx, f, got[300:], 300); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("wrong data")
	}
	return nil
}

func TestAReaderThatIsRightPasses(t *testing.T) {
	t.Parallel()
	storagetest.Every(t, fsys(), good)
	storagetest.Every(t, fsys(), func(ctx context.Context, fsys fs.FS) error {
		f, err := storage.Load(ctx, fsys, "dir/a.bin", 1000)
		if err == nil {
			f.Close()
		}
		return err
	})
}

func TestMistakesOfReadersAreReported(t *testing.T) {
	t.Parallel()
	open := func(use func(ctx context.Context, f storage.File) error) func(context.Context, fs.FS) error {
		return func(ctx context.Context, fsys fs.FS) error {
			f, err := storage.Open(fsys, "dir/a.bin")
			if err != nil {
				return err
			}
			defer f.Close()
			return use(ctx, f)
		}
	}
	buf := make([]byte, len(want))
	for _, c := range []struct {
		name string
		use  func(ctx context.Context, f storage.File) error
		want string
	}{
		{"errors are lost", func(ctx context.Context, f storage.File) error {
			f.ReadAt(buf, 0)
			return nil
		}, "want an error that wraps EIO"},
		{"a short read is an error", func(ctx context.Context, f storage.File) error {
			if n, err := f.ReadAt(buf, 0); n < len(buf) {
				return fmt.Errorf("%d bytes: %w", n, err)
			}
			return nil
		}, "short read at call 4, ReadAt(700 bytes at 0) of dir/a.bin: want no error"},
		{"a panic", func(ctx context.Context, f storage.File) error {
			if _, err := f.ReadAt(buf, 0); err != nil && err != io.EOF {
				panic(err)
			}
			return nil
		}, "use panicked"},
		{"the context is lost", func(ctx context.Context, f storage.File) error {
			if err := storage.ReadAt(ctx, f, buf, 0); err != nil {
				return fmt.Errorf("it failed: %v", err)
			}
			return nil
		}, "want an error that wraps context.Canceled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &recorder{TB: t}
			storagetest.Every(r, fsys(), open(c.use))
			if !strings.Contains(strings.Join(r.failures, "\n"), c.want) {
				t.Errorf("reported %q, want one with %q", r.failures, c.want)
			}
		})
	}
	r := &recorder{TB: t}
	storagetest.Every(r, fsys(), func(context.Context, fs.FS) error { return io.EOF })
	if len(r.failures) != 2 || !strings.HasPrefix(r.failures[0], "without faults") {
		t.Errorf("a use that never works: reported %q", r.failures)
	}
}

func TestShrinkHalvesEveryFile(t *testing.T) {
	t.Parallel()
	f := storagetest.New(t.Context(), fsys(), storagetest.Shrink, 3)
	info, err := f.Stat("dir/a.bin")
	if err != nil || info.Size() != int64(len(want)) {
		t.Fatalf("before: %v, %v", info.Size(), err)
	}
	file, err := f.Open("dir/a.bin")
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(file) // the shrinking call is the first read
	if err != nil || !bytes.Equal(got, want[:len(want)/2]) {
		t.Errorf("read %d bytes, %v: want %d", len(got), err, len(want)/2)
	}
	if info, err = f.Stat("dir/a.bin"); err != nil || info.Size() != int64(len(want)/2) {
		t.Errorf("after: %v, %v", info.Size(), err)
	}
	if got := f.Call(3); !strings.HasPrefix(got, "Read(") {
		t.Errorf("call 3 is %q", got)
	}
}
