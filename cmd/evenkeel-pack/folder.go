package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/images"
)

// encodedFolder is a folder of images that also has the contents of the files.
type encodedFolder struct {
	*images.Folder
	root *os.Root
}

// mostFile is the most bytes of a file, as in images.FolderOptions.
const mostFile = 256 << 20

// FetchEncoded implements pack.EncodedSource, for the picture.
func (e *encodedFolder) FetchEncoded(ctx context.Context, at dataloader.At, dst, encoded [][]byte) error {
	if dst[0] != nil || dst[1] == nil {
		return fmt.Errorf("only the field x is encoded: %w", dataloader.ErrOption)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	name, label := e.Path(at.Index)
	binary.NativeEndian.PutUint32(dst[1], uint32(label))
	f, err := e.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() > mostFile {
		return &dataloader.FormatError{File: name, What: "file", Want: fmt.Sprintf("at most %d bytes", mostFile), Got: fmt.Sprint(info.Size())}
	}
	b := encoded[0]
	if int64(cap(b)) < info.Size() {
		b = make([]byte, info.Size())
	}
	encoded[0] = b[:info.Size()]
	if _, err := io.ReadFull(f, encoded[0]); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
