package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/storage/storagetest"
)

// tree is a file system with the same picture under each name; other files are marked by a final "-".
func tree(t testing.TB, names ...string) fstest.MapFS {
	t.Helper()
	fsys := fstest.MapFS{}
	for _, n := range names {
		switch {
		case strings.HasSuffix(n, "/"):
			fsys[strings.TrimSuffix(n, "/")] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
		case strings.HasSuffix(n, "-"):
			fsys[strings.TrimSuffix(n, "-")] = &fstest.MapFile{Data: []byte("text")}
		default:
			fsys[n] = &fstest.MapFile{Data: file(t, "ok.jpg")}
		}
	}
	return fsys
}

// sample returns the fields of a sample.
func sample(ds dataloader.Dataset, at dataloader.At) ([][]byte, error) {
	var dst [][]byte
	for _, f := range ds.Fields() {
		dst = append(dst, make([]byte, f.Bytes()))
	}
	return dst, ds.Fetch(context.Background(), at, dst)
}

func TestFolderIsSortedByBytesAndLabelledByFolder(t *testing.T) {
	fsys := tree(t, "zebra/1.jpg", "Zebra/b.JPEG", "Zebra/a/x.png", "Zebra/a.png", "cat/2.jpg", "cat/10.jpg", "cat/.hidden.jpg", ".git/x.jpg",
		"__MACOSX/cat/1.jpg", "cat/__MACOSX/1.jpg", "README.md-", "cat/Thumbs.db-", "ünder/ä.jpg")
	f, err := OpenFS(fsys, ".", FolderOptions{Pipeline: pipeline(t, Options{Height: 8, Width: 8})})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got []string
	for i := range f.Len() {
		name, label := f.Path(i)
		got = append(got, fmt.Sprint(label, " ", name))
	}
	want := []string{"0 Zebra/a.png", "0 Zebra/a/x.png", "0 Zebra/b.JPEG", "1 cat/10.jpg", "1 cat/2.jpg", "2 zebra/1.jpg", "3 ünder/ä.jpg"}
	if !slices.Equal(got, want) {
		t.Errorf("samples\n%q, want\n%q", got, want)
	}
	if classes := []string{"Zebra", "cat", "zebra", "ünder"}; !slices.Equal(f.Classes(), classes) {
		t.Errorf("classes %q, want %q", f.Classes(), classes)
	}
	if f.Ignored() != 2 {
		t.Errorf("%d files ignored, want 2", f.Ignored())
	}
	s, err := sample(f, dataloader.At{Index: 3})
	if err != nil || dataloader.View[int32](s[1])[0] != 1 {
		t.Errorf("label %v, %v", s[1], err)
	}
	if want := int64(len("a.pnga/x.pngb.JPEG10.jpg2.jpg1.jpgä.jpg") + 8*7); f.IndexBytes() > want+8*8 {
		t.Errorf("index of %d bytes, want %d and 8 for each class", f.IndexBytes(), want)
	}
}

func TestFoldersThatAreNotOneClassEachAreErrors(t *testing.T) {
	for _, c := range []struct {
		name    string
		files   []string
		classes []string
		empty   bool
		want    string // "" for none
	}{
		{"loose pictures", []string{"a/1.jpg", "2.jpg", "3.jpg"}, nil, false, "move each picture to a folder"},
		{"empty class", []string{"a/1.jpg", "b/"}, nil, false, `no pictures in ["b"]`},
		{"empty class allowed", []string{"a/1.jpg", "b/"}, nil, true, ""},
		{"text only", []string{"a/1.jpg", "b/1.txt-"}, nil, false, `["b"]`},
		{"nothing", []string{"README-"}, nil, false, "make a folder for each class"},
		{"no pictures", []string{"a/"}, nil, true, "no samples"},
		{"listed", []string{"a/1.jpg", "b/1.jpg"}, []string{"b", "a"}, false, ""},
		{"listed, missing", []string{"a/1.jpg"}, []string{"b", "a"}, false, `"b"`},
		{"listed, missing allowed", []string{"a/1.jpg"}, []string{"b", "a"}, true, ""},
		{"not listed", []string{"a/1.jpg", "b/1.jpg"}, []string{"a"}, true, `folder "b"`},
		{"listed twice", []string{"a/1.jpg"}, []string{"a", "a"}, false, "listed twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := OpenFS(tree(t, c.files...), ".", FolderOptions{Pipeline: pipeline(t, Options{Height: 8, Width: 8}), Classes: c.classes, AllowEmpty: c.empty})
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if c.classes != nil && !slices.Equal(f.Classes(), c.classes) {
					t.Errorf("classes %q, want the list %q", f.Classes(), c.classes)
				}
				if name, label := f.Path(0); f.Classes()[label] != filepath.Dir(name) {
					t.Errorf("sample %q has label %d of %q", name, label, f.Classes())
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want %q", err, c.want)
			}
			for _, class := range []error{dataloader.ErrFormat, dataloader.ErrEmpty, dataloader.ErrOption} {
				if errors.Is(err, class) {
					return
				}
			}
			t.Errorf("error %v has no class", err)
		})
	}
}

