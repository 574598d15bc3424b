package dataloader

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// What stops the reading of labels is told: a disk that fails is no file of a wrong size.
func TestAnErrorWhileLabelsAreReadIsKept(t *testing.T) {
	broken, n := errors.New("disk"), cifar10.record()
	read := func(r io.Reader) error {
		return cifar10.readLabels(&ImageFiles{count: 3, labels: make([][]byte, 1)}, "train.bin", r)
	}
	before := bytes.NewReader(make([]byte, n+5))
	err := read(io.MultiReader(before, iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "train.bin: labels at byte 3078") {
		t.Errorf("got %v, want the error of the disk at byte %d", err, n+5)
	}
	if err := read(bytes.NewReader(make([]byte, n+5))); !errors.Is(err, ErrFormat) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a short file: got %v", err)
	}
}
