package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	pq "github.com/parquet-go/parquet-go"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/images"
	"github.com/evenkeel/evenkeel/dataloader/pack"
	"github.com/evenkeel/evenkeel/dataloader/parquet"
	"github.com/evenkeel/evenkeel/dataloader/shards"
	"github.com/evenkeel/evenkeel/examples/internal/run"
	"github.com/evenkeel/evenkeel/examples/internal/shapes"
)

// Numbers of pictures that are drawn.
const (
	drawnTrain = 4000
	drawnTest  = 1000
)

// form stores the pictures of a folder in another form, and opens them.
type form struct {
	write func(path, dir string, f *images.Folder) error // f is of dir; nil: the folder itself
	open  func(path string, p *images.Pipeline, classes int) (dataset, error)
}

// dataset is a dataset of files.
type dataset interface {
	dataloader.Dataset
	io.Closer
}

var forms = map[string]form{
	"folder":  {nil, nil},
	"tar":     {writeTar, openTar},
	"parquet": {writeParquet, openParquet},
	"pack":    {writePack, openPack},
}

// formats returns the names of the forms.
func formats() []string { return slices.Sorted(maps.Keys(forms)) }

// load returns the pictures of the folders train and test in -data, or draws some, in the form of
// -format.
func (d *data) load(f run.Flags) (train, test dataloader.Dataset, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dir, err = os.MkdirTemp("", "images"); err != nil {
		return nil, nil, err
	}
	dir := f.Data
	if dir == "" {
		dir = filepath.Join(d.dir, "pictures")
		if err := drawAll(dir, f.Seed, drawnTrain, drawnTest); err != nil {
			return nil, nil, err
		}
	}
	for _, part := range []string{"train", "test"} {
		if _, err := os.Stat(filepath.Join(dir, part)); err != nil {
			return nil, nil, fmt.Errorf("the folder of pictures needs train and test, each with a folder for each class: %w", err)
		}
	}
	augmented, plain, err := pipelines()
	if err != nil {
		return nil, nil, err
	}
	if train, err = d.part(dir, "train", augmented); err != nil {
		return nil, nil, err
	}
	test, err = d.part(dir, "test", plain)
	return train, test, err
}

// part opens a part of the pictures.
func (d *data) part(dir, part string, p *images.Pipeline) (dataloader.Dataset, error) {
	folder, err := images.Open(filepath.Join(dir, part), images.FolderOptions{Pipeline: p, Classes: d.classes, AllowEmpty: d.classes != nil})
	if err != nil {
		return nil, err
	}
	d.classes, d.closers = folder.Classes(), append(d.closers, folder)
	form := forms[d.format]
	if form.write == nil {
		return folder, nil
	}
	path := filepath.Join(d.dir, part+"."+d.format)
	if err := form.write(path, filepath.Join(dir, part), folder); err != nil {
		return nil, err
	}
	ds, err := form.open(path, p, len(d.classes))
	if err != nil {
		return nil, err
	}
	d.closers = append(d.closers, ds)
	return ds, nil
}

// close closes the files, and removes those that were written. It waits for load.
func (d *data) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, c := range d.closers {
		errs = append(errs, c.Close())
	}
	d.closers = nil
	if d.dir != "" {
		errs = append(errs, os.RemoveAll(d.dir))
	}
	return errors.Join(errs...)
}