func TestFolderOnDiskFollowsLinksWithinItOnly(t *testing.T) {
	p := pipeline(t, Options{Height: 8, Width: 8})
	dir, outside := t.TempDir(), t.TempDir()
	put := func(parts ...string) {
		t.Helper()
		name := filepath.Join(parts...)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, file(t, "ok.jpg"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to string, parts ...string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(parts...)); err != nil {
			t.Skip("no symbolic links:", err)
		}
	}
	put(dir, "a", "1.jpg")
	put(dir, "b", "1.jpg")
	put(outside, "x", "1.jpg")
	link("../a/1.jpg", dir, "b", "2.jpg")
	link("a", dir, "c")
	f, err := Open(dir, FolderOptions{Pipeline: p})
	if err != nil {
		t.Fatal(err)
	}
	if f.Len() != 4 {
		t.Errorf("%d samples, want 4", f.Len())
	}
	first := f.Fingerprint()
	if _, err := sample(f, dataloader.At{Index: 2}); err != nil {
		t.Error(err)
	}
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Error(err)
	}
	if _, err := sample(f, dataloader.At{}); err == nil {
		t.Error("a closed folder is read")
	}
	for _, to := range []string{"..", ".", "up", filepath.Join(outside, "x"), "none"} {
		at := filepath.Join(dir, "a", "up")
		link(to, at)
		_, err := Open(dir, FolderOptions{Pipeline: p})
		var fe *dataloader.FormatError
		if !errors.As(err, &fe) || !strings.HasPrefix(fe.File, dir) || !strings.Contains(fe.File, "up") {
			t.Errorf("link to %q: error %v, want a FormatError that names it", to, err)
		}
		if err := os.Remove(at); err != nil {
			t.Fatal(err)
		}
	}
	put(dir, "a", "2.jpg")
	f, err = Open(dir, FolderOptions{Pipeline: p})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Fingerprint() == first {
		t.Error("another file did not change the fingerprint")
	}
}

func TestFingerprintsDependOnNamesSizesClassesAndSteps(t *testing.T) {
	base := func() (fstest.MapFS, Options, FolderOptions) {
		return tree(t, "a/1.jpg", "b/1.jpg"), Options{Height: 8, Width: 8}, FolderOptions{}
	}
	seen := map[uint64]string{}
	for name, change := range map[string]func(fsys fstest.MapFS, o *Options, f *FolderOptions){
		"nothing": func(fstest.MapFS, *Options, *FolderOptions) {},
		"size":    func(fsys fstest.MapFS, _ *Options, _ *FolderOptions) { fsys["a/1.jpg"].Data = []byte("x") },
		"name": func(fsys fstest.MapFS, _ *Options, _ *FolderOptions) {
			fsys["a/2.jpg"] = fsys["a/1.jpg"]
			delete(fsys, "a/1.jpg")
		},
		"classes": func(_ fstest.MapFS, _ *Options, f *FolderOptions) { f.Classes = []string{"b", "a"} },
		"steps":   func(_ fstest.MapFS, o *Options, _ *FolderOptions) { o.Steps = []Step{Resize{}, Flip{Horizontal: 0.5}} },
		"other":   func(_ fstest.MapFS, o *Options, _ *FolderOptions) { o.Steps = []Step{Resize{}, Flip{Horizontal: 0.4}} },
		"decoder": func(_ fstest.MapFS, o *Options, _ *FolderOptions) { o.JPEG = panics{} },
	} {
		fsys, o, opt := base()
		change(fsys, &o, &opt)
		opt.Pipeline = pipeline(t, o)
		f, err := OpenFS(fsys, ".", opt)
		if err != nil {
			t.Fatal(name, err)
		}
		if other, ok := seen[f.Fingerprint()]; ok {
			t.Errorf("%q and %q have the same fingerprint", name, other)
		}
		seen[f.Fingerprint()] = name
	}
}

