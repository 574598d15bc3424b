package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/evenkeel/evenkeel/internal/peer/python"
)

// prepare makes the data in f.dir that are not there yet.
func prepare(ctx context.Context, f flags) error {
	done := filepath.Join(f.dir, "made")
	if _, err := os.Stat(done); errors.Is(err, fs.ErrNotExist) {
		if err := makeFiles(f.dir); err != nil {
			return err
		}
		if f.peer != "" {
			if _, err := python.Run(ctx, f.peer, script, nil, "-make", "-dir", f.dir); err != nil {
				return err
			}
		}
		return os.WriteFile(done, nil, 0o666)
	}
	return nil
}