// drawAll draws shapes into the folders train and test, with a folder for each class.
func drawAll(dir string, seed uint64, train, test int) error {
	pixels := make([]uint8, 3*side*side)
	m := image.NewRGBA(image.Rect(0, 0, side, side))
	for part, n := range map[string]int{"train": train, "test": test} {
		for i := range n {
			class := i % shapes.Classes
			shapes.Draw(rand.New(rand.NewPCG(seed, uint64(i)<<1|uint64(len(part)&1))), class, pixels)
			for at := range side * side {
				m.Pix[4*at], m.Pix[4*at+1], m.Pix[4*at+2], m.Pix[4*at+3] = pixels[at], pixels[side*side+at], pixels[2*side*side+at], 255
			}
			folder := filepath.Join(dir, part, className(class))
			if err := os.MkdirAll(folder, 0o777); err != nil {
				return err
			}
			err := create(filepath.Join(folder, fmt.Sprintf("%05d.jpg", i)), func(w io.Writer) error {
				return jpeg.Encode(w, m, &jpeg.Options{Quality: 90})
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// className names the shape, and the direction of its stripes.
func className(class int) string {
	return []string{"disc", "square", "triangle", "ring", "cross"}[class/2] + []string{"-across", "-upright"}[class%2]
}

// create writes a file.
func create(path string, content func(w io.Writer) error) error {
	w, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(content(w), w.Close())
}

// each calls do for every picture of a folder.
func each(f *images.Folder, dir fs.FS, do func(i int, name string, label int, picture []byte) error) error {
	for i := range f.Len() {
		name, label := f.Path(i)
		b, err := fs.ReadFile(dir, name)
		if err == nil {
			err = do(i, name, label, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeTar writes an archive as WebDataset does: a picture and its label, under one key.
func writeTar(path, dir string, f *images.Folder) error {
	return create(path, func(w io.Writer) error {
		t := tar.NewWriter(w)
		err := each(f, os.DirFS(dir), func(i int, name string, label int, picture []byte) error {
			key := fmt.Sprintf("%06d", i)
			return errors.Join(entry(t, key+".jpg", picture), entry(t, key+".cls", fmt.Append(nil, label)))
		})
		return errors.Join(err, t.Close())
	})
}

// entry writes an entry of an archive.
func entry(t *tar.Writer, name string, data []byte) error {
	if err := t.WriteHeader(&tar.Header{Name: name, Size: int64(len(data)), Mode: 0o644, Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err := t.Write(data)
	return err
}

func openTar(path string, p *images.Pipeline, classes int) (dataset, error) {
	return shards.Open(path, shards.Options{Fields: []shards.Field{
		{Name: "x", Ext: "jpg", Decoder: p}, {Name: "y", Ext: "cls", Decoder: shards.Class(classes)},
	}})
}

// record is a row of the Parquet file, with the columns that Hugging Face has for pictures.
type record struct {
	Image struct {
		Bytes []byte `parquet:"bytes"`
		Path  string `parquet:"path"`
	} `parquet:"image"`
	Label int64 `parquet:"label"`
}

// groupRows is the number of rows in a row group.
const groupRows = 200

func writeParquet(path, dir string, f *images.Folder) error {
	return create(path, func(w io.Writer) error {
		rows := pq.NewGenericWriter[record](w, pq.MaxRowsPerRowGroup(groupRows))
		err := each(f, os.DirFS(dir), func(_ int, name string, label int, picture []byte) error {
			var r record
			r.Image.Bytes, r.Image.Path, r.Label = picture, name, int64(label)
			_, err := rows.Write([]record{r})
			return err
		})
		return errors.Join(err, rows.Close())
	})
}

// openParquet keeps all row groups, so that their samples are mixed as those of the other forms are.
func openParquet(path string, p *images.Pipeline, _ int) (dataset, error) {
	return parquet.Open(path, parquet.Options{Held: 1 << 20, Columns: []parquet.Column{
		{Name: "image", Field: "x", Decoder: p}, {Name: "label", Field: "y", Type: arena.Int32},
	}})
}

// writePack packs the archive, in which the pictures keep their encoded bytes.
func writePack(path, dir string, f *images.Folder) (err error) {
	archive := path + ".tar"
	if err := writeTar(archive, dir, f); err != nil {
		return err
	}
	_, plain, err := pipelines()
	if err != nil {
		return err
	}
	ds, err := openTar(archive, plain, len(f.Classes()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ds.Close()) }()
	return pack.Write(context.Background(), path, ds, pack.WriteOptions{Encoded: []string{"x"}})
}

func openPack(path string, p *images.Pipeline, _ int) (dataset, error) {
	return pack.Open(path, pack.Options{Decoders: map[string]dataloader.Decoder{"x": p}})
}
