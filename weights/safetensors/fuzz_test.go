package safetensors_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// seeds are files that fuzzing begins with.
func seeds(f *testing.F) {
	f.Add(written(f, map[string]string{"a": "b", safetensors.ChecksumKey: ""},
		safetensors.Tensor{Name: "x", DType: safetensors.Float32, Shape: []int{2, 3}}, safetensors.Tensor{Name: "y", DType: safetensors.F4, Shape: []int{4}}))
	f.Add(raw(`{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1],"x":[{},null,-1e5,"\ud83d\ude00"]}}`, 1))
	f.Add(raw(`{"__metadata__":null}  `))
}

// What is read without an error is written again and then is the same file to a reader; every error
// of a file is a *FormatError inside it.
func FuzzNewFile(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := parse(b)
		if err != nil {
			var bad *safetensors.FormatError
			if !errors.As(err, &bad) || bad.Offset < 0 || bad.Offset > int64(len(b)) {
				t.Fatalf("got %v", err)
			}
			return
		}
		if err := in.Verify(t.Context()); err == nil && !bytes.Contains(b, []byte("evenkeel")) && !bytes.Contains(b, []byte(`\u`)) {
			t.Fatal("a file without a checksum is verified")
		}
		total := int64(0)
		for _, x := range in.Tensors() {
			total += x.Bytes()
		}
		if total > int64(len(b)) {
			t.Fatalf("tensors of %d bytes in a file of %d", total, len(b))
		}
		var out bytes.Buffer
		w, err := safetensors.NewWriter(&out, in.Tensors(), in.Metadata())
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range w.Tensors() {
			data := make([]byte, x.Bytes())
			if err := in.Read(x.Name, data); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(data); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := parse(out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range in.Tensors() {
			a, b := make([]byte, x.Bytes()), make([]byte, x.Bytes())
			y, ok := again.Find(x.Name)
			if err := errors.Join(in.Read(x.Name, a), again.Read(x.Name, b)); err != nil || !ok || x.String() != y.String() || !bytes.Equal(a, b) {
				t.Fatalf("%q: %v became %v, %v", x.Name, x, y, err)
			}
		}
	})
}

// An index is refused, or names files of its folder only.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":1,"evenkeel.checksum":"0000000000000000","evenkeel.checksums":{"x.safetensors":"00"}},"weight_map":{"a":"x.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../x.safetensors","b":"x.safetensors"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		path := filepath.Join(dir, "x.safetensors.index.json")
		shard := written(t, nil, safetensors.Tensor{Name: "a", DType: safetensors.Uint8, Shape: []int{1}})
		if err := errors.Join(os.WriteFile(path, b, 0o600), os.WriteFile(filepath.Join(dir, "x.safetensors"), shard, 0o600)); err != nil {
			t.Fatal(err)
		}
		x, err := safetensors.Open(path)
		if err != nil {
			if !errors.Is(err, safetensors.ErrFormat) {
				t.Fatalf("got %v", err)
			}
			return
		}
		if got := x.Tensors(); len(got) != 1 || got[0].Name != "a" || !strings.Contains(string(b), "weight_map") && !bytes.Contains(b, []byte(`\u`)) {
			t.Fatalf("got %v", got)
		}
		_ = x.Verify(t.Context()) // must not panic
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
