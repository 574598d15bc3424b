package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/runs"
)

func TestTheCommandComparesFolders(t *testing.T) {
	dir := t.TempDir()
	a, b, page := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "all.html")
	for _, name := range []string{a, b} {
		r, err := runs.Create(t.Context(), name, runs.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := run([]string{"-o", page, a, b}, &out, io.Discard); err != nil || out.String() != page+"\n" {
		t.Errorf("%v, %q", err, &out)
	}
	text, err := os.ReadFile(page)
	if err != nil || !bytes.Contains(text, []byte(`"name":"a"`)) || !bytes.Contains(text, []byte(`"name":"b"`)) {
		t.Errorf("the page has not both runs: %v", err)
	}
	for _, args := range [][]string{{}, {dir}, {"-o", page, a, b, filepath.Join(b, "..", "a")}} {
		if err := run(args, io.Discard, io.Discard); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
