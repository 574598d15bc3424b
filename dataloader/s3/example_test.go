package s3_test

import (
	"context"
	"fmt"
	"io/fs"
	"log"
	"net/http/httptest"
	"strings"

	"github.com/evenkeel/evenkeel/dataloader/s3"
	"github.com/evenkeel/evenkeel/dataloader/storage"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// The objects under a prefix are listed, and a part of one is read. A real program names its own
// store and bucket, and takes the credentials of its environment.
func ExampleOpen() {
	store := s3mem.New()
	server := httptest.NewServer(gofakes3.New(store).Server())
	defer server.Close()
	if err := store.CreateBucket("data"); err != nil {
		log.Fatal(err)
	}
	meta := map[string]string{"Last-Modified": "Sun, 29 Nov 2026 14:30:00 GMT"}
	if _, err := store.PutObject("data", "train/numbers.txt", meta, strings.NewReader("one two three"), 13, nil); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	bucket, err := s3.Open(ctx, "data", s3.Options{
		Endpoint: server.URL, Region: "us-east-1", Prefix: "train",
		Credentials: credentials.NewStaticV4("key", "secret", ""), // leave it out to use those of the environment
		ReadAhead:   &storage.AheadOptions{BlockBytes: 1 << 20, Blocks: 4},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer bucket.Close()
	entries, err := fs.ReadDir(bucket, ".")
	if err != nil {
		log.Fatal(err)
	}
	f, err := storage.Open(bucket, entries[0].Name())
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	word := make([]byte, 3)
	if err := storage.ReadAt(ctx, f, word, 4); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s has %d bytes; the second word is %q\n", f.Name(), f.Size(), word)
	// Output: s3://data/train/numbers.txt has 13 bytes; the second word is "two"
}
