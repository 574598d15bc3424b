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

// flags are the flags of the command line.
type flags struct {
	out, info, verify bool
	path              string // of the pack
	input             string
	format            string
	width, height     int
	channels          int
	encoded           bool
	fields            string   // of shards
	columns           string   // of tables
	classes           []string // files with names of classes, also FIELD=file
	missing           string   // texts of missing values
	window, bits      int      // of tokens
	index             string
	part              string
	given             []string // names of the flags that were given
	workers           int
	seed              uint64
	quiet             bool
}

// errUsage is the class of mistakes on the command line.
var errUsage = errors.New("see evenkeel-pack -h")

// parse reads the command line.
func parse(args []string, messages io.Writer) (f flags, err error) {
	s := flag.NewFlagSet("evenkeel-pack", flag.ContinueOnError)
	s.SetOutput(messages)
	s.Usage = func() {
		fmt.Fprint(messages, "Usage: evenkeel-pack -o FILE [flags] INPUT\n       evenkeel-pack -info FILE\n       evenkeel-pack -verify FILE\n")
		s.PrintDefaults()
	}
	var size, out, info, verify string
	s.StringVar(&out, "o", "", "write the pack to this `file`")
	s.StringVar(&info, "info", "", "print what this pack `file` holds")
	s.StringVar(&verify, "verify", "", "compare this pack `file` with its checksums")
	s.StringVar(&f.format, "format", "", "`format` of the input: "+strings.Join(formatNames(), ", ")+" (default: by its name)")
	s.StringVar(&size, "size", "", "height and width of images, such as `224x224`: they are scaled to that")
	s.IntVar(&f.channels, "channels", 3, "channels of images: 1, 3 or 4")
	s.BoolVar(&f.encoded, "encoded", false, "keep the encoded images, which a program decodes when it reads the pack")
	s.StringVar(&f.fields, "fields", "x=jpg;jpeg;png;webp,y=cls", "`fields` of shards, as name=extension;extension: .cls and .json=path hold numbers, others images")
	s.StringVar(&f.columns, "columns", "", "`columns` of a table, or arrays, separated by commas, as [FIELD=]NAME[:KIND] (default: all): KIND is a type such as float32[3x4]?0, which stores 0 for a missing value, or image, or class for texts that become labels")
	s.Func("classes", "names of the classes, in the order of their labels: a text `file` with one in each line, or a pack; y=file if several fields have labels (default: the folders, or the texts of the column, sorted by bytes)",
		func(file string) error { f.classes = append(f.classes, file); return nil })
	s.StringVar(&f.missing, "missing", "", "`texts` of missing values in CSV, separated by commas, beside the empty one")
	s.IntVar(&f.window, "window", 0, "`tokens` of a sample")
	s.IntVar(&f.bits, "bits", 16, "`bits` of a token: 16 or 32")
	s.StringVar(&f.index, "index", "", "keep the index of shards in this `file`")
	s.StringVar(&f.part, "part", "train", "`part` of mnist, cifar10 and cifar100: train or test")
	s.IntVar(&f.workers, "workers", 0, "goroutines that read (default: by the number of processors)")
	s.Uint64Var(&f.seed, "seed", 0, "seed of random draws")
	s.BoolVar(&f.quiet, "q", false, "print nothing but errors")
	if err := s.Parse(args); err != nil {
		return f, err
	}
	modes := 0
	for _, m := range []string{out, info, verify} {
		if m != "" {
			modes, f.path = modes+1, m
		}
	}
	f.out, f.info, f.verify = out != "", info != "", verify != ""
	if modes != 1 {
		return f, fmt.Errorf("give one of -o, -info and -verify: %w", errUsage)
	}
	if want := min(1, len(out)); s.NArg() != want {
		return f, fmt.Errorf("%d arguments after the flags, want %d: %w", s.NArg(), want, errUsage)
	}
	s.Visit(func(g *flag.Flag) { f.given = append(f.given, g.Name) })
	if f.input = s.Arg(0); f.out && f.input == "" {
		return f, fmt.Errorf("the name of the input is empty: %w", errUsage)
	}
	for _, name := range f.given {
		if !f.out && !slices.Contains([]string{"info", "verify", "q"}, name) {
			return f, fmt.Errorf("-%s: only -o uses it: %w", name, errUsage)
		}
	}
	if size != "" {
		if n, err := fmt.Sscanf(size+"\n", "%dx%d\n", &f.height, &f.width); n != 2 || err != nil || f.height < 1 || f.width < 1 {
			return f, fmt.Errorf("-size %s: want height x width, such as 224x224: %w", size, errUsage)
		}
	}
	if f.part != "train" && f.part != "test" {
		return f, fmt.Errorf("-part %s: want train or test: %w", f.part, errUsage)
	}
	return f, nil
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
