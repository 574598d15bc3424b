package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/csv"
	"github.com/evenkeel/evenkeel/dataloader/images"
	"github.com/evenkeel/evenkeel/dataloader/jsonl"
	"github.com/evenkeel/evenkeel/dataloader/npy"
	"github.com/evenkeel/evenkeel/dataloader/parquet"
	"github.com/evenkeel/evenkeel/dataloader/shards"
	"github.com/evenkeel/evenkeel/dataloader/tokens"
)

// format is a value of -format.
type format struct {
	name string
	ends []string // of names of files
	uses string   // flags, beside those of every format
	open func(in *input, f flags) error
	hint string // about data that do not fit their fields
}

// formats are all formats. A folder is one of images.
var formats = []format{
	{"images", nil, "size channels encoded classes", (*input).openFolder, ""},
	{"shards", []string{".tar", ".tar.gz", ".tgz", ".tar.zst"}, "size channels encoded classes fields index", (*input).openShards, ""},
	{"parquet", []string{".parquet", ".parq"}, "size channels encoded classes columns", (*input).openParquet, "name:image marks images, " + labelHint},
	{"csv", []string{".csv", ".tsv"}, "classes columns missing", (*input).openCSV, labelHint + ", and -missing lists other texts of missing values"},
	{"jsonl", []string{".jsonl", ".jsonl.gz", ".jsonl.zst", ".ndjson", ".ndjson.gz", ".ndjson.zst"}, "classes columns", (*input).openLines, labelHint},
	{"npy", []string{".npy", ".npz"}, "columns", (*input).openArrays, ""},
	{"tokens", []string{".bin"}, "window bits", (*input).openTokens, ""},
	{"mnist", nil, "classes part", known(func(dir string) (_, _ dataloader.Dataset, err error) { return dataloader.MNIST(dir, 1, 28, 28) }), ""},
	{"cifar10", nil, "classes part", known(dataloader.CIFAR10), ""},
	{"cifar100", nil, "classes part", known(dataloader.CIFAR100), ""},
}

// labelHint is about columns of tables.
const labelHint = "name:class makes labels of texts, name:?0 stores 0 for a missing value"

// explain adds the hint to an error of data that do not fit their fields.
func (g *format) explain(err error) error {
	if g.hint == "" || !errors.Is(err, dataloader.ErrField) && !errors.Is(err, dataloader.ErrFormat) {
		return err
	}
	return fmt.Errorf("%w\nin -columns %s", err, g.hint)
}

// every are the flags that every format uses.
const every = "o format workers seed q"

