package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/images"
	"github.com/evenkeel/evenkeel/dataloader/pack"
)

// picture returns a PNG file.
func picture(t testing.TB, i int) []byte {
	m := image.NewRGBA(image.Rect(0, 0, 9, 7))
	for p := range 63 {
		m.Set(p%9, p/9, color.RGBA{uint8(i * 40), uint8(p * 4), uint8(p * i), 255})
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// inputs makes a folder with the same pictures in a folder and in shards, and a table.
func inputs(t testing.TB) string {
	dir := t.TempDir()
	write := func(name string, b []byte) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for shard := range 2 {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for i := 3 * shard; i < 3*shard+3; i++ {
			class := shard
			write(fmt.Sprintf("photos/%c/%d.png", 'a'+class, i), picture(t, i))
			for ext, data := range map[string][]byte{"png": picture(t, i), "cls": fmt.Append(nil, class)} {
				if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("%d.%s", i, ext), Size: int64(len(data)), Mode: 0o600}); err != nil {
					t.Fatal(err)
				}
				if _, err := w.Write(data); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		write(fmt.Sprintf("train-%d.tar", shard), b.Bytes())
	}
	write("table.csv", []byte("a,b,kind\n1.5,2,dog\n-1,4,cat\nNA,5,\n"))
	return dir
}

// do runs the command and returns what it prints.
func do(t testing.TB, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), args, &out, io.Discard); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return out.String()
}

// samples reads all samples of a pack.
func samples(t testing.TB, path string, opt pack.Options) (all []byte) {
	t.Helper()
	d, err := pack.Open(path, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var dst [][]byte
	for _, f := range d.Fields() {
		dst = append(dst, make([]byte, f.Bytes()))
	}
	for i := range d.Len() {
		if err := d.Fetch(t.Context(), dataloader.At{Index: i}, dst); err != nil {
			t.Fatal(err)
		}
		all = append(all, bytes.Join(dst, nil)...)
	}
	return all
}

// A folder and shards of the same pictures give the same samples, decoded by the command or by a
// program.
func TestPicturesArePacked(t *testing.T) {
	dir := inputs(t)
	p, err := images.New(images.Options{Height: 5, Width: 6})
	if err != nil {
		t.Fatal(err)
	}
	later := pack.Options{Decoders: map[string]dataloader.Decoder{"x": p}, Verify: true}
	var first []byte
	for name, c := range map[string]struct {
		args []string
		opt  pack.Options
	}{
		"folder":          {[]string{"-size", "5x6", filepath.Join(dir, "photos")}, pack.Options{}},
		"folder, encoded": {[]string{"-size", "5x6", "-encoded", filepath.Join(dir, "photos")}, later},
		"shards":          {[]string{"-size", "5x6", "-index", filepath.Join(dir, "index"), dir + "/train-{0..1}.tar"}, pack.Options{}},
		"shards, encoded": {[]string{"-size", "5x6", "-encoded", "-workers", "3", dir + "/train-*.tar"}, later},
	} {
		out := filepath.Join(dir, "out.pack")
		if text := do(t, append([]string{"-o", out}, c.args...)...); !strings.Contains(text, "6 samples") {
			t.Errorf("%s: printed %q", name, text)
		}
		got := samples(t, out, c.opt)
		if first == nil {
			first = got
		}
		if len(got) != 6*(90+4) || !slices.Equal(got, first) {
			t.Errorf("%s: the samples differ", name)
		}
		if text := do(t, "-verify", out); !strings.Contains(text, "right") {
			t.Errorf("%s: -verify printed %q", name, text)
		}
		text := do(t, "-info", out)
		for _, want := range []string{"6 samples", map[bool]string{false: "uint8 [3 5 6], x·0.00392157", true: "encoded"}[c.opt.Verify], "y            int32", "fingerprint"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: -info printed %q, want %q", name, text, want)
			}
		}
		if strings.HasPrefix(name, "folder") && !strings.Contains(text, `y            int32, 2 classes: ["a" "b"]`) {
			t.Errorf("%s: -info printed %q", name, text)
		}
	}
}

