package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/s3"
	"github.com/evenkeel/evenkeel/dataloader/storage"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"go.uber.org/goleak"
)

func TestABucketIsAFileSystem(t *testing.T) {
	t.Parallel()
	objects := map[string][]byte{
		"set/a.bin": numbers(1000), "set/b/1": numbers(10), "set/b/2": nil, "set/a-b/x": numbers(20), "set/c d+é/y": numbers(30), "other": numbers(5),
	}
	s := newServer(t, objects)
	b := s.open(t, func(o *s3.Options) { o.Prefix = "set" })
	if err := fstest.TestFS(b, "a.bin", "b/1", "b/2", "a-b/x", "c d+é/y"); err != nil {
		t.Error(err)
	}
	entries, err := b.ReadDir(".")
	var names []string
	for _, e := range entries {
		names = append(names, fmt.Sprint(e.Name(), e.IsDir()))
	}
	if got := strings.Join(names, " "); got != "a-btrue a.binfalse btrue c d+étrue" || err != nil {
		t.Errorf("entries %q, %v", got, err)
	}
	for key, want := range objects {
		name, ok := strings.CutPrefix(key, "set/")
		if !ok {
			continue
		}
		f, err := storage.Open(b, name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := readAll(t.Context(), f)
		if err != nil || !bytes.Equal(got, want) || f.Name() != "s3://data/"+key || storage.Version(f) == "" {
			t.Errorf("%s: %d bytes, version %q, %v", f.Name(), len(got), storage.Version(f), err)
		}
		if n, err := f.ReadAt(make([]byte, 5), f.Size()-int64(min(len(want), 2))); n != min(len(want), 2) || err != io.EOF {
			t.Errorf("%s: at the end %d, %v", name, n, err)
		}
		if err := errors.Join(f.Close(), f.Close()); err != nil {
			t.Error(err)
		}
		if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	for _, name := range []string{"z", "b/3", "other", "a"} {
		if _, err := storage.Open(b, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := b.ReadDir(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("entries of %s: %v", name, err)
		}
	}
	if _, err := b.ReadDir("a.bin"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("entries of a file: %v", err)
	}
	if _, err := storage.Open(b, "b"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("open of a folder: %v", err)
	}
	if b.Name() != "s3://data/set" {
		t.Errorf("name %q", b.Name())
	}
}

func TestAReadIsOneRequestForItsRange(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]byte{"a": numbers(1000)})
	f, err := storage.Open(s.open(t, nil), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s.fail(nil)
	buf := make([]byte, 100)
	if err := storage.ReadAt(t.Context(), f, buf, 300); err != nil || !bytes.Equal(buf, numbers(1000)[300:400]) {
		t.Errorf("got %v", err)
	}
	if got := s.seen(); !slices.Equal(got, []string{"GET /data/a bytes=300-399"}) {
		t.Errorf("requests %q", got)
	}
}

func TestReadAheadJoinsSmallReads(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]byte{"a": numbers(1000)})
	b := s.open(t, func(o *s3.Options) { o.ReadAhead = &storage.AheadOptions{BlockBytes: 400, Blocks: 3, Ahead: -1} })
	f, err := storage.Open(b, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s.fail(nil)
	var got []byte
	for off := int64(0); off < 1000; off += 10 {
		buf := make([]byte, 10)
		if err := storage.ReadAt(t.Context(), f, buf, off); err != nil {
			t.Fatal(err)
		}
		got = append(got, buf...)
	}
	if !bytes.Equal(got, numbers(1000)) || len(s.seen()) != 3 || storage.Version(f) == "" {
		t.Errorf("%d requests, want 3: %q", len(s.seen()), s.seen())
	}
}

func TestListingsOfManyPagesAreSorted(t *testing.T) {
	t.Parallel()
	objects := map[string][]byte{}
	var want []string
	for i := range 2300 { // a page has 1,000
		name := fmt.Sprintf("%04d", i)
		want = append(want, name)
		if i%3 == 0 {
			objects["d/"+name+"/x"] = nil
			objects["d/"+name+"/y"] = nil
		} else {
			objects["d/"+name] = nil
		}
	}
	s := newServer(t, objects)
	b := s.open(t, nil)
	// Every second request fails: the listing goes on after the last key.
	s.fail(func(n int, w http.ResponseWriter, r *http.Request) bool { return n%2 == 1 && status(n, 503)(n, w, r) })
	entries, err := b.ReadDir("d")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d entries, want %d, sorted", len(got), len(want))
	}
	if n := len(s.seen()); n != 6 {
		t.Errorf("%d requests for 3 pages of which each failed once: %q", n, s.seen())
	}
	b = s.open(t, func(o *s3.Options) { o.MaxEntries = 2300 })
	if entries, err := b.ReadDir("d"); len(entries) != 2300 || err != nil {
		t.Errorf("exactly MaxEntries: %d, %v", len(entries), err)
	}
	b = s.open(t, func(o *s3.Options) { o.MaxEntries = 2299 })
	if _, err := b.ReadDir("d"); !errors.Is(err, dataloader.ErrOption) || !strings.Contains(err.Error(), "MaxEntries") {
		t.Errorf("above MaxEntries: %v", err)
	}
}

