package main

import (
	"context"
	"path/filepath"
	"runtime"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/csv"
	"github.com/evenkeel/evenkeel/dataloader/images"
	"github.com/evenkeel/evenkeel/dataloader/images/turbojpeg"
	"github.com/evenkeel/evenkeel/dataloader/parquet"
	"github.com/evenkeel/evenkeel/dataloader/shards"
	"github.com/evenkeel/evenkeel/dataloader/tokens"
)

// rows returns what is compared.
func rows() []row {
	theirs := func(library string, workers ...int) contender { return contender{library: library, workers: workers} }
	ours := func(open func(dir string) (dataloader.Dataset, error)) contender {
		return contender{library: here, workers: []int{1, 2, 3}, open: open}
	}
	// The file is read with ReadAt, so that its pages are not memory of the process.
	fromFile := func(open func(dir string) (dataloader.Dataset, error)) contender {
		c := ours(open)
		c.library = fileHere
		return c
	}
	// Pictures are decoded by the standard library, and by libturbojpeg.
	pictures := func(open func(dir string, p *images.Pipeline) (dataloader.Dataset, error)) (both []contender) {
		for _, turbo := range []bool{false, true} {
			c := ours(func(dir string) (dataloader.Dataset, error) {
				p, err := pipeline(turbo)
				if err != nil {
					return nil, err
				}
				return open(dir, p)
			})
			if turbo {
				c.library = turboHere
			}
			both = append(both, c)
		}
		return both
	}
	return []row{
		{name: "small", what: "50,000 images 3×32×32, moved and flipped", batch: 128, contenders: []contender{
			ours(small), fromFile(smallFile), theirs("torchvision", 0, 1, 2, 3), theirs("numpy", 0, 1, 2, 3), theirs("numpy, by batch", 0, 1, 2, 3),
		}},
		{name: "jpeg", what: "JPEG files 256×256, random crop to 224×224, flipped", batch: 32, contenders: append(pictures(folder),
			theirs("Pillow", 0, 1, 2, 3), theirs("torchvision.io", 0, 1, 2, 3))},
		{name: "tar", what: "the same in tar archives", batch: 32, contenders: append(pictures(archive), theirs("webdataset", 0, 1, 2, 3))},
		{name: "parquet", what: "the same in Parquet", batch: 32, contenders: append(pictures(columnar), theirs("datasets", 0, 1, 2, 3))},
		{name: "csv", what: "CSV of 1,000,000 × 20 numbers, read whole", contenders: []contender{
			{library: here, workers: []int{runtime.NumCPU()}, run: table}, theirs("pyarrow", 0),
		}},
		{name: "tokens", what: "windows of 1,024 tokens at random, batches of 12", batch: 12, contenders: []contender{ours(windows(false)), fromFile(windows(true)), theirs("numpy", 0)}},
	}
}

// turboHere is this library with libturbojpeg, fileHere without a copy in memory or a mapping.
const (
	turboHere = here + ", libturbojpeg"
	fileHere  = here + ", from the file"
)

// pipeline returns the changes of pictures: torchvision's.
func pipeline(turbo bool) (*images.Pipeline, error) {
	opt := images.Options{Height: 224, Width: 224, Steps: []images.Step{images.RandomResizedCrop{}, images.Flip{Horizontal: 0.5}}}
	if turbo {
		var err error
		if opt.JPEG, err = turbojpeg.Open(turbojpeg.Options{}); err != nil {
			return nil, err
		}
	}
	return images.New(opt)
}

func folder(dir string, p *images.Pipeline) (dataloader.Dataset, error) {
	return images.Open(filepath.Join(dir, "photos"), images.FolderOptions{Pipeline: p})
}

func archive(dir string, p *images.Pipeline) (dataloader.Dataset, error) {
	return shards.Open(filepath.Join(dir, "photos-*.tar"), shards.Options{Fields: []shards.Field{
		{Name: "x", Ext: "jpg", Decoder: p}, {Name: "y", Ext: "cls", Decoder: shards.Class(classes)},
	}})
}

func columnar(dir string, p *images.Pipeline) (dataloader.Dataset, error) {
	return parquet.Open(filepath.Join(dir, "photos.parquet"), parquet.Options{Columns: []parquet.Column{
		{Name: "image", Field: "x", Decoder: p}, {Name: "label", Field: "y", Type: arena.Int32},
	}})
}

func windows(unmapped bool) func(dir string) (dataloader.Dataset, error) {
	return func(dir string) (dataloader.Dataset, error) {
		return tokens.Open(filepath.Join(dir, "tokens.bin"), tokens.Options{Window: window, Stride: 1, Unmapped: unmapped})
	}
}

// table reads the whole table, again and again.
func table(ctx context.Context, dir string, length time.Duration) (s speed, err error) {
	for begun, n := time.Now(), 0; ; {
		ds, err := csv.Open(filepath.Join(dir, "table.csv"), csv.Options{})
		if err != nil {
			return s, err
		}
		if n += ds.Len(); time.Since(begun) >= length {
			s.Rate = float64(n) / time.Since(begun).Seconds()
			s.Memory, err = resident()
			return s, err
		}
		if err := ds.Close(); err != nil {
			return s, err
		}
		if err := ctx.Err(); err != nil {
			return s, err
		}
	}
}
