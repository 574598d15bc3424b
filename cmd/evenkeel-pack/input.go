package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/csv"
	"github.com/evenkeel/evenkeel/dataloader/images"
	"github.com/evenkeel/evenkeel/dataloader/npy"
	"github.com/evenkeel/evenkeel/dataloader/pack"
	"github.com/evenkeel/evenkeel/dataloader/parquet"
	"github.com/evenkeel/evenkeel/dataloader/shards"
	"github.com/evenkeel/evenkeel/dataloader/table"
)

// formats are the values of -format.
var formats = []string{"images", "shards", "parquet", "csv", "npy", "mnist", "cifar10", "cifar100"}

// input is an open dataset.
type input struct {
	dataloader.Dataset          // passed on as it is, since it may have blocks or encoded bytes
	images             []string // names of the fields with images
	notes              map[string]string
	close              func() error
}

// formatOf returns the format of the input, from -format or its name.
func formatOf(f flags) (string, error) {
	if f.format != "" {
		if !slices.Contains(formats, f.format) {
			return "", fmt.Errorf("-format %s: want one of %s: %w", f.format, strings.Join(formats, ", "), errUsage)
		}
		return f.format, nil
	}
	if info, err := os.Stat(f.input); err == nil && info.IsDir() {
		return "images", nil
	}
	name := strings.ToLower(f.input)
	for _, e := range []struct{ end, format string }{
		{".parquet", "parquet"}, {".parq", "parquet"}, {".csv", "csv"}, {".tsv", "csv"}, {".npy", "npy"}, {".npz", "npy"},
		{".tar", "shards"}, {".tar.gz", "shards"}, {".tgz", "shards"}, {".tar.zst", "shards"},
	} {
		if strings.HasSuffix(name, e.end) {
			return e.format, nil
		}
	}
	return "", fmt.Errorf("%s: its name does not tell the format: give -format: %w", f.input, errUsage)
}

// open opens the input.
func open(ctx context.Context, f flags) (*input, error) {
	format, err := formatOf(f)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	in := &input{notes: map[string]string{"source": filepath.Base(f.input), "format": format}, close: func() error { return nil }}
	switch format {
	case "images":
		err = in.openFolder(f)
	case "shards":
		err = in.openShards(f)
	case "parquet":
		err = in.openParquet(f)
	case "csv":
		err = in.openCSV(f)
	case "npy":
		err = in.openArrays(f)
	default:
		err = in.openKnown(f, format)
	}
	if err != nil {
		return nil, err
	}
	if _, ok := in.Dataset.(pack.EncodedSource); f.encoded && (!ok || len(in.images) == 0) {
		return nil, errors.Join(fmt.Errorf("-encoded: only a folder of images and shards have encoded images: %w", errUsage), in.close())
	}
	return in, nil
}

// pipeline returns the decoder of images.
func (f flags) pipeline() (*images.Pipeline, error) {
	if f.height == 0 {
		return nil, fmt.Errorf("give the size of images, such as -size 224x224: %w", errUsage)
	}
	return images.New(images.Options{Height: f.height, Width: f.width, Channels: f.channels})
}

// openFolder opens a folder of images.
func (in *input) openFolder(f flags) error {
	p, err := f.pipeline()
	if err != nil {
		return err
	}
	d, err := images.Open(f.input, images.FolderOptions{Pipeline: p})
	if err != nil {
		return err
	}
	classes, err := json.Marshal(d.Classes())
	if err != nil {
		return errors.Join(err, d.Close())
	}
	in.Dataset, in.images, in.close = d, []string{"x"}, d.Close
	in.notes["classes"] = string(classes)
	return nil
}

// openShards opens tar archives.
func (in *input) openShards(f flags) error {
	opt := shards.Options{Index: f.index}
	for spec := range strings.SplitSeq(f.fields, ",") {
		name, ext, ok := strings.Cut(spec, "=")
		if !ok {
			return fmt.Errorf("-fields %s: want name=extension: %w", spec, errUsage)
		}
		field := shards.Field{Name: name, Ext: ext}
		e, path, isJSON := strings.Cut(ext, "=")
		switch {
		case isJSON:
			field.Ext, field.Decoder = e, shards.JSON(path, arena.Float32)
		case ext == "cls":
			field.Decoder = shards.Integer(arena.Int32)
		default:
			p, err := f.pipeline()
			if err != nil {
				return err
			}
			field.Decoder = p
			in.images = append(in.images, name)
		}
		opt.Fields = append(opt.Fields, field)
	}
	d, err := shards.Open(f.input, opt)
	if err != nil {
		return err
	}
	in.Dataset, in.close = d, d.Close
	return nil
}

// tableColumns returns the columns of -columns.
func (in *input) tableColumns(f flags) (all []table.Column, err error) {
	if f.columns == "" {
		return nil, nil
	}
	for spec := range strings.SplitSeq(f.columns, ",") {
		name, kind, marked := strings.Cut(spec, ":")
		c := table.Column{Name: name}
		if marked && kind != "image" {
			return nil, fmt.Errorf("-columns %s: want a name, or name:image: %w", spec, errUsage)
		}
		if marked {
			if c.Decoder, err = f.pipeline(); err != nil {
				return nil, err
			}
			in.images = append(in.images, name)
		}
		all = append(all, c)
	}
	return all, nil
}

// openParquet opens Parquet files.
func (in *input) openParquet(f flags) error {
	columns, err := in.tableColumns(f)
	if err != nil {
		return err
	}
	d, err := parquet.Open(f.input, parquet.Options{Columns: columns})
	if errors.Is(err, dataloader.ErrField) {
		return fmt.Errorf("%w\nchoose columns with -columns: name:image marks images; texts need a program with pack.Write", err)
	}
	if err != nil {
		return err
	}
	in.Dataset, in.close = d, d.Close
	return nil
}

// openArrays opens files of NumPy.
func (in *input) openArrays(f flags) error {
	columns, err := in.tableColumns(f)
	if err != nil {
		return err
	}
	d, err := npy.Open(f.input, npy.Options{Columns: columns})
	if err != nil {
		return err
	}
	in.Dataset, in.close = d, d.Close
	return nil
}

// openCSV opens a table of text.
func (in *input) openCSV(f flags) error {
	var opt csv.Options
	columns, err := in.tableColumns(f)
	if err != nil {
		return err
	}
	for _, c := range columns {
		if c.Decoder != nil {
			return fmt.Errorf("-columns %s: a table of text has no images: %w", f.columns, errUsage)
		}
		opt.Fields = append(opt.Fields, csv.Field{Name: c.Name})
	}
	opt.Held = 4 // pieces of the file, which may be larger than memory
	d, err := csv.Open(f.input, opt)
	if err != nil {
		return err
	}
	in.Dataset, in.close = d, d.Close
	return nil
}

// openKnown opens the part of a data set that package dataloader reads.
func (in *input) openKnown(f flags, format string) error {
	read := map[string]func() (train, test dataloader.Dataset, err error){
		"mnist":    func() (_, _ dataloader.Dataset, err error) { return dataloader.MNIST(f.input, 1, 28, 28) },
		"cifar10":  func() (_, _ dataloader.Dataset, err error) { return dataloader.CIFAR10(f.input) },
		"cifar100": func() (_, _ dataloader.Dataset, err error) { return dataloader.CIFAR100(f.input) },
	}[format]
	train, test, err := read()
	if err != nil {
		return err
	}
	in.notes["part"] = f.part
	if in.Dataset = train; f.part == "test" {
		in.Dataset = test
	}
	return nil
}

// sorted returns the keys of a map in order.
func sorted(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
