package safetensors_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/evenkeel/evenkeel/internal/atomicfile"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// five are five tensors of 10 bytes.
var five = func() (all []safetensors.Tensor) {
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		all = append(all, safetensors.Tensor{Name: name, DType: safetensors.Uint8, Shape: []int{10}})
	}
	return all
}()

// fill writes a version number into every byte, in two calls.
func fill(version byte) func(safetensors.Tensor, io.Writer) error {
	return func(t safetensors.Tensor, w io.Writer) error {
		data := bytes.Repeat([]byte{version}, int(t.Bytes()))
		_, err1 := w.Write(data[:3])
		_, err2 := w.Write(data[3:])
		return errors.Join(err1, err2)
	}
}

// version returns the number that every byte of the tensors is.
func version(t *testing.T, path string) byte {
	t.Helper()
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	var first []byte
	if got := f.Tensors(); len(got) != len(five) {
		t.Fatalf("%d tensors", len(got))
	}
	for _, x := range f.Tensors() {
		b := make([]byte, x.Bytes())
		if err := f.Read(x.Name, b); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b[:1]
		}
		if !bytes.Equal(b, bytes.Repeat(first, len(b))) {
			t.Fatalf("%s: %q is %v, and others have %d", path, x.Name, b, first)
		}
	}
	return first[0]
}

// files returns the names in a folder.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// create writes version v with so many bytes in a shard.
func create(t *testing.T, path string, v byte, shard int64, files atomicfile.FS) error {
	if files == nil {
		files = &atomicfile.Faults{NoSync: true}
	}
	return safetensors.Create(t.Context(), path, five, safetensors.CreateOptions{Checksum: true, ShardBytes: shard, FS: files, Metadata: map[string]string{"format": "pt"}}, fill(v))
}

