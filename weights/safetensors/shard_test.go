package safetensors_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// folder makes a folder of files from their texts; a text that begins with "->" is a link.
func folder(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		path := filepath.Join(dir, name)
		target, link := strings.CutPrefix(text, "->")
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if link {
			err = errors.Join(err, os.Symlink(target, path))
		} else {
			err = errors.Join(err, os.WriteFile(path, []byte(text), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// shard is the text of a file with some tensors of one byte.
func shard(t *testing.T, names ...string) string {
	t.Helper()
	var all []safetensors.Tensor
	for _, n := range names {
		all = append(all, safetensors.Tensor{Name: n, DType: safetensors.Uint8, Shape: []int{1}})
	}
	return string(written(t, map[string]string{"format": "pt"}, all...))
}

func TestShardsAreOneFile(t *testing.T) {
	dir := folder(t, map[string]string{
		"model.safetensors.index.json":     `{"metadata":{"total_size":3,"x":[1.5,{}]},"y":null,"weight_map":{"c":"model-00002-of-00002.safetensors","a":"model-00001-of-00002.safetensors","b":"model-00001-of-00002.safetensors"}}`,
		"model-00001-of-00002.safetensors": shard(t, "a", "b"),
		"model-00002-of-00002.safetensors": "->blobs/2",
		"blobs/2":                          shard(t, "c"),
	})
	for _, path := range []string{dir, filepath.Join(dir, "model.safetensors"), filepath.Join(dir, "model.safetensors.index.json")} {
		f, err := safetensors.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		names := ""
		for _, x := range f.Tensors() {
			names += x.Name
		}
		b := make([]byte, 1)
		if err := f.Read("b", b); err != nil || names != "abc" || b[0] != 1 || f.Metadata()["format"] != "pt" {
			t.Errorf("%s: %q, b is %v, %v", path, names, b, err)
		}
		if err := f.Verify(t.Context()); !errors.Is(err, safetensors.ErrNoChecksum) {
			t.Errorf("got %v, want ErrNoChecksum", err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestBadIndicesAreRefused(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside.safetensors")
	if err := os.WriteFile(outside, []byte(shard(t, "a")), 0o600); err != nil {
		t.Fatal(err)
	}
	const name = "x.safetensors.index.json"
	for what, c := range map[string]struct {
		index string
		want  []string // parts of the error
	}{
		"not JSON":           {`{"weight_map":`, []string{"byte 14"}},
		"no map":             {`{"metadata":{}}`, []string{`"weight_map"`}},
		"an empty map":       {`{"weight_map":{}}`, []string{"names no file"}},
		"a number":           {`{"weight_map":{"a":1}}`, []string{"byte 19"}},
		"a name twice":       {`{"weight_map":{"a":"x","a":"x"}}`, []string{"twice"}},
		"the parent folder":  {`{"weight_map":{"a":"../outside.safetensors","b":"/etc/passwd","c":".","d":"..","e":"","f":"sub\\x","g":"sub/x","h":"\u0000"}}`, []string{`"../outside`, `"/etc/passwd"`, `"."`, `".."`, `""`, `"sub\\x"`, `"sub/x"`, `"\x00"`}},
		"an index in it":     {`{"weight_map":{"a":"x.safetensors.index.json"}}`, []string{"must be the name of a file"}},
		"a link out":         {`{"weight_map":{"a":"out"}}`, []string{`"out"`, "escapes"}},
		"an absolute link":   {`{"weight_map":{"a":"abs"}}`, []string{`"abs"`, "escapes"}},
		"a folder":           {`{"weight_map":{"a":"sub"}}`, []string{"not a regular file"}},
		"two missing shards": {`{"weight_map":{"a":"none1","b":"none2","c":"ab"}}`, []string{"none1", "none2", "no such file"}},
		"missing and extra":  {`{"weight_map":{"a":"ab","c":"ab","d":"ab"}}`, []string{`"c" in ab, "d" in ab`, `"b" in ab`}},
		"in another shard":   {`{"weight_map":{"a":"c","b":"ab","c":"c"}}`, []string{`do not have: "a" in c`, `not name there: "a" in ab`}},
		"in two shards":      {`{"weight_map":{"a":"ab","b":"ab","z":"a"}}`, []string{`do not have: "z" in a`, `not name there: "a" in a`}},
		"a damaged shard":    {`{"weight_map":{"a":"ab","b":"cut"}}`, []string{"cut: byte"}},
		"nested deeply":      {`{"x":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `,"weight_map":{"a":"ab","b":"ab"}}`, []string{"nested"}},
	} {
		whole := shard(t, "a", "b")
		dir := folder(t, map[string]string{name: c.index, "ab": whole, "c": shard(t, "c"), "a": shard(t, "a"), "cut": whole[:len(whole)-1], "out": "->../outside.safetensors", "abs": "->" + outside, "sub/x": ""})
		f, err := safetensors.Open(filepath.Join(dir, name))
		var bad *safetensors.FormatError
		if f != nil || !errors.As(err, &bad) || !strings.HasPrefix(bad.File, dir) {
			t.Errorf("%s: got %v, want a *FormatError", what, err)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q is not in %v", what, part, err)
			}
		}
		if what == "two missing shards" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v is not ErrNotExist", what, err)
		}
	}
}

// Opening what is no file must not wait for a writer.
func TestOnlyRegularFilesAreOpened(t *testing.T) {
	for _, path := range []string{os.DevNull, "/dev/zero"} {
		if _, err := safetensors.Open(path); !errors.Is(err, fs.ErrInvalid) || !errors.Is(err, safetensors.ErrFormat) {
			t.Errorf("%s: got %v", path, err)
		}
	}
}

// An index of very many shards, none of which is there, is given up after ten: the error stays
// short.
func TestAnIndexWithoutItsShardsIsGivenUpSoon(t *testing.T) {
	for _, n := range []int{9, 10, 11, 20_000} {
		var text strings.Builder
		text.WriteString(`{"weight_map":{`)
		for i := range n {
			if i > 0 {
				text.WriteByte(',')
			}
			fmt.Fprintf(&text, `"w%06d":"none%06d"`, i, i)
		}
		text.WriteString("}}")
		const name = "x.safetensors.index.json"
		_, err := safetensors.Open(filepath.Join(folder(t, map[string]string{name: text.String()}), name))
		if !errors.Is(err, safetensors.ErrFormat) || !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%d shards: got %v", n, err)
		}
		s := err.Error()
		if got := strings.Count(s, `shard "none`); got != min(n, 10) || !strings.Contains(s, "none000008") || len(s) > 4000 {
			t.Errorf("%d shards: %d are listed in %d bytes", n, got, len(s))
		}
		if more := strings.Contains(s, "the other shards are not looked at"); more != (n > 10) {
			t.Errorf("%d shards: %s", n, s)
		}
	}
}
