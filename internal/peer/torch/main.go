// Command torch exchanges the weights of small networks with PyTorch, and prints how much their
// predictions differ.
//
//	go run ./internal/peer/torch -peer python3
//
// The Python needs the packages torch, transformers and safetensors. It makes networks, and this
// library loads them. Then this library trains them for some steps and saves them, and PyTorch
// loads them strictly: nothing may be missing or left over. A difference is the largest one of all
// outputs, relative to the largest output.
//
// The tests have files that PyTorch made. To make them again, run in this folder
//
//	python3 nets.py make testdata
package main

import (
	"bytes"
	"context"
	_ "embed" // of the script
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/evenkeel/evenkeel/internal/peer/python"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/weights"
)

//go:embed nets.py
var script string

// steps is the number of steps that this library trains before it saves.
const steps = 20

func main() {
	peer := flag.String("peer", "python3", "a Python with torch, transformers and safetensors")
	python.Main("torch", func(ctx context.Context) error { return table(ctx, *peer, os.Stdout) })
}

// table exchanges all networks and prints a row of each.
func table(ctx context.Context, peer string, out io.Writer) error {
	dir, err := os.MkdirTemp("", "torch")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	theirs, ours := filepath.Join(dir, "theirs"), filepath.Join(dir, "ours")
	for _, d := range []string{theirs, ours} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return err
		}
	}
	if _, err := python.Run(ctx, peer, script, nil, "make", theirs); err != nil {
		return err
	}
	loaded := make(map[string]float64)
	for _, m := range nets() {
		if loaded[m.name], err = m.exchange(ctx, theirs, ours); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	versions, err := python.Run(ctx, peer, script, nil, "check", ours)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%-8s %19s %19s\n", "net", "torch → evenkeel", "evenkeel → torch")
	for _, m := range nets() {
		saved, err := m.difference(ours)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		fmt.Fprintf(out, "%-8s %19.1e %19.1e\n", m.name, loaded[m.name], saved)
	}
	fmt.Fprintf(out, "%s\n", bytes.TrimSpace(versions))
	return nil
}

// exchange loads PyTorch's weights and returns how much the predictions differ. Then it trains, and
// saves the weights with input and output.
func (m net) exchange(ctx context.Context, theirs, ours string) (float64, error) {
	x, y, err := readIO(theirs, m.name)
	if err != nil {
		return 0, err
	}
	data, err := x.dataset(y.shape[1])
	if err != nil {
		return 0, err
	}
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		return 0, err
	}
	defer dev.Close()
	t, err := m.open(ctx, dev, data)
	if err != nil {
		return 0, err
	}
	defer t.Close()
	rules := m.rules()
	if _, err := weights.Load(ctx, saved(theirs, m.name), t, weights.LoadOptions{Rules: rules}); err != nil {
		return 0, err
	}
	difference, err := compare(ctx, t, data, y.floats)
	if err != nil {
		return 0, err
	}
	for range steps {
		if _, err := t.Fit(ctx, data); err != nil {
			return 0, err
		}
	}
	if y.floats, err = predict(ctx, t, data); err != nil {
		return 0, err
	}
	if err := writeIO(ours, m.name, x, y); err != nil {
		return 0, err
	}
	return difference, weights.Save(ctx, filepath.Join(ours, m.name+".safetensors"), t, weights.SaveOptions{Rules: rules})
}

// difference compares what PyTorch predicted with the weights in a folder with what was predicted
// here.
func (m net) difference(dir string) (float64, error) {
	_, want, err := readIO(dir, m.name)
	if err != nil {
		return 0, err
	}
	got, err := readValues(filepath.Join(dir, m.name+".out.safetensors"), "y")
	if err != nil {
		return 0, err
	}
	return relative(got.floats, want.floats)
}

// saved returns the file or folder of a network.
func saved(dir, name string) string {
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		path += ".safetensors"
	}
	return path
}
