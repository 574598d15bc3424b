package s3

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/minio/minio-go/v7"
)

// RequestError reports a failed request. It unwraps to Err and, by the answer of the store, to
// fs.ErrNotExist, fs.ErrPermission or dataloader.ErrChanged.
type RequestError struct {
	Op     string // "head", "list" or "get"
	Object string // such as "s3://bucket/key"
	Status int    // of HTTP; 0 if the store did not answer
	Err    error
}

// Error returns the request and its cause.
func (e *RequestError) Error() string {
	s := fmt.Sprintf("%s %s: %v", e.Op, e.Object, e.Err)
	if e.Status != 0 {
		s += fmt.Sprintf(" (HTTP status %d)", e.Status)
	}
	if e.Status == http.StatusPreconditionFailed || e.Status == http.StatusRequestedRangeNotSatisfiable {
		s += ": the object has changed since it was opened"
	}
	return s
}

// Unwrap returns Err, and the class of the answer if it has one.
func (e *RequestError) Unwrap() []error {
	switch e.Status {
	case http.StatusNotFound:
		return []error{e.Err, fs.ErrNotExist}
	case http.StatusForbidden, http.StatusUnauthorized:
		return []error{e.Err, fs.ErrPermission}
	case http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable:
		return []error{e.Err, dataloader.ErrChanged}
	}
	return []error{e.Err}
}

// Temporary reports whether the request may succeed when it is repeated: after an answer of the
// server's that says so, and after a connection that ended before the answer.
func (e *RequestError) Temporary() bool {
	switch e.Status {
	case 0:
		return broken(e.Err)
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	}
	return e.Status >= 500 && e.Status != http.StatusNotImplemented
}

// broken reports whether err is of a connection, and not of the name or the certificate of the store.
func broken(err error) bool {
	var sent *url.Error // the client replaces the cause by a text
	var name *net.DNSError
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	if errors.As(err, &name) && name.IsNotFound || errors.As(err, &cert) || errors.As(err, &record) {
		return false
	}
	return errors.As(err, &sent) || errors.Is(err, io.ErrUnexpectedEOF)
}

// wrap returns err, of a request for key, as a RequestError.
func (b *Bucket) wrap(op, key string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	e := &RequestError{Op: op, Object: b.where(key), Err: err}
	var answer minio.ErrorResponse
	if errors.As(err, &answer) {
		e.Status = answer.StatusCode
		switch answer.Code {
		case minio.NoSuchBucket, minio.NoSuchKey:
			e.Status = http.StatusNotFound
		case minio.AccessDenied:
			e.Status = http.StatusForbidden
		}
	}
	return e
}

// isMissing reports whether err says that there is no such object.
func isMissing(err error) bool {
	var e *RequestError
	return errors.As(err, &e) && e.Status == http.StatusNotFound
}
