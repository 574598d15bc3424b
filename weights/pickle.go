package weights

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
)

// ErrPickle: the file is one of torch.save. Reading it would run the code in it.
var ErrPickle = errors.New("a pickle of PyTorch")

// checkPickle returns an error that wraps ErrPickle if the file of that name is one of torch.save:
// a zip archive with data.pkl, or in old versions a pickle.
func checkPickle(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return nil // whoever reads it reports it
	}
	defer file.Close()
	var first [4]byte
	if _, err := io.ReadFull(file, first[:]); err != nil {
		return nil
	}
	// torch.save began files so before version 1.6. A header of safetensors is not so long.
	pickle := first == [4]byte{0x80, 2, 0x8a, 10}
	if info, err := file.Stat(); err == nil && bytes.HasPrefix(first[:], []byte("PK")) {
		if archive, err := zip.NewReader(file, info.Size()); err == nil {
			for _, f := range archive.File {
				pickle = pickle || path.Base(f.Name) == "data.pkl"
			}
		}
	}
	if !pickle {
		return nil
	}
	return fmt.Errorf("%s: %w, which is a program: convert it with Python: from safetensors.torch import save_file; "+
		`save_file({k: v.clone() for k, v in torch.load("model.pt", weights_only=True, map_location="cpu").items()}, "model.safetensors")`,
		name, ErrPickle)
}
