package dataloader_test

import (
	"os"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
)

// If one part is bad, the files of the other one are closed.
func TestBothPartsAreOpenOrNone(t *testing.T) {
	t.Parallel()
	open := func(dir string) (files []string) {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range fds {
			if path, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.HasPrefix(path, dir) {
				files = append(files, path)
			}
		}
		return files
	}
	for _, part := range []string{"train", "t10k"} {
		dir := digits(t, map[string][]byte{part + "-labels-idx1-ubyte": raw(8, []uint32{3}, []byte{0, 10, 1})})
		train, test, err := dataloader.OpenMNIST(dir)
		if files := open(dir); err == nil || train != nil || test != nil || files != nil {
			t.Errorf("bad labels in %s: got %v, %v, %v; open: %q", part, train, test, err, files)
		}
	}
	dir := digits(t, nil)
	train, test, err := dataloader.OpenMNIST(dir)
	if err != nil {
		t.Fatal(err)
	}
	if files := open(dir); len(files) != 2 {
		t.Errorf("open: %q, want the images of both parts", files)
	}
	train.Close()
	test.Close()
	if files := open(dir); files != nil {
		t.Errorf("open after Close: %q", files)
	}
}
