// Package s3 reads datasets from a bucket of an object store with the protocol of Amazon S3.
//
// [Open] returns a [Bucket]: the objects under a prefix as an [fs.FS], so that every format that
// opens files of an fs.FS reads them. Files are read by range requests, at any offset, and honour a
// context. A file keeps the ETag that its object had when it was opened: an object that is replaced
// meanwhile is an error that wraps dataloader.ErrChanged, never a mixture of two.
//
// Each read is one request, about 10 to 100 ms. Formats that read much at once, such as archives of
// images, need nothing else; for small reads set [Options.ReadAhead], which reads in blocks within
// a stated number of bytes.
//
// The package is a module of its own, so that its client (github.com/minio/minio-go) reaches only
// those who import it. A read allocates what one HTTP request does, about 20 KB; a read of held
// blocks allocates nothing.
package s3
