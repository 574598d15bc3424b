// Command evenkeel-pack stores a dataset of any format as a pack: one file of records of equal size,
// which is read at random at the speed of the file system.
//
//	evenkeel-pack -o train.pack -size 224x224 photos/               a folder with a subfolder for each class
//	evenkeel-pack -o train.pack -encoded photos/                    the same, keeping the JPEG files as they are
//	evenkeel-pack -o train.pack -size 64x64 'train-{000..099}.tar'  shards of WebDataset, plain, gzip or zstd
//	evenkeel-pack -o train.pack -columns a,y=kind:class table.csv   columns of a CSV or Parquet file
//	evenkeel-pack -o train.pack -columns x=meta.x:float32[8] l.jsonl.zst   members of JSON lines
//	evenkeel-pack -o train.pack arrays.npz                          arrays of NumPy
//	evenkeel-pack -o train.pack -window 1024 tokens.bin             windows of tokens
//	evenkeel-pack -o train.pack -format cifar10 data/               CIFAR-10, CIFAR-100, MNIST: the training part
//	evenkeel-pack -info train.pack                                  what a pack holds
//	evenkeel-pack -verify train.pack                                compare it with its checksums
//
// -columns lists columns as [FIELD=]NAME[:KIND]. FIELD is the name of the field; NAME by default, in
// which dots lead into the objects of JSON lines, and semicolons join columns of CSV to a vector. KIND
// is a type (float32, float64, float16, bfloat16, uint8, int32, int64), image, or class, for texts that
// become labels; then the shape of lists, as in float32[3x4]; then what is stored for a missing value,
// as in float32?0.
//
// Labels are the indices of the names of classes: the subfolders of a folder, the texts of a column,
// sorted by bytes, or the list that -classes gives. The pack keeps the names, so that
//
//	evenkeel-pack -o test.pack -classes train.pack -size 224x224 photos/test
//
// gives the test data the labels of the training data.
//
// Programs read packs with package dataloader/pack.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/pack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "evenkeel-pack:", err)
		stop()
		os.Exit(1)
	}
}

// run is the command.
func run(ctx context.Context, args []string, out, messages io.Writer) error {
	f, err := parse(args, messages)
	if err != nil {
		return err
	}
	if f.quiet {
		out, messages = io.Discard, io.Discard
	}
	switch {
	case f.info:
		return show(f.path, out)
	case f.verify:
		return check(ctx, f, out, messages)
	}
	return write(ctx, f, out, messages)
}

// replaceable returns an error unless there is no file at path, or a pack, or an empty file.
func replaceable(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if is, err := isPack(path); err != nil || is {
		return err
	}
	if info.Size() > 0 {
		return fmt.Errorf("%s is no pack, and is not replaced: remove it first: %w", path, errUsage)
	}
	return nil
}

// write packs the input.
func write(ctx context.Context, f flags, out, messages io.Writer) (err error) {
	if err := replaceable(f.path); err != nil {
		return err
	}
	in, err := open(ctx, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	opt := pack.WriteOptions{Workers: f.workers, Seed: f.seed, Classes: in.classes, Notes: in.notes}
	if f.encoded {
		opt.Encoded = in.images
	}
	bar := newBar(int64(in.Len()), "samples", messages)
	opt.Progress = func(p pack.Progress) { _ = bar.Set(p.Done) } // packing goes on without the bar
	begin := time.Now()
	if err := pack.Write(ctx, f.path, in.Dataset, opt); err != nil {
		return in.format.explain(err)
	}
	_ = bar.Finish()
	info, err := pack.Stat(f.path)
	if err != nil {
		return err
	}
	took := time.Since(begin)
	fmt.Fprintf(out, "%s: %s samples, %s in %v (%s/s)\n", f.path, humanize.Comma(int64(info.Samples)), humanize.Bytes(uint64(info.Bytes)),
		took.Round(time.Millisecond), humanize.Bytes(uint64(float64(info.Bytes)/took.Seconds())))
	return nil
}

// check compares a pack with its checksums.
func check(ctx context.Context, f flags, out, messages io.Writer) error {
	var bar *progressbar.ProgressBar
	err := pack.Verify(ctx, f.path, func(done, total int64) {
		if bar == nil {
			bar = newBar(total, "bytes", messages)
		}
		_ = bar.Set64(done)
	})
	if err != nil {
		return err
	}
	if bar != nil {
		_ = bar.Finish()
	}
	fmt.Fprintf(out, "%s: all checksums are right\n", f.path)
	return nil
}

// show prints what a pack holds.
func show(path string, out io.Writer) error {
	i, err := pack.Stat(path)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s samples of %s, %s in all\n", humanize.Comma(int64(i.Samples)), humanize.Bytes(uint64(i.RecordBytes+i.ValueBytes/int64(i.Samples))), humanize.Bytes(uint64(i.Bytes)))
	for _, f := range i.Fields {
		fmt.Fprintf(out, "  %-12s %s\n", printable(f.Name), describe(f, i.Classes[f.Name]))
	}
	fmt.Fprintf(out, "fingerprint %016x\n", i.Fingerprint)
	for _, name := range slices.Sorted(maps.Keys(i.Notes)) {
		fmt.Fprintf(out, "%s: %s\n", printable(name), printable(i.Notes[name]))
	}
	return nil
}

// printable returns a text of a file as it is, or in quotes if it would move the cursor.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// shownClasses is the number of names of classes that are printed.
const shownClasses = 20

// describe returns the type of a field, and the names of its classes.
func describe(f dataloader.Field, classes []string) string {
	if f.Type.Size() == 0 || f.Bytes() < 0 {
		return "encoded"
	}
	text := f.Type.String()
	if len(f.Shape) > 0 {
		text += fmt.Sprint(" ", f.Shape)
	}
	if f.Scale != 0 && f.Scale != 1 || f.Shift != 0 {
		scale := f.Scale
		if scale == 0 {
			scale = 1
		}
		text += fmt.Sprintf(", x·%.6g + %.6g", scale, f.Shift)
	}
	if n := len(classes); n > 0 {
		text += fmt.Sprintf(", %d classes: %q", n, classes[:min(n, shownClasses)])
		if n > shownClasses {
			text += " …"
		}
	}
	return text
}

// newBar returns a progress bar. It is visible if messages is a terminal.
func newBar(n int64, things string, messages io.Writer) *progressbar.ProgressBar {
	file, ok := messages.(*os.File)
	if ok {
		s, err := file.Stat()
		ok = err == nil && s.Mode()&os.ModeCharDevice != 0
	}
	options := []progressbar.Option{progressbar.OptionSetWriter(messages), progressbar.OptionSetWidth(20), progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100 * time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetVisibility(ok)}
	if things == "bytes" {
		options = append(options, progressbar.OptionShowBytes(true))
	} else {
		options = append(options, progressbar.OptionShowIts(), progressbar.OptionSetItsString(things))
	}
	return progressbar.NewOptions64(n, options...)
}
