//go:build unix || windows

package storage_test

import (
	"errors"
	"io"
	"io/fs"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader/storage"
)

func TestAMapIsTheFile(t *testing.T) {
	data := numbers(100_000)
	dir := folder(t, map[string][]byte{"a": data, "empty": nil})
	f, err := storage.Open(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	m, mem, err := storage.Map(f)
	if err != nil {
		t.Fatal(err)
	}
	if string(mem) != string(data) || m.Size() != int64(len(data)) || m.Name() != "a" {
		t.Error("the mapped bytes differ")
	}
	buf, ctx := make([]byte, 777), t.Context()
	if n := testing.AllocsPerRun(100, func() { err = errors.Join(err, storage.ReadAt(ctx, m, buf, 4000)) }); n != 0 || err != nil {
		t.Errorf("%v allocations, %v", n, err)
	}
	if string(buf) != string(data[4000:4777]) {
		t.Error("wrong bytes")
	}
	if err := storage.ReadAt(ctx, m, buf, int64(len(data))-776); err == nil {
		t.Error("read beyond the end")
	}
	if n, err := m.ReadAt(buf, int64(len(data))+1); n != 0 || err != io.EOF {
		t.Errorf("beyond the end: %d, %v", n, err)
	}
	if _, err := m.ReadAt(buf, -1); err == nil {
		t.Error("read before the start")
	}
	if err := errors.Join(m.Close(), m.Close()); err != nil {
		t.Error(err)
	}
	if err := storage.ReadAt(ctx, m, buf, 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}

	f, err = storage.Open(dir, "empty")
	if err != nil {
		t.Fatal(err)
	}
	m, mem, err = storage.Map(f)
	if err != nil || len(mem) != 0 || m.Close() != nil {
		t.Errorf("an empty file: %v", err)
	}
	if _, _, err := storage.Map(storage.Bytes("b", data)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("bytes: %v", err)
	}
}
