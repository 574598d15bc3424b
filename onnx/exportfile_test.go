package onnx

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/evenkeel/evenkeel/internal/atomicfile"
	"github.com/evenkeel/evenkeel/internal/onnxmodels"
)

// TestAFailedExportLeavesTheFormerFile makes each call of the file system fail in turn.
func TestAFailedExportLeavesTheFormerFile(t *testing.T) {
	model := onnxmodels.Named("mlp").Build
	for n := 0; ; n++ {
		dir := t.TempDir()
		path := filepath.Join(dir, "model.onnx")
		if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
			t.Fatal(err)
		}
		failed := ""
		fs := &atomicfile.Faults{NoSync: true, Short: 100, Fail: func(k int, op, _ string) error {
			if k == n {
				failed = op
				return syscall.ENOSPC
			}
			return nil
		}}
		_, err := exportFile(t.Context(), fs, path, model, ExportOptions{})
		if failed == "" {
			if n < 4 || err != nil {
				t.Errorf("%d calls, error %v", n, err)
			}
			return
		}
		name := fmt.Sprintf("call %d, %s", n, failed)
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: error %v", name, err)
		}
		b, err := os.ReadFile(path)
		if failed == "syncdir" { // the last step: the new file is there
			_, err := Parse(b, Options{})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if string(b) != "before" || err != nil {
			t.Errorf("%s: the file has %d bytes, error %v", name, len(b), err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.Contains(e.Name(), "tmp") && failed != "remove" {
				t.Errorf("%s: %s is left", name, e.Name())
			}
		}
	}
}
