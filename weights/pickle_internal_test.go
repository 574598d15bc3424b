package weights

import (
	"archive/zip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// zipped writes an archive of one file.
func zipped(t *testing.T, path, name string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z := zip.NewWriter(file)
	if _, err := z.Create(name); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestPicklesAreRefusedWithTheWayToConvertThem(t *testing.T) {
	dir := t.TempDir()
	name := func(s string) string { return filepath.Join(dir, s) }
	zipped(t, name("new.pt"), "model/data.pkl")
	zipped(t, name("arrays.npz"), "w.npy")
	for file, text := range map[string]string{"old.pth": "\x80\x02\x8a\n\x6c", "w.safetensors": "\x80\x02\x00\x00\x00\x00\x00\x00", "empty": ""} {
		if err := os.WriteFile(name(file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for file, pickle := range map[string]bool{"new.pt": true, "old.pth": true, "arrays.npz": false, "w.safetensors": false, "empty": false, "none": false, ".": false} {
		err := checkPickle(name(file))
		if errors.Is(err, ErrPickle) != pickle || (err != nil) != pickle {
			t.Errorf("%s: got %v", file, err)
		}
		if pickle && (!strings.Contains(err.Error(), "save_file") || !strings.Contains(err.Error(), file)) {
			t.Errorf("%s: %q says not what to do", file, err)
		}
	}
}
