package s3

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/folder"
	"github.com/evenkeel/evenkeel/dataloader/storage"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Options describe a store. The zero value is Amazon S3 with the credentials of the environment.
type Options struct {
	// Endpoint is the address of the store, such as "https://minio.example.org:9000"; without a scheme
	// it means https. "" means Amazon S3.
	Endpoint string
	// Region is the region of the bucket, such as "eu-west-1"; "" asks the store for it.
	Region string
	// Prefix is the folder in the bucket that is the root of the file system, without a slash at its
	// end; "" is the whole bucket.
	Prefix string
	// Credentials sign the requests. nil means the first that is found of AWS_ACCESS_KEY_ID and
	// AWS_SECRET_ACCESS_KEY, MINIO_ROOT_USER and MINIO_ROOT_PASSWORD (or MINIO_ACCESS_KEY and
	// MINIO_SECRET_KEY), and the files of aws and mc in the home directory; where there are none,
	// requests are anonymous. For the role of a machine pass credentials.NewIAM("").
	Credentials *credentials.Credentials
	// Retry is how failed requests are repeated.
	Retry storage.RetryOptions
	// ReadAhead, if not nil, reads each open file in blocks, by [storage.ReadAhead]. Each open file
	// takes its memory. Its Retry is replaced by the one above.
	ReadAhead *storage.AheadOptions
	// MaxEntries is the most entries of a folder; 0 means 4 million, at about 300 bytes each.
	MaxEntries int
	// Transport sends the requests; nil means the client's own.
	Transport http.RoundTripper
}

// Bucket is the objects of a bucket under a prefix as an fs.FS; folders are the parts of keys before
// each "/". It implements fs.ReadDirFS and fs.StatFS. Its methods are safe for concurrent use.
type Bucket struct {
	ctx    context.Context
	core   *minio.Core
	bucket string
	opt    Options
	host   string
	secure bool // https
}

// Open returns the file system of a bucket. It makes one request, which finds a bucket that is
// missing (fs.ErrNotExist) or closed to the caller (fs.ErrPermission). ctx bounds this call and those
// of methods that take no context; [Bucket.WithContext] replaces it. A wrong option is an error that
// wraps dataloader.ErrOption.
func Open(ctx context.Context, bucket string, opt Options) (*Bucket, error) {
	if opt.Prefix != "" && !fs.ValidPath(opt.Prefix) || opt.Prefix == "." {
		return nil, fmt.Errorf("s3: prefix %q is no path such as \"a/b\": %w", opt.Prefix, dataloader.ErrOption)
	}
	if opt.MaxEntries < 0 {
		return nil, fmt.Errorf("s3: MaxEntries is %d: want 0 or more: %w", opt.MaxEntries, dataloader.ErrOption)
	}
	if opt.MaxEntries == 0 {
		opt.MaxEntries = 4_000_000
	}
	if opt.Endpoint == "" {
		opt.Endpoint = "https://s3.amazonaws.com"
	}
	if !strings.Contains(opt.Endpoint, "://") {
		opt.Endpoint = "https://" + opt.Endpoint
	}
	u, err := url.Parse(opt.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.Trim(u.Path, "/") != "" || u.User != nil {
		return nil, fmt.Errorf("s3: endpoint %q: want a scheme (https or http), a host and a port only: %w", opt.Endpoint, dataloader.ErrOption)
	}
	if opt.Credentials == nil {
		opt.Credentials = credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.EnvMinio{}, &credentials.FileAWSCredentials{}, &credentials.FileMinioClient{}})
	}
	if opt.Transport == nil {
		if opt.Transport, err = minio.DefaultTransport(u.Scheme == "https"); err != nil {
			return nil, fmt.Errorf("s3: %w", err)
		}
	}
	b := &Bucket{ctx: ctx, bucket: bucket, opt: opt, host: u.Host, secure: u.Scheme == "https"}
	if b.core, err = b.client(opt.Transport); err != nil {
		return nil, err
	}
	if _, _, err := b.list("", true); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// client returns a client of the store. It makes no request.
