// Command data measures how fast data are loaded, here and with other libraries, from the same
// files.
//
//	go run ./internal/peer/data -peer python3 -rounds 3
//
// The Python needs torch, torchvision, Pillow, pyarrow, datasets, webdataset and psutil. In each
// round every library runs with 0 to 3 workers, one after the other and each in a process of its
// own; the table shows medians over the rounds, of the best number of workers. Memory is that of the
// process and its workers: what they share is counted once.
package main

import (
	"context"
	_ "embed" // of the script
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/peer/python"
)

//go:embed load.py
var script string

// here is the name of this library.
const here = "Evenkeel"

// contender is one library, or one way to use it.
type contender struct {
	library string
	workers []int
	open    func(dir string) (dataloader.Dataset, error) // nil: a row of the script
	run     func(ctx context.Context, dir string, length time.Duration) (speed, error)
}

// row is one kind of data.
type row struct {
	name, what string
	batch      int
	contenders []contender
}

// flags are the flags of the command line.
type flags struct {
	peer    string
	rounds  int
	seconds float64
	rows    string
	dir     string
	child   string // row, library and workers of a process that measures
}

func main() {
	var f flags
	flag.StringVar(&f.peer, "peer", "", "a Python with the other libraries; empty: this library alone")
	flag.IntVar(&f.rounds, "rounds", 3, "rounds")
	flag.Float64Var(&f.seconds, "seconds", 2, "seconds of a run")
	flag.StringVar(&f.rows, "rows", "", "names of rows, separated by commas; empty: all")
	flag.StringVar(&f.dir, "dir", "", "folder of the data, which are made if it has none; empty: a temporary one")
	flag.StringVar(&f.child, "child", "", "measure one row, used by the command itself")
	python.Main("data", func(ctx context.Context) error {
		switch {
		case f.rounds < 1 || f.seconds <= 0:
			return errors.New("rounds and seconds must be above 0")
		case f.child != "":
			return child(ctx, f, os.Stdout)
		}
		return compare(ctx, f, os.Stdout)
	})
}

// chosen returns the rows that the flags name.
func chosen(f flags) ([]row, error) {
	all := rows()
	if f.rows == "" {
		return all, nil
	}
	var some []row
	for name := range strings.SplitSeq(f.rows, ",") {
		i := slices.IndexFunc(all, func(r row) bool { return r.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no row %q", name)
		}
		some = append(some, all[i])
	}
	return some, nil
}

// child measures one contender of one row in this process, and prints its speed.
func child(ctx context.Context, f flags, out io.Writer) error {
	parts := strings.Split(f.child, "/")
	if len(parts) != 3 {
		return fmt.Errorf("child %q: want ROW/LIBRARY/WORKERS", f.child)
	}
	workers, err := strconv.Atoi(parts[2])
	if err != nil {
		return err
	}
	length := time.Duration(f.seconds * float64(time.Second))
	for _, r := range rows() {
		for _, c := range r.contenders {
			if r.name != parts[0] || c.library != parts[1] {
				continue
			}
			var s speed
			if c.run != nil {
				s, err = c.run(ctx, f.dir, length)
			} else {
				var ds dataloader.Dataset
				if ds, err = c.open(f.dir); err == nil {
					s, err = load(ctx, ds, r.batch, workers, length)
				}
			}
			if err != nil {
				return err
			}
			return json.NewEncoder(out).Encode(s)
		}
	}
	return fmt.Errorf("no %q", f.child)
}

// compare prints the table.
func compare(ctx context.Context, f flags, out io.Writer) (err error) {
	some, err := chosen(f)
	if err != nil {
		return err
	}
	if f.dir == "" {
		if f.dir, err = os.MkdirTemp("", "data"); err != nil {
			return err
		}
		defer os.RemoveAll(f.dir)
	}
	if err := prepare(ctx, f); err != nil {
		return err
	}
	fmt.Fprintf(out, "| data | library | workers | samples/s | memory | compared |\n|---|---|--:|--:|--:|---|\n")
	for _, r := range some {
		runs := make([]map[int][]speed, len(r.contenders)) // by contender: by workers
		for range f.rounds {
			for i, c := range r.contenders {
				if c.open == nil && c.run == nil && f.peer == "" {
					continue
				}
				if runs[i] == nil {
					runs[i] = make(map[int][]speed)
				}
				for _, w := range c.workers {
					s, err := measure(ctx, f, r, c, w)
					if err != nil {
						return fmt.Errorf("%s, %s: %w", r.name, c.library, err)
					}
					runs[i][w] = append(runs[i][w], s)
				}
			}
		}
		show(out, r, runs)
	}
	return nil
}

// measure runs one contender in a process of its own.
func measure(ctx context.Context, f flags, r row, c contender, workers int) (s speed, err error) {
	var b []byte
	if c.open == nil && c.run == nil {
		b, err = python.Run(ctx, f.peer, script, nil, "-row", r.name, "-library", c.library, "-dir", f.dir,
			"-workers", strconv.Itoa(workers), "-seconds", fmt.Sprint(f.seconds))
	} else {
		var self string
		if self, err = os.Executable(); err != nil {
			return s, err
		}
		cmd := exec.CommandContext(ctx, self, "-child", fmt.Sprintf("%s/%s/%d", r.name, c.library, workers), "-dir", f.dir,
			"-seconds", fmt.Sprint(f.seconds))
		cmd.Stderr = os.Stderr
		b, err = cmd.Output()
	}
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(b, &s)
}

// best returns the number of workers with the highest median rate, and the medians.
func best(runs map[int][]speed) (workers int, s speed) {
	for w, all := range runs {
		rate := python.Median(all, func(s speed) float64 { return s.Rate }).Rate
		if rate > s.Rate {
			workers, s = w, speed{rate, python.Median(all, func(s speed) float64 { return float64(s.Memory) }).Memory}
		}
	}
	return workers, s
}

// show prints the lines of a row: each contender's best, and how this library compares with each of
// the others.
func show(out io.Writer, r row, runs []map[int][]speed) {
	ours := func(c contender) bool { return strings.HasPrefix(c.library, here) }
	for i, c := range r.contenders {
		if runs[i] == nil {
			continue
		}
		w, s := best(runs[i])
		var notes []string
		for k, other := range r.contenders {
			if runs[k] != nil && ours(c) && !ours(other) {
				_, o := best(runs[k])
				notes = append(notes, fmt.Sprintf("%.1f × %s in %.2f × its memory", s.Rate/o.Rate, other.library, float64(s.Memory)/float64(o.Memory)))
			}
		}
		fmt.Fprintf(out, "| %s | %s | %d | %s | %s | %s |\n", r.what, c.library, w, humanize.Comma(int64(s.Rate)),
			humanize.IBytes(uint64(s.Memory)), strings.Join(notes, "; "))
	}
}