func TestMistakesAreExplained(t *testing.T) {
	dir := inputs(t)
	out := filepath.Join(dir, "out.pack")
	for _, c := range []struct {
		want string
		args []string
	}{
		{"give one of -o", nil},
		{"give one of -o", []string{"-o", out, "-info", out}},
		{"arguments after the flags", []string{"-o", out}},
		{"arguments after the flags", []string{"-info", out, "more"}},
		{"height x width", []string{"-o", out, "-size", "5", dir}},
		{"height x width", []string{"-o", out, "-size", "5x6x7", dir}},
		{"height x width", []string{"-o", out, "-size", "0x6", dir}},
		{"-size 224x224", []string{"-o", out, filepath.Join(dir, "photos")}},
		{"train or test", []string{"-o", out, "-part", "validation", dir}},
		{"give -format", []string{"-o", out, filepath.Join(dir, "nothing.xyz")}},
		{"want one of", []string{"-o", out, "-format", "zip", dir}},
		{"name=extension", []string{"-o", out, "-fields", "jpg", dir + "/train-0.tar"}},
		{"name:image", []string{"-o", out, "-columns", "a:jpg", filepath.Join(dir, "table.csv")}},
		{"no images", []string{"-o", out, "-size", "2x2", "-columns", "a:image", filepath.Join(dir, "table.csv")}},
		{"format csv has no images: ", []string{"-o", out, "-columns", "a:image", filepath.Join(dir, "table.csv")}},
		{"format jsonl has no images: ", []string{"-o", out, "-columns", "a:image", filepath.Join(dir, "lines.jsonl")}},
		{"-columns x=meta.embedding", []string{"-o", out, filepath.Join(dir, "lines.jsonl")}},
		{"a vector", []string{"-o", out, "-columns", "a:float32[2]", filepath.Join(dir, "table.csv")}},
		{"-window 1024", []string{"-o", out, filepath.Join(dir, "tokens.bin")}},
		{"-window: format csv does not use it", []string{"-o", out, "-window", "3", filepath.Join(dir, "table.csv")}},
		{"-part: format images does not use it", []string{"-o", out, "-part", "test", "-size", "2x2", filepath.Join(dir, "photos")}},
		{"a module of its own", []string{"-o", out, filepath.Join(dir, "a.feather")}},
		{"a module of its own", []string{"-o", out, "-format", "arrow", filepath.Join(dir, "table.csv")}},
		{"no field with images", []string{"-o", out, "-encoded", "-fields", "y=cls", dir + "/train-0.tar"}},
		{"no field with images", []string{"-o", out, "-encoded", "-columns", "label", "../../dataloader/parquet/testdata/images.parquet"}},
		{"is no pack, and is not replaced", []string{"-o", filepath.Join(dir, "table.csv"), filepath.Join(dir, "table.csv")}},
		{"-encoded: only -o uses it", []string{"-info", out, "-encoded"}},
		{"the input is empty", []string{"-o", out, ""}},
		{"want FILE or FIELD=FILE", []string{"-o", out, "-columns", "y=kind:class", "-classes", "y=", filepath.Join(dir, "table.csv")}},
		{"-missing lists other texts of missing values", []string{"-o", out, "-columns", "a", filepath.Join(dir, "table.csv")}},
		{"name:class makes labels of texts", []string{"-o", out, "-columns", "kind,a:?0", "-missing", "NA", filepath.Join(dir, "table.csv")}},
		{"label 1 of 1 classes", []string{"-o", out, "-size", "2x2", "-classes", put(t, dir, "one.txt", []byte("one")), dir + "/train-1.tar"}},
		{"want a regular file", []string{"-o", dir, filepath.Join(dir, "table.csv")}},
		{"name:image marks images", []string{"-o", out, "../../dataloader/parquet/testdata/images.parquet"}},
		{"csv has no encoded images, only images, shards and parquet", []string{"-o", out, "-encoded", filepath.Join(dir, "table.csv")}},
		{"missing.csv", []string{"-o", out, filepath.Join(dir, "missing.csv")}},
		{"missing.pack", []string{"-info", filepath.Join(dir, "missing.pack")}},
		{"a pack", []string{"-verify", filepath.Join(dir, "table.csv")}},
		{"file does not exist", []string{"-o", out, "-format", "mnist", filepath.Join(dir, "photos")}},
	} {
		err := run(t.Context(), c.args, io.Discard, io.Discard)
		if !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%q: got %v, want %q", c.args, err, c.want)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a pack was written")
	}
	do(t, "-o", put(t, dir, "empty", nil), "-columns", "b", filepath.Join(dir, "table.csv")) // as mktemp makes it
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, []string{"-o", out, filepath.Join(dir, "table.csv")}, io.Discard, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: got %v", err)
	}
	var messages bytes.Buffer
	if err := run(t.Context(), []string{"-h"}, io.Discard, &messages); !errors.Is(err, flag.ErrHelp) || !strings.Contains(messages.String(), "-columns columns") {
		t.Errorf("-h: got %v and %q", err, messages.String())
	}
	messages.Reset()
	if err := run(t.Context(), []string{"-workers", "x"}, io.Discard, &messages); !errors.Is(err, errUsage) || messages.Len() > 0 {
		t.Errorf("-workers x: got %v and %q", err, messages.String())
	}
}
