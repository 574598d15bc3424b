// Command models imports models of usual architectures, exported by both exporters of PyTorch, and
// compares their outputs with those of onnxruntime.
//
//	go run ./onnx/internal/models -peer python3
//
// It runs in the root of the module. The Python needs torch, torchvision, transformers, onnx,
// onnxscript and onnxruntime; onnx/testdata/export.py has the models. With -dir the files are kept
// there, and made only if the folder has none. The table is that of docs/onnx.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/onnx"
	"github.com/evenkeel/evenkeel/onnx/internal/onnxtest"
)

// script exports the models. Its path is that from the root of the module, where the command runs.
const script = "onnx/testdata/export.py"

// tolerance is the largest difference from onnxruntime, as a part of the largest element of an
// output.
const tolerance = 1e-4

// least is the size that outputs must have: of smaller ones any error would pass.
const least = 0.1

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	peer := flag.String("peer", "", "a Python that exports the models")
	dir := flag.String("dir", "", "folder of the exported models; default a temporary one")
	flag.Parse()
	if err := run(ctx, os.Stdout, *peer, *dir, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run exports the models, or those that are named, and prints a line for each file.
func run(ctx context.Context, out io.Writer, peer, dir string, names []string) error {
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "onnx"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.onnx"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		if peer == "" {
			return errors.New("no models: name a Python by -peer, or a folder that has them by -dir")
		}
		if err := export(ctx, peer, dir, names); err != nil {
			return err
		}
		if files, err = filepath.Glob(filepath.Join(dir, "*.onnx")); err != nil {
			return err
		}
	}
	return compare(ctx, out, files, names)
}

// export runs the script.
func export(ctx context.Context, peer, dir string, names []string) error {
	cmd := exec.CommandContext(ctx, peer, append([]string{script, dir}, names...)...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}

// A row is a model of the table: by both exporters, or by a way of its own.
type row struct {
	name    string
	nodes   []string // by exporter: nodes of the file, and how many of them import computes
	bytes   int64    // of device memory, the larger plan
	rows    int
	largest float64 // smallest of the largest outputs
	worst   float64 // largest error
	failed  bool
}

// compare prints the table, and returns an error if a model is not imported or computes something
// else.
func compare(ctx context.Context, out io.Writer, files, names []string) error {
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		return err
	}
	defer dev.Close()
	var table []*row
	bad := 0
	for _, file := range files {
		model, exporter, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".onnx"), ".")
		if len(names) > 0 && !slices.Contains(names, model) {
			continue
		}
		name := model
		if exporter != "old" && exporter != "dynamo" {
			name += ", " + exporter
		}
		i := slices.IndexFunc(table, func(r *row) bool { return r.name == name })
		if i < 0 {
			table = append(table, &row{name: name, largest: math.Inf(1)})
			i = len(table) - 1
		}
		r, err := onnxtest.Compare(ctx, file, onnx.Options{}, dev)
		if err != nil {
			bad++
			fmt.Fprintf(out, "%s: %v\n", file, err)
			continue
		}
		if !table[i].add(exporter, r) {
			bad++
		}
	}
	fmt.Fprintln(out, "| model | nodes, computed at import | rows | device memory | largest output | error |")
	fmt.Fprintln(out, "|---|---|--:|--:|--:|--:|")
	for _, r := range table {
		if len(r.nodes) == 0 {
			continue
		}
		note := ""
		if r.failed {
			note = " ✗"
		}
		fmt.Fprintf(out, "| %s | %s | %d | %s | %.2g | %.0e%s |\n", r.name, strings.Join(r.nodes, "; "), r.rows, humanize.IBytes(uint64(r.bytes)),
			r.largest, r.worst, note)
	}
	if bad > 0 {
		return fmt.Errorf("%d models are not imported or differ by more than %v", bad, tolerance)
	}
	return nil
}

// add adds the result of a file and reports whether it is right.
func (r *row) add(exporter string, c onnxtest.Result) bool {
	report := c.Model.Report()
	text := fmt.Sprintf("%d, %d", report.Nodes, report.Folded)
	if exporter == "old" || exporter == "dynamo" {
		text = exporter + " " + text
	}
	r.nodes = append(r.nodes, text)
	r.bytes, r.rows = max(r.bytes, c.Bytes), c.Rows
	r.largest, r.worst = min(r.largest, c.Largest), max(r.worst, c.Error)
	right := c.Error <= tolerance && c.Largest >= least
	r.failed = r.failed || !right
	return right
}