func TestListingsWithoutEndAreErrors(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	b := s.open(t, nil)
	s.fail(func(n int, w http.ResponseWriter, _ *http.Request) bool {
		fmt.Fprintf(w, `<ListBucketResult><Name>data</Name><IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken></ListBucketResult>`, n)
		return true
	})
	if _, err := b.ReadDir("d"); !errors.Is(err, dataloader.ErrFormat) || len(s.seen()) > 200 {
		t.Errorf("after %d requests: %v", len(s.seen()), err)
	}
	s.fail(func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		fmt.Fprint(w, `<ListBucketResult><Name>data</Name><IsTruncated>true</IsTruncated></ListBucketResult>`)
		return true
	})
	if _, err := b.ReadDir("d"); err == nil || len(s.seen()) > 10 {
		t.Errorf("no token: %d requests, %v", len(s.seen()), err)
	}
}

func TestKeysThatAreNoPathsAreNamed(t *testing.T) {
	t.Parallel()
	for key, others := range map[string]string{"d/a//b": "d/x", "d/../x": "d/y", "d/./x": "d/z", "d/a": "d/a/b"} {
		s := newServer(t, map[string][]byte{key: nil, others: nil})
		_, err := s.open(t, nil).ReadDir("d")
		if key == "d/a//b" { // the empty name is in the folder below
			_, err = s.open(t, nil).ReadDir("d/a")
		}
		if !errors.Is(err, fs.ErrInvalid) || !strings.Contains(err.Error(), "s3://data/d/") {
			t.Errorf("%s and %s: %v", key, others, err)
		}
	}
	s := newServer(t, map[string][]byte{"d/": nil, "d/a": nil}) // the mark that some tools write for a folder
	if entries, err := s.open(t, nil).ReadDir("d"); len(entries) != 1 || err != nil {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}

func TestOpenFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	if _, err := s3.Open(t.Context(), "nothing", s.options()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a bucket that is missing: %v", err)
	}
	s.fail(status(1, http.StatusForbidden))
	var e *s3.RequestError
	if _, err := s3.Open(t.Context(), "data", s.options()); !errors.Is(err, fs.ErrPermission) || !errors.As(err, &e) || e.Status != 403 || e.Op != "list" {
		t.Errorf("a bucket that is closed: %v", err)
	}
	if n := len(s.seen()); n != 1 {
		t.Errorf("%d requests for a final answer", n)
	}
	for _, edit := range []func(*s3.Options){
		func(o *s3.Options) { o.Endpoint = "ftp://x" },
		func(o *s3.Options) { o.Endpoint = "http://x/path" },
		func(o *s3.Options) { o.Endpoint = "http://user:word@x" },
		func(o *s3.Options) { o.Endpoint = "http://" },
		func(o *s3.Options) { o.Prefix = "a/" },
		func(o *s3.Options) { o.Prefix = "." },
		func(o *s3.Options) { o.MaxEntries = -1 },
		func(o *s3.Options) { o.Retry.Attempts = -1 },
	} {
		opt := s.options()
		edit(&opt)
		if _, err := s3.Open(t.Context(), "data", opt); !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("%+v: %v", opt, err)
		}
	}
	opt := s.options()
	opt.Endpoint, opt.Retry.Attempts = "http://127.0.0.1:1", 2
	var retried *storage.RetryError
	if _, err := s3.Open(t.Context(), "data", opt); !errors.As(err, &retried) || retried.Attempts != 2 {
		t.Errorf("no server: %v", err)
	}
}

