package storage_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"

	"github.com/evenkeel/evenkeel/dataloader/storage"
)

// A folder is opened, and one number is read from the middle of a file in it.
func ExampleOpen() {
	path, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(path)
	if err := os.WriteFile(filepath.Join(path, "numbers.u16"), []byte{1, 0, 2, 0, 3, 0}, 0o600); err != nil {
		log.Fatal(err)
	}

	dir, err := storage.Dir(path)
	if err != nil {
		log.Fatal(err)
	}
	defer dir.Close()
	f, err := storage.Open(dir, "numbers.u16")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	buf := make([]byte, 2)
	if err := storage.ReadAt(context.Background(), f, buf, 2); err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.Size(), "bytes; the second number is", binary.LittleEndian.Uint16(buf))
	// Output: 6 bytes; the second number is 2
}

// Files that an archive stores without compression are read in place.
func ExampleZip() {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	entry, err := w.CreateHeader(&zip.FileHeader{Name: "train/words.txt", Method: zip.Store})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprint(entry, "one two three")
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	archive, err := storage.Zip(ctx, storage.Bytes("data.zip", b.Bytes()), storage.ZipOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer archive.Close()
	names, err := fs.Glob(archive, "train/*")
	if err != nil {
		log.Fatal(err)
	}
	f, err := storage.Open(archive, names[0])
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	word := make([]byte, 3)
	if err := storage.ReadAt(ctx, f, word, 4); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n", f.Name(), word)
	// Output: data.zip/train/words.txt: two
}

// Small reads of a remote file go through at most 4 blocks of 64 KiB.
func ExampleReadAhead() {
	remote := storage.Bytes("remote.bin", make([]byte, 1<<20)) // any File
	f, err := storage.ReadAhead(remote, storage.AheadOptions{BlockBytes: 64 << 10, Blocks: 4})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	buf := make([]byte, 100)
	for off := int64(0); off+100 <= f.Size(); off += 100 {
		if err := storage.ReadAt(context.Background(), f, buf, off); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("read", f.Name())
	// Output: read remote.bin
}
