package dataloader_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
)

// TestCIFAR10RefusesWhatIsNoFile has a pipe among the files: to open it would wait for a writer.
func TestCIFAR10RefusesWhatIsNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pictures(t, dir, nil)
	pipe := filepath.Join(dir, "test_batch.bin")
	if err := os.Remove(pipe); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := dataloader.CIFAR10(dir)
	if !errors.Is(err, fs.ErrInvalid) || !strings.Contains(err.Error(), "want a regular file, got mode p") {
		t.Errorf("got %v", err)
	}
	wantFormat(t, err, 0, "test_batch.bin")
	_, _, err = dataloader.CIFAR10(filepath.Join(dir, "nowhere"))
	if !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "data_batch") {
		t.Errorf("got %v, want the directory to be named", err)
	}
}
