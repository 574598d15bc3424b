package s3_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader/s3"
	"github.com/evenkeel/evenkeel/dataloader/storage"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

func numbers(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// server is an object store in the test, with faults.
type server struct {
	*httptest.Server
	backend gofakes3.Backend
	quit    chan struct{}

	mu       sync.Mutex
	requests []string // method, path, and Range
	// fault answers request n, counted from 1, itself and returns true; or returns false.
	fault func(n int, w http.ResponseWriter, r *http.Request) bool
}

// newServer returns a server with a bucket "data" of objects.
func newServer(t testing.TB, objects map[string][]byte) *server {
	t.Helper()
	s := &server{backend: s3mem.New(s3mem.WithTimeSource(gofakes3.FixedTimeSource(time.Date(2026, 11, 29, 14, 30, 0, 0, time.UTC)))), quit: make(chan struct{})}
	if err := s.backend.CreateBucket("data"); err != nil {
		t.Fatal(err)
	}
	for key, data := range objects {
		s.put(t, key, data)
	}
	store := gofakes3.New(s.backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Range")))
		n, fault := len(s.requests), s.fault
		s.mu.Unlock()
		if fault == nil || !fault(n, w, r) {
			store.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		close(s.quit)
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// modified is the time of every object: the client refuses answers without one.
var modified = map[string]string{"Last-Modified": "Sun, 29 Nov 2026 14:30:00 GMT"}

// The client pauses after each request that failed, also after the last: not for long in tests.
func TestMain(m *testing.M) {
	minio.DefaultRetryUnit = time.Millisecond
	m.Run()
}

func (s *server) put(t testing.TB, key string, data []byte) {
	t.Helper()
	if _, err := s.backend.PutObject("data", key, modified, bytes.NewReader(data), int64(len(data)), nil); err != nil {
		t.Fatal(err)
	}
}

// fail sets the fault of the requests from now on, counted from 1 again.
func (s *server) fail(f func(n int, w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests, s.fault = nil, f
}

func (s *server) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

// quick repeats with pauses that a test can wait for.
var quick = storage.RetryOptions{Wait: time.Millisecond, ReadTimeout: 5 * time.Second}

func (s *server) options() s3.Options {
	return s3.Options{Endpoint: s.URL, Region: "us-east-1", Retry: quick, Credentials: credentials.NewStaticV4("key", "secret", "")}
}

func (s *server) open(t testing.TB, edit func(*s3.Options)) *s3.Bucket {
	t.Helper()
	opt := s.options()
	if edit != nil {
		edit(&opt)
	}
	b, err := s3.Open(t.Context(), "data", opt)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// status returns a fault that answers the first n requests with a status.
func status(n, code int) func(int, http.ResponseWriter, *http.Request) bool {
	return func(k int, w http.ResponseWriter, r *http.Request) bool {
		if k <= n {
			w.WriteHeader(code)
		}
		return k <= n
	}
}

// readAll reads a file through ReadAt.
func readAll(ctx context.Context, f storage.File) ([]byte, error) {
	b := make([]byte, f.Size())
	return b, storage.ReadAt(ctx, f, b, 0)
}
