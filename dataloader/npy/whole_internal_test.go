package npy

import (
	"io"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/dataloader/storage"
)

func TestReadsAreShortOnlyAtTheEnd(t *testing.T) {
	f, err := storage.Open(fstest.MapFS{"f": {Data: []byte("four")}}, "f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := make([]byte, 3)
	for off, want := range []int{3, 3, 2, 1, 0, 0} {
		n, err := whole{t.Context(), f}.ReadAt(p, int64(off))
		if n != want || (err == io.EOF) != (want < 3) || string(p[:n]) != "four"[min(off, 4):][:want] {
			t.Errorf("at %d: %d bytes, %v", off, n, err)
		}
	}
}
