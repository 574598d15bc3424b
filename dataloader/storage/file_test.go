package storage_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/storage"
)

// readerAt is a ReaderAt made of a function.
type readerAt func(p []byte, off int64) (int, error)

func (f readerAt) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }

// remote is a ReaderAt with ReadAtContext.
type remote struct {
	readerAt
	f func(ctx context.Context, p []byte, off int64) (int, error)
}

func (r remote) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	return r.f(ctx, p, off)
}

func numbers(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

func TestReadAtFillsOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	data := numbers(1000)
	eio := errors.New("the disk failed")
	whole := bytes.NewReader(data)
	for _, c := range []struct {
		name string
		f    io.ReaderAt
		off  int64
		n    int
		want error
		at   int64 // offset in the error
	}{
		{"all", whole, 0, 1000, nil, 0},
		{"nothing at the end", whole, 1000, 0, nil, 0},
		{"the last byte", whole, 999, 1, nil, 0},
		{"one byte too many", whole, 999, 2, io.ErrUnexpectedEOF, 1000},
		{"beyond the end", whole, 2000, 1, io.ErrUnexpectedEOF, 2000},
		{"negative", whole, -1, 1, dataloader.ErrOption, -1},
		{"short reads", readerAt(func(p []byte, off int64) (int, error) { return whole.ReadAt(p[:(len(p)+2)/3], off) }), 10, 990, nil, 0},
		{"no progress", readerAt(func(p []byte, off int64) (int, error) { return 0, nil }), 0, 1, io.ErrNoProgress, 0},
		{"too many", readerAt(func(p []byte, off int64) (int, error) { return len(p) + 1, nil }), 0, 1, io.ErrNoProgress, 0},
		{"fewer than none", readerAt(func(p []byte, off int64) (int, error) { return -1, nil }), 0, 1, io.ErrNoProgress, 0},
		{"half, then an error", readerAt(func(p []byte, off int64) (int, error) { n, _ := whole.ReadAt(p[:len(p)/2], off); return n, eio }), 0, 10, eio, 5},
		{"all, and an error", readerAt(func(p []byte, off int64) (int, error) { n, _ := whole.ReadAt(p, off); return n, eio }), 0, 10, nil, 0},
		{"all, and the end", readerAt(func(p []byte, off int64) (int, error) { n, _ := whole.ReadAt(p, off); return n, io.EOF }), 0, 10, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			buf := make([]byte, c.n)
			err := storage.ReadAt(t.Context(), c.f, buf, c.off)
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if err == nil {
				if !bytes.Equal(buf, data[c.off:c.off+int64(c.n)]) {
					t.Error("wrong bytes")
				}
				return
			}
			var e *storage.ReadError
			if !errors.As(err, &e) || e.Offset != c.at {
				t.Errorf("got %v, want a ReadError at byte %d", err, c.at)
			}
		})
	}
}

func TestReadAtHonoursAContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	local := readerAt(func(p []byte, off int64) (int, error) { calls++; cancel(); return len(p), nil })
	err := storage.ReadAt(ctx, local, make([]byte, 8<<20+1), 0)
	if !errors.Is(err, context.Canceled) || calls != 1 {
		t.Errorf("a large read: %v after %d calls, want the context's error after 1", err, calls)
	}
	if err := storage.ReadAt(ctx, local, make([]byte, 1), 0); !errors.Is(err, context.Canceled) || calls != 1 {
		t.Errorf("a done context: %v after %d calls", err, calls)
	}

	ctx, cancel = context.WithCancel(t.Context())
	far := remote{local, func(ctx context.Context, p []byte, off int64) (int, error) {
		cancel()
		<-ctx.Done()
		return 0, ctx.Err()
	}}
	if err := storage.ReadAt(ctx, far, make([]byte, 1), 0); !errors.Is(err, context.Canceled) || calls != 1 {
		t.Errorf("a file that takes a context: %v after %d calls of ReadAt", err, calls)
	}
	if _, err := io.ReadAll(storage.Section(ctx, local, 0, 5)); !errors.Is(err, context.Canceled) || calls != 1 {
		t.Errorf("a section: %v", err)
	}
}

func TestASectionIsPartOfAFile(t *testing.T) {
	t.Parallel()
	data := numbers(1000)
	r := bytes.NewReader(data)
	far := remote{r.ReadAt, func(_ context.Context, p []byte, off int64) (int, error) { return r.ReadAt(p, off) }}
	for _, f := range []io.ReaderAt{r, far} {
		got, err := io.ReadAll(storage.Section(t.Context(), f, 100, 300))
		if err != nil || !bytes.Equal(got, data[100:400]) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
}

func TestReadAtAllocatesNothing(t *testing.T) {
	dir := folder(t, map[string][]byte{"a": numbers(1000)})
	f, err := storage.Open(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx, buf := t.Context(), make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() { err = errors.Join(err, storage.ReadAt(ctx, f, buf, 500)) }); n != 0 || err != nil {
		t.Errorf("%v allocations, %v", n, err)
	}
}

func TestFingerprintsTellFilesApart(t *testing.T) {
	t.Parallel()
	a := storage.Bytes("x/a.bin", numbers(10))
	same := storage.Bytes("y/a.bin", make([]byte, 10))
	if storage.Fingerprint(a) != storage.Fingerprint(same) {
		t.Error("the folder counts")
	}
	for name, other := range map[string]storage.File{
		"name": storage.Bytes("x/b.bin", numbers(10)), "size": storage.Bytes("x/a.bin", numbers(11)), "version": versioned{a},
	} {
		if storage.Fingerprint(a) == storage.Fingerprint(other) {
			t.Errorf("another %s has the same fingerprint", name)
		}
	}
	if got := storage.Version(versioned{a}); got != "7" {
		t.Errorf("version %q", got)
	}
	if got := storage.Version(a); got != "" {
		t.Errorf("version of a file without one: %q", got)
	}
}

type versioned struct{ storage.File }

func (versioned) Version() string { return "7" }

func TestDigestIsSHA256(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 256 << 10, 256<<10 + 1, 700_000} {
		f := storage.Bytes("a", numbers(n))
		got, err := storage.Digest(t.Context(), f)
		if err != nil || got != sha(numbers(n)) {
			t.Errorf("%d bytes: %x, %v", n, got, err)
		}
	}
	f := storage.Bytes("a", numbers(10))
	f.Close()
	if _, err := storage.Digest(t.Context(), f); err == nil {
		t.Error("a closed file has a digest")
	}
}
