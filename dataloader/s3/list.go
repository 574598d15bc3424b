package s3

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/minio/minio-go/v7"
)

// ReadDir returns the objects and folders in the folder at name, sorted by the bytes of their names.
// A key that is no path of an fs.FS (such as "a//b"), and one that is both an object and a folder,
// is an error that names it.
func (b *Bucket) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := check("readdir", name); err != nil {
		return nil, err
	}
	prefix := name + "/"
	if name == "." {
		prefix = ""
	}
	infos, n, err := b.list(prefix, false)
	if err != nil {
		return nil, err
	}
	if n == 0 && name != "." {
		info, err := b.stat("readdir", name)
		if err == nil && !info.dir {
			err = &fs.PathError{Op: "readdir", Path: b.where(b.key(name)), Err: fs.ErrInvalid}
		}
		return nil, err
	}
	out := make([]fs.DirEntry, len(infos))
	for i := range infos {
		out[i] = fs.FileInfoToDirEntry(&infos[i])
	}
	return out, nil
}

// list returns what is in the folder with the given prefix of names, sorted, and the number of keys,
// among them one of the folder itself. With first set it stops after one key. Each page of 1,000 keys
// is a request, repeated by itself.
func (b *Bucket) list(prefix string, first bool) ([]info, int, error) {
	l := listing{bucket: b, prefix: prefix}
	if b.opt.Prefix != "" {
		l.prefix = b.opt.Prefix + "/" + prefix
	}
	send := &contextTransport{base: b.opt.Transport}
	core, err := b.client(send)
	if err != nil {
		return nil, 0, err
	}
	most, token, empty := 1000, "", 0
	if first {
		most = 1
	}
	for {
		var page minio.ListBucketV2Result
		err := b.opt.Retry.Do(b.ctx, func(ctx context.Context) (err error) {
			send.ctx = ctx
			page, err = core.ListObjectsV2(b.bucket, l.prefix, "", token, "/", most)
			return b.wrap("list", l.prefix, err)
		})
		if err != nil {
			return nil, 0, err
		}
		if first {
			return nil, len(page.Contents) + len(page.CommonPrefixes), nil
		}
		if err := l.add(page); err != nil {
			return nil, 0, err
		}
		if !page.IsTruncated {
			infos, err := l.sorted()
			return infos, l.keys, err
		}
		if empty++; len(page.Contents)+len(page.CommonPrefixes) > 0 {
			empty = 0
		}
		if token = page.NextContinuationToken; token == "" || empty > maxEmpty {
			return nil, 0, &dataloader.FormatError{File: b.where(l.prefix), What: "listing", Want: "more keys, or an end",
				Got: fmt.Sprintf("token %q after %d pages without keys", token, empty)}
		}
	}
}

// maxEmpty is how many pages without keys may follow each other.
const maxEmpty = 100

// contextTransport sends the requests of a client with a context: the call for one page of a listing
// takes none.
type contextTransport struct {
	base http.RoundTripper
	ctx  context.Context // replaced between requests
}

// RoundTrip implements http.RoundTripper.
func (c *contextTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return c.base.RoundTrip(r.WithContext(c.ctx))
}

// listing collects a folder.
type listing struct {
	bucket *Bucket
	prefix string
	folder string // the last one
	keys   int
	infos  []info
}

// add adds the objects and folders of a page.
func (l *listing) add(page minio.ListBucketV2Result) error {
	for _, o := range page.Contents {
		if strings.HasSuffix(o.Key, "/") { // the mark of a folder, which some stores list as an object
			page.CommonPrefixes = append(page.CommonPrefixes, minio.CommonPrefix{Prefix: o.Key})
			continue
		}
		if err := l.entry(o.Key, info{size: o.Size, etag: strings.Trim(o.ETag, `"`), modified: o.LastModified.Truncate(time.Second)}); err != nil {
			return err
		}
	}
	slices.SortFunc(page.CommonPrefixes, func(a, b minio.CommonPrefix) int { return cmp.Compare(a.Prefix, b.Prefix) })
	for _, p := range page.CommonPrefixes {
		if p.Prefix == l.folder {
			continue // some stores repeat it on the next page
		}
		l.folder = p.Prefix
		if err := l.entry(p.Prefix, info{dir: true}); err != nil {
			return err
		}
	}
	return nil
}

// entry adds what is at key, which ends in "/" for a folder.
func (l *listing) entry(key string, i info) error {
	l.keys++
	rest, ok := strings.CutPrefix(key, l.prefix)
	if rest == "" && ok {
		return nil // the folder itself
	}
	i.name = rest
	if i.dir {
		i.name = strings.TrimSuffix(rest, "/")
	}
	if !ok || !fs.ValidPath(i.name) || i.name == "." || strings.Contains(i.name, "/") {
		return fmt.Errorf("%s: the key is no path of names between single slashes: leave it out by a prefix, or copy it: %w",
			l.bucket.where(key), fs.ErrInvalid)
	}
	if len(l.infos) == l.bucket.opt.MaxEntries {
		return fmt.Errorf("%s: more than MaxEntries, %d, entries: raise it, or use folders: %w",
			l.bucket.where(l.prefix), l.bucket.opt.MaxEntries, dataloader.ErrOption)
	}
	l.infos = append(l.infos, i)
	return nil
}

// sorted returns the entries by name, each once.
func (l *listing) sorted() ([]info, error) {
	slices.SortFunc(l.infos, func(a, b info) int { return cmp.Compare(a.name, b.name) })
	for i := 1; i < len(l.infos); i++ {
		if l.infos[i].name == l.infos[i-1].name {
			return nil, fmt.Errorf("%s is in the listing twice, as an object and a folder: rename one: %w",
				l.bucket.where(l.prefix+l.infos[i].name), fs.ErrInvalid)
		}
	}
	return l.infos, nil
}

// info describes an object or a folder.
type info struct {
	name     string
	size     int64
	etag     string
	modified time.Time
	dir      bool
}

func (i *info) Name() string       { return i.name }
func (i *info) Size() int64        { return i.size }
func (i *info) ModTime() time.Time { return i.modified }
func (i *info) IsDir() bool        { return i.dir }
func (i *info) Sys() any           { return nil }

// Mode implements fs.FileInfo.
func (i *info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o555
	}
	return 0o444
}