func TestErrorsOfSamplesNameTheirFile(t *testing.T) {
	fsys := tree(t, "a/bad.jpg-", "a/gone.jpg", "a/large.jpg")
	fsys["a/large.jpg"].Data = make([]byte, 2000)
	f, err := OpenFS(fsys, ".", FolderOptions{Pipeline: pipeline(t, Options{Height: 8, Width: 8}), MaxBytes: 1999})
	if err != nil {
		t.Fatal(err)
	}
	fsys["a/exact.jpg"] = &fstest.MapFile{Data: append(file(t, "ok.jpg"), make([]byte, 1999-len(file(t, "ok.jpg")))...)}
	if err := f.read(t.Context(), new([]byte), "a/exact.jpg"); err != nil {
		t.Errorf("a file of MaxBytes: %v", err)
	}
	delete(fsys, "a/gone.jpg")
	for i, want := range []error{dataloader.ErrFormat, fs.ErrNotExist, fs.ErrInvalid} {
		_, err := sample(f, dataloader.At{Index: i})
		if name, _ := f.Path(i); !errors.Is(err, want) || !strings.Contains(err.Error(), name) {
			t.Errorf("sample %d: error %v, want %v and %q", i, err, want, name)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := f.Fetch(ctx, dataloader.At{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func TestEncodedPicturesAreTheContentsOfFiles(t *testing.T) {
	fsys := tree(t, "a/1.jpg", "b/bad.jpg-", "b/large.jpg")
	fsys["b/large.jpg"].Data = make([]byte, 2000)
	f, err := OpenFS(fsys, ".", FolderOptions{Pipeline: pipeline(t, Options{Height: 8, Width: 8}), MaxBytes: 1999})
	if err != nil {
		t.Fatal(err)
	}
	memory := make([]byte, 3, 5000)
	for i, name := range []string{"a/1.jpg", "b/bad.jpg"} { // contents are not checked
		label, encoded := make([]byte, 4), [][]byte{memory, nil}
		if err := f.FetchEncoded(t.Context(), dataloader.At{Index: i}, [][]byte{nil, label}, encoded); err != nil {
			t.Fatal(err)
		}
		if string(encoded[0]) != string(fsys[name].Data) || &encoded[0][:1][0] != &memory[0] || dataloader.View[int32](label)[0] != int32(i) {
			t.Errorf("%s: %d bytes, label %v", name, len(encoded[0]), label)
		}
	}
	dst := [][]byte{make([]byte, 3*8*8), make([]byte, 4)}
	if err := f.FetchEncoded(t.Context(), dataloader.At{}, dst, make([][]byte, 2)); err != nil {
		t.Fatal(err)
	}
	if want, err := sample(f, dataloader.At{}); err != nil || string(dst[0]) != string(want[0]) {
		t.Errorf("a picture with a destination is not decoded: %v", err)
	}
	err = f.FetchEncoded(t.Context(), dataloader.At{Index: 2}, [][]byte{nil, dst[1]}, make([][]byte, 2))
	if !errors.Is(err, fs.ErrInvalid) || !strings.Contains(err.Error(), "b/large.jpg") {
		t.Errorf("a large file: got %v", err)
	}
	for name, c := range map[string][2][][]byte{
		"the label": {{dst[0], nil}, {nil, nil}}, "one field": {{nil}, {nil, nil}}, "one place": {{nil, dst[1]}, {nil}},
	} {
		if err := f.FetchEncoded(t.Context(), dataloader.At{}, c[0], c[1]); !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, i := range []int{-1, 3} {
		if err := f.Fetch(t.Context(), dataloader.At{Index: i}, dst); !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("sample %d: got %v", i, err)
		}
	}
}

func TestPicturesInMemoryAreADataset(t *testing.T) {
	p := pipeline(t, Options{Height: 4, Width: 4, Channels: 1})
	m := image.NewGray(image.Rect(0, 0, 4, 4))
	fill(m.Pix, 50)
	ds, err := FromImages([]image.Image{m, m}, []int32{7, 9}, p)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sample(ds, dataloader.At{Index: 1})
	if err != nil || !bytes.Equal(s[0], m.Pix) || dataloader.View[int32](s[1])[0] != 9 {
		t.Errorf("sample %v, %v", s, err)
	}
	if ds, err = FromImages([]image.Image{m}, nil, p); err != nil || len(ds.Fields()) != 1 {
		t.Errorf("without labels: %v", err)
	}
	for _, c := range []struct {
		pictures []image.Image
		labels   []int32
		p        *Pipeline
		want     error
	}{
		{nil, nil, p, dataloader.ErrEmpty},
		{[]image.Image{m}, nil, nil, dataloader.ErrOption},
		{[]image.Image{nil}, nil, p, dataloader.ErrOption},
		{[]image.Image{m}, []int32{1, 2}, p, dataloader.ErrOption},
		{[]image.Image{image.NewGray(image.Rect(0, 0, 0, 4))}, nil, p, dataloader.ErrOption},
		{[]image.Image{image.NewUniform(image.Black)}, nil, p, dataloader.ErrOption},
	} {
		if _, err := FromImages(c.pictures, c.labels, c.p); !errors.Is(err, c.want) {
			t.Errorf("error %v, want %v", err, c.want)
		}
	}
}

func TestContactSheetShowsTheSamplesOfALoader(t *testing.T) {
	f, err := OpenFS(tree(t, "cat/1.jpg", "dog/1.jpg"), ".", FolderOptions{Pipeline: pipeline(t,
		Options{Height: 20, Width: 24, Steps: []Step{RandomResizedCrop{}, Flip{Horizontal: 0.5}}})})
	if err != nil {
		t.Fatal(err)
	}
	m, err := ContactSheet(context.Background(), f, SheetOptions{Repeat: 3, Columns: 4, Seed: 5, Epoch: 2, Classes: f.Classes()})
	if err != nil {
		t.Fatal(err)
	}
	if want := image.Rect(0, 0, 4+4*(4*24+4), 4+2*(4*20+15+4)); m.Rect != want { // 24 pixels are enlarged to 96: 12 letters need 84
		t.Errorf("sheet %v, want %v", m.Rect, want)
	}
	s, err := sample(f, dataloader.At{Index: 1, Epoch: 4, Seed: 5}) // cell 5: the third picture of sample 1
	if err != nil {
		t.Fatal(err)
	}
	for y := range 80 {
		for x := range 96 {
			c := m.RGBAAt(4+100+x, 4+99+y)
			if i := y/4*24 + x/4; c.R != s[0][i] || c.G != s[0][480+i] || c.B != s[0][960+i] {
				t.Fatalf("pixel (%d, %d) is %v, want %d %d %d", x, y, c, s[0][i], s[0][480+i], s[0][960+i])
			}
		}
	}
	ink := 0
	for x := range 96 {
		for y := range 15 {
			if m.RGBAAt(4+x, 84+y).R == 0 {
				ink++
			}
		}
	}
	if ink < 10 {
		t.Errorf("%d black pixels below the first picture: no label", ink)
	}
	for name, width := range map[string]int{"": 4 * 24, strings.Repeat("é", 14): 5 * 24, strings.Repeat("x", 24): 7 * 24, strings.Repeat("x", 99): 7 * 24} {
		m, err := ContactSheet(context.Background(), f, SheetOptions{Count: 1, Classes: []string{"cat", name}})
		if err != nil || m.Rect.Dx() != 4+width+4 {
			t.Errorf("a class of %d letters: sheet %v, %v", len(name), m.Rect, err)
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Error(err)
	}
	for _, o := range []SheetOptions{{Samples: []int{2}}, {Image: "y"}, {Label: "x"}, {Count: -1}, {Repeat: 60000, Count: 60000}} {
		if _, err := ContactSheet(context.Background(), f, o); !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("%+v: error %v, want ErrOption", o, err)
		}
	}
}

func TestFaultsOfTheStorageAreErrorsOfTheCall(t *testing.T) {
	p := pipeline(t, Options{Height: 8, Width: 8})
	fsys := tree(t, "cat/1.jpg", "dog/1.jpg")
	want := decoded(t, Options{Height: 8, Width: 8}, dataloader.At{}, file(t, "ok.jpg"))
	storagetest.Every(t, fsys, func(ctx context.Context, fsys fs.FS) error {
		f, err := OpenContext(ctx, fsys, ".", FolderOptions{Pipeline: p})
		if err != nil {
			return err
		}
		defer f.Close()
		x, y := make([]byte, 3*64), make([]byte, 4)
		for i := range f.Len() {
			if err := f.Fetch(ctx, dataloader.At{Index: i}, [][]byte{x, y}); err != nil {
				return err
			}
			if !bytes.Equal(x, want) {
				t.Errorf("sample %d has other pixels", i)
			}
		}
		return nil
	})
}