// formatNames returns the values of -format.
func formatNames() (names []string) {
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

// formatOf returns the format of the input, from -format or its name.
func formatOf(f flags) (*format, error) {
	name := strings.ToLower(f.input)
	if info, err := os.Stat(f.input); f.format == "" && err == nil && info.IsDir() {
		f.format = "images"
	}
	for i, g := range formats {
		ends := func(end string) bool { return strings.HasSuffix(name, end) }
		if f.format == g.name || f.format == "" && slices.ContainsFunc(g.ends, ends) {
			return &formats[i], nil
		}
	}
	switch ext := filepath.Ext(name); {
	case f.format == "arrow" || f.format == "" && slices.Contains([]string{".arrow", ".arrows", ".feather"}, ext):
		return nil, fmt.Errorf("%s: Arrow is read by dataloader/arrow, a module of its own: pack it by the three lines in that package's documentation: %w", f.input, errUsage)
	case f.format != "":
		return nil, fmt.Errorf("-format %s: want one of %s: %w", f.format, strings.Join(formatNames(), ", "), errUsage)
	}
	return nil, fmt.Errorf("%s: its name does not tell the format: give -format: %w", f.input, errUsage)
}

// check returns an error for the flags that the format does not use.
func (g *format) check(f flags) error {
	var errs []error
	for _, name := range f.given {
		switch {
		case slices.Contains(strings.Fields(every+" "+g.uses), name):
		case name == "encoded":
			errs = append(errs, fmt.Errorf("-encoded: format %s has no encoded images, only images, shards and parquet have them: %w", g.name, errUsage))
		case name == "size" || name == "channels":
			errs = append(errs, fmt.Errorf("-%s: format %s has no images to decode: %w", name, g.name, errUsage))
		default:
			errs = append(errs, fmt.Errorf("-%s: format %s does not use it: %w", name, g.name, errUsage))
		}
	}
	return errors.Join(errs...)
}

// input is an open dataset.
type input struct {
	format             *format
	dataloader.Dataset          // passed on as it is, since it may have blocks or encoded bytes
	images             []string // names of the fields with images
	labels             []string // names of the fields with labels
	classes            map[string][]string
	notes              map[string]string
	close              func() error
}

// open opens the input. It returns early when ctx is done; the program then ends.
func open(ctx context.Context, f flags) (*input, error) {
	g, err := formatOf(f)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(g.check(f), ctx.Err()); err != nil {
		return nil, err
	}
	in := &input{format: g, notes: map[string]string{"source": filepath.Base(f.input), "format": g.name}, close: func() error { return nil }}
	opened := make(chan error, 1)
	go func() { opened <- g.open(in, f) }() // which may read large files
	select {
	case err = <-opened:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return nil, g.explain(err)
	}
	if f.encoded && len(in.images) == 0 {
		return nil, errors.Join(fmt.Errorf("-encoded: no field with images: mark one, as -h says: %w", errUsage), in.close())
	}
	return in, nil
}

// opened keeps an open dataset, and the classes that it has found, unless err is set.
func (in *input) opened(d interface {
	dataloader.Dataset
	io.Closer
}, err error) error {
	if err != nil {
		return err
	}
	in.Dataset, in.close = d, d.Close
	table, ok := d.(interface {
		Classes(field string) []string
	})
	if !ok {
		return nil
	}
	for _, name := range in.labels {
		if list := table.Classes(name); list != nil {
			in.classes[name] = list
		}
	}
	return nil
}

// pipeline returns the decoder of images. Those that stay encoded need no size.
func (f flags) pipeline() (*images.Pipeline, error) {
	if f.height == 0 && !f.encoded {
		return nil, fmt.Errorf("give the size of images, such as -size 224x224: %w", errUsage)
	}
	return images.New(images.Options{Height: max(f.height, 1), Width: max(f.width, 1), Channels: f.channels})
}

// openFolder opens a folder of images.
func (in *input) openFolder(f flags) error {
	p, err := f.pipeline()
	if err != nil {
		return err
	}
	in.images, in.labels = []string{"x"}, []string{"y"}
	if err := in.listClasses(f); err != nil {
		return err
	}
	listed := in.classes["y"]
	d, err := images.Open(f.input, images.FolderOptions{Pipeline: p, Classes: listed, AllowEmpty: listed != nil})
	if err != nil {
		return err
	}
	in.Dataset, in.close, in.classes["y"] = d, d.Close, d.Classes()
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
			in.labels = append(in.labels, name)
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
	if err := in.listClasses(f); err != nil {
		return err
	}
	return in.opened(shards.Open(f.input, opt))
}

// openParquet opens Parquet files.
func (in *input) openParquet(f flags) error {
	columns, err := in.tableColumns(f)
	if err != nil {
		return err
	}
	return in.opened(parquet.Open(f.input, parquet.Options{Columns: columns}))
}

// openArrays opens files of NumPy.
func (in *input) openArrays(f flags) error {
	columns, err := in.tableColumns(f)
	if err != nil {
		return err
	}
	return in.opened(npy.Open(f.input, npy.Options{Columns: columns}))
}

// openCSV opens a table of text.
func (in *input) openCSV(f flags) error {
	opt := csv.Options{Held: held}
	if f.missing != "" {
		opt.Missing = strings.Split(f.missing, ",")
	}
	columns, err := in.chooseColumns(f)
	if err != nil {
		return err
	}
	for _, c := range columns {
		if c.shape != nil {
			return fmt.Errorf("-columns %s: a column of a table of text has one number: x=a;b;c makes a vector: %w", f.columns, errUsage)
		}
		field := csv.Field{Name: c.field, Type: c.dtype, Fill: c.fill, Classes: in.classes[c.field], FindClasses: c.isClass && in.classes[c.field] == nil}
		if c.renamed {
			field.Columns = strings.Split(c.name, ";")
		}
		opt.Fields = append(opt.Fields, field)
	}
	return in.opened(csv.Open(f.input, opt))
}

// openLines opens JSON lines.
func (in *input) openLines(f flags) error {
	opt := jsonl.Options{Held: held}
	columns, err := in.chooseColumns(f)
	if err != nil {
		return err
	}
	if columns == nil {
		return fmt.Errorf("name the members that become fields, such as -columns x=meta.embedding:float32[128],y=kind:class: %w", errUsage)
	}
	for _, c := range columns {
		opt.Fields = append(opt.Fields, jsonl.Field{Name: c.field, Path: c.name, Type: c.dtype, Shape: c.shape, Fill: c.fill,
			Classes: in.classes[c.field], FindClasses: c.isClass && in.classes[c.field] == nil})
	}
	return in.opened(jsonl.Open(f.input, opt))
}

// held is the number of decoded pieces of a file, which may be larger than memory.
const held = 4

// openTokens opens files of tokens.
func (in *input) openTokens(f flags) error {
	if f.window == 0 {
		return fmt.Errorf("give the number of tokens of a sample, such as -window 1024: %w", errUsage)
	}
	return in.opened(tokens.Open(f.input, tokens.Options{Window: f.window, Bits: f.bits}))
}

// known opens the part of a data set that package dataloader reads.
func known(read func(dir string) (train, test dataloader.Dataset, err error)) func(in *input, f flags) error {
	return func(in *input, f flags) error {
		in.labels = []string{"y"}
		if err := in.listClasses(f); err != nil {
			return err
		}
		train, test, err := read(f.input)
		if err != nil {
			return err
		}
		in.notes["part"] = f.part
		if in.Dataset = train; f.part == "test" {
			in.Dataset = test
		}
		return nil
	}
}