func TestCreateReplacesFilesAndShardsByEachOther(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.safetensors")
	for i, c := range []struct {
		shard int64
		want  int // files
	}{{0, 1}, {20, 4}, {10, 6}, {1, 6}, {50, 1}, {49, 3}, {20, 4}, {0, 1}} {
		if err := create(t, path, byte(i), c.shard, nil); err != nil {
			t.Fatal(err)
		}
		if got := files(t, dir); len(got) != c.want {
			t.Errorf("shards of %d bytes: %q", c.shard, got)
		}
		for _, p := range []string{path, dir} {
			if got := version(t, p); got != byte(i) {
				t.Errorf("shards of %d bytes: %s is version %d, want %d", c.shard, p, got, i)
			}
		}
		f, err := safetensors.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if m := f.Metadata(); len(m) != 1 || m["format"] != "pt" || len(f.Checksum()) != 16 {
			t.Errorf("metadata %q, checksum %q", m, f.Checksum())
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever call fails, in whatever change between one file and shards, all former tensors are there
// or all new ones, under the path and in the folder alike, and the next Create succeeds.
func TestTheFormerTensorsSurviveTheFaultOfEveryCall(t *testing.T) {
	for _, c := range []struct{ before, after int64 }{{0, 0}, {0, 20}, {20, 0}, {20, 20}} {
		counting := atomicfile.Faults{NoSync: true}
		dir := t.TempDir()
		if err := errors.Join(create(t, filepath.Join(dir, "x.safetensors"), 1, c.before, nil), create(t, filepath.Join(dir, "x.safetensors"), 2, c.after, &counting)); err != nil {
			t.Fatal(err)
		}
		calls := counting.Calls()
		if len(calls) < 10 {
			t.Fatalf("calls %q", calls)
		}
		for _, dead := range []bool{false, true} { // after the fault nothing works any more
			for n, op := range calls {
				cause := []error{syscall.ENOSPC, syscall.EIO}[n%2]
				{
					t.Run(fmt.Sprintf("%d to %d, %d %s, %v, %v", c.before, c.after, n, op, cause, dead), func(t *testing.T) {
						dir := t.TempDir()
						path := filepath.Join(dir, "x.safetensors")
						if err := create(t, path, 1, c.before, nil); err != nil {
							t.Fatal(err)
						}
						had := len(files(t, dir))
						faults := &atomicfile.Faults{NoSync: true, Short: 1, Fail: func(i int, _, _ string) error {
							if i == n || dead && i > n {
								return cause
							}
							return nil
						}}
						if err := create(t, path, 2, c.after, faults); !errors.Is(err, cause) {
							t.Errorf("got %v, want %v", err, cause)
						}
						got := version(t, path)
						if got != 1 && got != 2 || got != version(t, dir) {
							t.Errorf("version %d, in the folder %d", got, version(t, dir))
						}
						if left := files(t, dir); !dead && got == 1 && op != "remove" && op != "syncdir" && len(left) != had {
							t.Errorf("left %q", left)
						}
						if err := create(t, path, 3, c.after, nil); err != nil {
							t.Fatal(err)
						}
						if got := version(t, path); got != 3 || version(t, dir) != 3 {
							t.Errorf("afterwards version %d", got)
						}
					})
				}
			}
		}
	}
}

// The writer fails after any number of bytes.
func TestTheFormerFileSurvivesAFaultAfterAnyByte(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.safetensors")
	if err := create(t, path, 1, 0, nil); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for k := range info.Size() {
		if err := create(t, path, 2, 0, fullDisk{left: &k}); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("room for %d bytes: got %v", k, err)
		}
		if got := version(t, path); got != 1 {
			t.Fatalf("room for %d bytes: version %d", k, got)
		}
		if left := files(t, dir); len(left) != 1 {
			t.Fatalf("room for %d bytes: left %q", k, left)
		}
	}
}

// fullDisk has room for some more bytes.
type fullDisk struct {
	atomicfile.OS
	left *int64
}

func (d fullDisk) Create(path string) (atomicfile.Handle, error) {
	h, err := d.OS.Create(path)
	return &fullFile{h, d.left}, err
}

type fullFile struct {
	atomicfile.Handle
	left *int64
}

func (f *fullFile) Write(p []byte) (int, error) {
	if int64(len(p)) > *f.left {
		n, _ := f.Handle.Write(p[:*f.left])
		*f.left = 0
		return n, syscall.ENOSPC
	}
	*f.left -= int64(len(p))
	return f.Handle.Write(p)
}

func TestMistakesOfFillAreErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.safetensors")
	own := errors.New("own")
	ctx, cancel := context.WithCancel(t.Context())
	for name, c := range map[string]struct {
		fill func(t safetensors.Tensor, w io.Writer) error
		want error
	}{
		"too few":  {func(_ safetensors.Tensor, w io.Writer) error { _, err := w.Write(make([]byte, 9)); return err }, safetensors.ErrOption},
		"too many": {func(_ safetensors.Tensor, w io.Writer) error { _, err := w.Write(make([]byte, 11)); return err }, safetensors.ErrOption},
		"none":     {func(safetensors.Tensor, io.Writer) error { return nil }, safetensors.ErrOption},
		"own":      {func(safetensors.Tensor, io.Writer) error { return own }, own},
		"cancel": {func(_ safetensors.Tensor, w io.Writer) error {
			cancel()
			_, err := w.Write(make([]byte, 10))
			return err
		}, context.Canceled},
	} {
		if err := safetensors.Create(ctx, path, five, safetensors.CreateOptions{ShardBytes: 20}, c.fill); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if name == "too few" && !strings.Contains(fmt.Sprint(safetensors.Create(t.Context(), path, five, safetensors.CreateOptions{}, c.fill)), `"a" to `+path+": 1 of its 10 bytes") {
			t.Errorf("%s: the error does not name the first tensor", name)
		}
		if left := files(t, dir); len(left) != 0 {
			t.Errorf("%s: left %q", name, left)
		}
		if name == "cancel" {
			ctx, cancel = context.WithCancel(t.Context())
		}
	}
	cancel()
	for _, err := range []error{
		safetensors.Create(t.Context(), path+".index.json", five, safetensors.CreateOptions{}, fill(1)),
		safetensors.Create(t.Context(), path, five, safetensors.CreateOptions{ShardBytes: -1}, fill(1)),
		safetensors.Create(t.Context(), path, append(five, five[0]), safetensors.CreateOptions{}, fill(1)),
		safetensors.Create(t.Context(), path, five, safetensors.CreateOptions{}, nil),
	} {
		if !errors.Is(err, safetensors.ErrOption) {
			t.Errorf("got %v, want ErrOption", err)
		}
	}
	if err := safetensors.Create(t.Context(), filepath.Join(dir, "none", "x.safetensors"), five, safetensors.CreateOptions{}, fill(1)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing folder: got %v", err)
	}
}

// Shards of other programs and names that are only similar stay.
func TestCreateRemovesItsOwnShardsOnly(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.safetensors")
	keep := []string{"x-00001-of-00002.safetensors", "x-12345678-00001-of-00002.txt", "x-1234567g-00001-of-00002.safetensors", "xy-12345678-00001-of-00002.safetensors",
		"x-12345678-00001-of-.safetensors", "x-12345678--of-00002.safetensors", "x-12345678.safetensors", "y.safetensors.index.json"}
	for _, name := range append(slices.Clone(keep), "x-12345678-00001-of-00002.safetensors") {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := create(t, path, 1, 0, nil); err != nil {
		t.Fatal(err)
	}
	want := append(slices.Clone(keep), "x.safetensors")
	slices.Sort(want)
	if got := files(t, dir); !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", strings.Join(got, " "), strings.Join(want, " "))
	}
}
