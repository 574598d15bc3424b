package s3_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/s3"
	"github.com/evenkeel/evenkeel/dataloader/storage"
)

// openA returns the file "a" of 1,000 bytes, and its server.
func openA(t *testing.T, edit func(*s3.Options)) (*server, storage.File) {
	t.Helper()
	s := newServer(t, map[string][]byte{"a": numbers(1000)})
	f, err := storage.Open(s.open(t, edit), "a")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	s.fail(nil)
	return s, f
}

// cut answers a GET with the first n bytes of its range and breaks the connection.
func cut(w http.ResponseWriter, etag string, n int) {
	w.Header().Set("Content-Length", "1000")
	w.Header().Set("Content-Range", "bytes 0-999/1000")
	w.Header().Set("Etag", `"`+etag+`"`)
	w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
	w.WriteHeader(http.StatusPartialContent)
	w.Write(numbers(1000)[:n])
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func TestFaultsThatPassAreRepeated(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(s *server, etag string) func(int, http.ResponseWriter, *http.Request) bool{
		"500": func(*server, string) func(int, http.ResponseWriter, *http.Request) bool { return status(2, 500) },
		"503": func(*server, string) func(int, http.ResponseWriter, *http.Request) bool { return status(3, 503) },
		"429": func(*server, string) func(int, http.ResponseWriter, *http.Request) bool { return status(1, 429) },
		"a broken connection": func(*server, string) func(int, http.ResponseWriter, *http.Request) bool {
			return func(n int, _ http.ResponseWriter, _ *http.Request) bool {
				if n <= 2 {
					panic(http.ErrAbortHandler)
				}
				return false
			}
		},
		"a cut body": func(_ *server, etag string) func(int, http.ResponseWriter, *http.Request) bool {
			return func(n int, w http.ResponseWriter, _ *http.Request) bool {
				if n == 1 {
					cut(w, etag, 300)
				}
				return false
			}
		},
		"a stall": func(s *server, _ string) func(int, http.ResponseWriter, *http.Request) bool {
			return func(n int, _ http.ResponseWriter, r *http.Request) bool {
				if n > 1 {
					return false
				}
				select {
				case <-r.Context().Done():
				case <-s.quit:
				}
				return true
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, f := openA(t, func(o *s3.Options) {
				if name == "a stall" {
					o.Retry.ReadTimeout = 300 * time.Millisecond
				}
			})
			s.fail(fault(s, storage.Version(f)))
			got, err := readAll(t.Context(), f)
			if err != nil || !bytes.Equal(got, numbers(1000)) {
				t.Errorf("got %v", err)
			}
			requests := s.seen()
			if len(requests) < 2 {
				t.Errorf("requests %q: the fault did not occur", requests)
			}
			if last := requests[len(requests)-1]; name == "a cut body" && last != "GET /data/a bytes=300-999" {
				t.Errorf("the last request is %q, want the rest", last)
			}
		})
	}
}

func TestOpenAndStatAreRepeated(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]byte{"a": numbers(10)})
	s.fail(status(2, 503))
	b := s.open(t, nil)
	s.fail(status(2, 500))
	if info, err := b.Stat("a"); err != nil || info.Size() != 10 {
		t.Errorf("got %v", err)
	}
}

func TestFaultsThatStayAreErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status, attempts int
		want             error
	}{{500, 5, nil}, {403, 1, fs.ErrPermission}, {404, 1, fs.ErrNotExist}, {412, 1, dataloader.ErrChanged}, {416, 1, dataloader.ErrChanged}, {400, 1, nil}, {501, 1, nil}} {
		s, f := openA(t, nil)
		s.fail(status(1000, c.status))
		_, err := readAll(t.Context(), f)
		var e *s3.RequestError
		if !errors.As(err, &e) || e.Status != c.status || e.Op != "get" || e.Object != "s3://data/a" || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("status %d: %v", c.status, err)
		}
		if n := len(s.seen()); n != c.attempts {
			t.Errorf("status %d: %d attempts, want %d", c.status, n, c.attempts)
		}
	}
}

func TestAnObjectThatChangedIsAnError(t *testing.T) {
	t.Parallel()
	for _, checks := range []bool{false, true} { // whether the store itself heeds If-Match
		s, f := openA(t, nil)
		etag := storage.Version(f)
		s.fail(func(_ int, w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("If-Match") != `"`+etag+`"` {
				t.Errorf("If-Match is %q", r.Header.Get("If-Match"))
			}
			if checks {
				w.WriteHeader(http.StatusPreconditionFailed)
			}
			return checks
		})
		other := numbers(1001)[1:] // of the same size
		s.put(t, "a", other)
		if _, err := readAll(t.Context(), f); !errors.Is(err, dataloader.ErrChanged) {
			t.Errorf("the store checks: %v; got %v", checks, err)
		}
		if n := len(s.seen()); n != 1 {
			t.Errorf("%d requests", n)
		}
	}
	s, f := openA(t, nil)
	s.put(t, "a", numbers(10)) // shorter
	if err := storage.ReadAt(t.Context(), f, make([]byte, 10), 500); !errors.Is(err, dataloader.ErrChanged) {
		t.Errorf("a shorter object: %v", err)
	}
}

func TestAStoreThatIgnoresRangesIsAnError(t *testing.T) {
	t.Parallel()
	s, f := openA(t, nil)
	etag := storage.Version(f)
	s.fail(func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Etag", `"`+etag+`"`)
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		w.Write(numbers(1000))
		return true
	})
	if err := storage.ReadAt(t.Context(), f, make([]byte, 10), 500); !errors.Is(err, dataloader.ErrFormat) {
		t.Errorf("got %v", err)
	}
}

func TestAReadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, ahead := range []*storage.AheadOptions{nil, {}} {
		s, f := openA(t, func(o *s3.Options) { o.ReadAhead = ahead })
		s.fail(func(_ int, _ http.ResponseWriter, r *http.Request) bool {
			select {
			case <-r.Context().Done():
			case <-s.quit:
			}
			return true
		})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		start := time.Now()
		if err := storage.ReadAt(ctx, f, make([]byte, 10), 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if err := f.Close(); err != nil || time.Since(start) > 4*time.Second {
			t.Errorf("Close: %v after %v", err, time.Since(start))
		}
	}
}

func TestReadGoesThroughFaults(t *testing.T) {
	t.Parallel()
	data := numbers(2<<20 + 5)
	s := newServer(t, map[string][]byte{"a": data})
	f, err := s.open(t, nil).Open("a")
	if err != nil {
		t.Fatal(err)
	}
	s.fail(func(n int, w http.ResponseWriter, r *http.Request) bool { return n%2 == 1 && status(n, 500)(n, w, r) })
	got, err := io.ReadAll(f)
	if err != nil || !bytes.Equal(got, data) || len(s.seen()) != 6 {
		t.Errorf("%d bytes in %d requests, %v", len(got), len(s.seen()), err)
	}
}
