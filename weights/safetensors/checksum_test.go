package safetensors_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// summed is a file with a checksum.
func summed(t testing.TB) []byte {
	return written(t, map[string]string{"format": "pt", safetensors.ChecksumKey: ""},
		safetensors.Tensor{Name: "w", DType: safetensors.Float32, Shape: []int{2, 2}}, safetensors.Tensor{Name: "b", DType: safetensors.Uint8, Shape: []int{5}})
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	file := summed(t)
	if f, err := parse(file); err != nil || f.Verify(t.Context()) != nil {
		t.Fatalf("got %v", err)
	}
	opened := 0
	for i := range file {
		for bit := range 8 {
			file[i] ^= 1 << bit
			if f, err := parse(file); err == nil {
				opened++
				if err := f.Verify(t.Context()); !errors.Is(err, safetensors.ErrChecksum) && !errors.Is(err, safetensors.ErrNoChecksum) {
					t.Errorf("bit %d of byte %d: got %v", bit, i, err)
				}
			} else if !errors.Is(err, safetensors.ErrFormat) {
				t.Errorf("bit %d of byte %d: got %v", bit, i, err)
			}
			file[i] ^= 1 << bit
		}
	}
	if opened < 8*21 { // those of the data at least
		t.Errorf("only %d damaged files are opened", opened)
	}
}

func TestEveryCutIsFound(t *testing.T) {
	file := summed(t)
	for n := range file {
		if _, err := parse(file[:n]); !errors.Is(err, safetensors.ErrFormat) {
			t.Errorf("cut after %d bytes: got %v", n, err)
		}
	}
	if _, err := parse(append(file, 0)); !errors.Is(err, safetensors.ErrFormat) {
		t.Errorf("one byte more: got %v", err)
	}
}

func TestADamagedFileSaysWhatIsWrong(t *testing.T) {
	file := summed(t)
	file[len(file)-1] ^= 1
	path := filepath.Join(t.TempDir(), "x.safetensors")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	err = f.Verify(t.Context())
	var bad *safetensors.FormatError
	if !errors.As(err, &bad) || bad.File != path || bad.Err != safetensors.ErrChecksum || !strings.Contains(err.Error(), f.Checksum()) {
		t.Errorf("got %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := f.Verify(t.Context()); !errors.Is(err, safetensors.ErrClosed) {
		t.Errorf("after Close: got %v", err)
	}
}

// A shard of another save, a damaged index and a damaged shard are all found.
func TestShardsAreVerifiedAsOneUnit(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "x.safetensors")
	if err := errors.Join(create(t, path, 1, 20, nil), create(t, filepath.Join(other, "x.safetensors"), 2, 20, nil)); err != nil {
		t.Fatal(err)
	}
	mine, theirs := files(t, dir), files(t, other)
	for i, name := range mine {
		p := filepath.Join(dir, name)
		good, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		check := func(what string, bad []byte) {
			t.Helper()
			if err := os.WriteFile(p, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := safetensors.Open(path)
			if err != nil {
				if !errors.Is(err, safetensors.ErrFormat) && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s of %s: got %v", what, name, err)
				}
				return
			}
			if err := f.Verify(t.Context()); !errors.Is(err, safetensors.ErrChecksum) && !errors.Is(err, safetensors.ErrNoChecksum) {
				t.Errorf("%s of %s: got %v", what, name, err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for k := 0; k < len(good); k += 5 { // TestEveryFlippedBitIsFound tries all
			bad := append([]byte(nil), good...)
			bad[k] ^= 1 << (k % 8)
			check("a flipped bit", bad)
			check("a cut", good[:k])
		}
		if !strings.HasSuffix(name, ".json") {
			foreign, err := os.ReadFile(filepath.Join(other, theirs[i]))
			if err != nil {
				t.Fatal(err)
			}
			check("the shard of another save", foreign)
		}
		if err := os.WriteFile(p, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := version(t, path); got != 1 {
		t.Errorf("version %d", got)
	}
}