func TestRequestsAreSignedWithTheEnvironmentsCredentials(t *testing.T) {
	for _, c := range []struct{ key, secret string }{{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}, {"MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD"}, {}} {
		t.Run(c.key, func(t *testing.T) {
			for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY", "MINIO_ROOT_USER",
				"MINIO_ROOT_PASSWORD", "MINIO_ACCESS_KEY", "MINIO_SECRET_KEY", "AWS_SHARED_CREDENTIALS_FILE", "AWS_PROFILE"} {
				t.Setenv(name, "")
			}
			t.Setenv("HOME", t.TempDir())
			if c.key != "" {
				t.Setenv(c.key, "WHO")
				t.Setenv(c.secret, "why")
			}
			s := newServer(t, nil)
			signed := make(chan string, 1)
			s.fail(func(_ int, _ http.ResponseWriter, r *http.Request) bool {
				signed <- r.Header.Get("Authorization")
				return false
			})
			s.open(t, func(o *s3.Options) { o.Credentials = nil })
			if got := <-signed; strings.Contains(got, "Credential=WHO/") != (c.key != "") || c.key == "" && got != "" {
				t.Errorf("authorization %q", got)
			}
		})
	}
}

func TestContextsOfABucket(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]byte{"a": numbers(10)})
	b := s.open(t, nil)
	s.fail(func(_ int, _ http.ResponseWriter, r *http.Request) bool { // a server that says nothing
		select {
		case <-r.Context().Done():
		case <-s.quit:
		}
		return true
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := b.WithContext(ctx).Open("a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("open: %v", err)
	}
	if _, err := b.WithContext(ctx).ReadDir("."); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("list: %v", err)
	}
	if d := time.Since(start); d > 4*time.Second {
		t.Errorf("it took %v", d)
	}
	opt := s.options()
	opt.Credentials = credentials.NewStaticV4("k", "s", "")
	if _, err := s3.Open(ctx, "data", opt); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("s3.Open: %v", err)
	}
}

func TestCertificatesThatAreNotTrustedAreFinal(t *testing.T) {
	t.Parallel()
	connections := 0
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections++
		}
	}
	s.StartTLS()
	_, err := s3.Open(t.Context(), "data", s3.Options{Endpoint: s.URL, Region: "us-east-1", Retry: quick})
	s.Close()
	var e *s3.RequestError
	if !errors.As(err, &e) || e.Status != 0 || connections != 1 {
		t.Errorf("%d connections: %v", connections, err)
	}
}

func TestNoGoroutineRemains(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s := newServer(t, map[string][]byte{"a": numbers(1000)})
	b := s.open(t, func(o *s3.Options) { o.ReadAhead = &storage.AheadOptions{BlockBytes: 100} })
	f, err := storage.Open(b, "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readAll(t.Context(), f); err != nil {
		t.Error(err)
	}
	if err := errors.Join(f.Close(), b.Close()); err != nil {
		t.Error(err)
	}
	s.Close()
	goleak.VerifyNone(t, before)
}
