package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

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

// define defines the flags that say what is packed, and how.
func (f *flags) define(s *flag.FlagSet) {
	s.StringVar(&f.format, "format", "", "`format` of the input: "+strings.Join(formatNames(), ", ")+" (default: by its name)")
	s.Func("size", "height and width of images, such as `224x224`: they are scaled to that", f.setSize)
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
}

// setSize parses -size.
func (f *flags) setSize(size string) error {
	if n, err := fmt.Sscanf(size+"\n", "%dx%d\n", &f.height, &f.width); n != 2 || err != nil || f.height < 1 || f.width < 1 {
		return errors.New("want height x width, such as 224x224")
	}
	return nil
}

// parse reads the command line.
func parse(args []string, messages io.Writer) (f flags, err error) {
	s := flag.NewFlagSet("evenkeel-pack", flag.ContinueOnError)
	s.SetOutput(io.Discard) // an error is printed once, without all flags
	var out, info, verify string
	s.StringVar(&out, "o", "", "write the pack to this `file`")
	s.StringVar(&info, "info", "", "print what this pack `file` holds")
	s.StringVar(&verify, "verify", "", "compare this pack `file` with its checksums")
	f.define(s)
	switch err := s.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(messages, "Usage: evenkeel-pack -o FILE [flags] INPUT\n       evenkeel-pack -info FILE\n       evenkeel-pack -verify FILE\n")
		s.SetOutput(messages)
		s.PrintDefaults()
		return f, err
	case err != nil:
		return f, fmt.Errorf("%w: %w", err, errUsage)
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
	if f.part != "train" && f.part != "test" {
		return f, fmt.Errorf("-part %s: want train or test: %w", f.part, errUsage)
	}
	return f, nil
}