func (b *Bucket) client(t http.RoundTripper) (*minio.Core, error) {
	core, err := minio.NewCore(b.host, &minio.Options{Creds: b.opt.Credentials, Secure: b.secure, Region: b.opt.Region,
		Transport: t, MaxRetries: 1}) // package storage repeats requests
	if err != nil {
		return nil, fmt.Errorf("s3: endpoint %q: %w: %w", b.opt.Endpoint, err, dataloader.ErrOption)
	}
	return core, nil
}

// WithContext returns the same bucket with another context for methods that take none.
func (b *Bucket) WithContext(ctx context.Context) *Bucket {
	c := *b
	c.ctx = ctx
	return &c
}

// Close closes connections that no request uses. Open files, and the bucket itself, work on with new
// ones.
func (b *Bucket) Close() error {
	if t, ok := b.opt.Transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
	return nil
}

// Name returns the place of the bucket, such as "s3://bucket/prefix".
func (b *Bucket) Name() string { return "s3://" + path.Join(b.bucket, b.opt.Prefix) }

// key returns the key of the object at name.
func (b *Bucket) key(name string) string { return path.Join(b.opt.Prefix, name) }

// where names an object in errors.
func (b *Bucket) where(key string) string { return "s3://" + b.bucket + "/" + key }

// check returns an error if name is no path.
func check(op, name string) error {
	if !fs.ValidPath(name) {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return nil
}

// Open opens an object or a folder. An object is a [storage.File] with ReadAtContext and Version,
// its ETag.
func (b *Bucket) Open(name string) (fs.File, error) {
	info, err := b.stat("open", name)
	if err != nil {
		return nil, err
	}
	if info.dir {
		return &folder.Folder{FS: b, Path: name, Info: info}, nil
	}
	o := &object{bucket: b, key: b.key(name), info: info}
	f := &file{info: info, ctx: b.ctx}
	if b.opt.ReadAhead != nil {
		opt := *b.opt.ReadAhead
		opt.Retry = b.opt.Retry
		f.File, err = storage.ReadAhead(o, opt)
	} else {
		f.File, err = storage.Retry(o, b.opt.Retry)
	}
	if err != nil {
		return nil, err
	}
	f.remote = f.File.(storage.ContextReaderAt)
	return f, nil
}

// Stat returns a description of an object or a folder.
func (b *Bucket) Stat(name string) (fs.FileInfo, error) {
	info, err := b.stat("stat", name)
	if err != nil {
		return nil, err
	}
	return info, nil
}

// stat returns a description of an object, or of a folder if there is no such object.
func (b *Bucket) stat(op, name string) (*info, error) {
	if err := check(op, name); err != nil {
		return nil, err
	}
	if name == "." {
		return &info{name: ".", dir: true}, nil
	}
	key := b.key(name)
	var o minio.ObjectInfo
	err := b.opt.Retry.Do(b.ctx, func(ctx context.Context) (err error) {
		o, err = b.core.StatObject(ctx, b.bucket, key, minio.StatObjectOptions{})
		return b.wrap("head", key, err)
	})
	if isMissing(err) {
		if _, n, listErr := b.list(name+"/", true); listErr != nil {
			return nil, listErr
		} else if n > 0 {
			return &info{name: path.Base(name), dir: true}, nil
		}
		return nil, &fs.PathError{Op: op, Path: b.where(key), Err: fs.ErrNotExist}
	}
	if err != nil {
		return nil, err
	}
	if o.ETag == "" || o.Size < 0 {
		return nil, fmt.Errorf("%s: the store reports ETag %q and size %d: without them a change is not noticed: %w",
			b.where(key), o.ETag, o.Size, dataloader.ErrFormat)
	}
	return &info{name: path.Base(name), size: o.Size, etag: o.ETag, modified: o.LastModified.Truncate(time.Second)}, nil
}
