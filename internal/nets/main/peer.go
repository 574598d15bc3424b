package main

import (
	"bytes"
	"context"
	_ "embed" // of peer.py
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"strings"
)

// script builds the nets in JAX.
//
//go:embed peer.py
var script string

// reserved is the memory that JAX's compiler reserves for a training step.
type reserved struct {
	Net, Version, Platform    string
	Batch                     int
	Temp                      int64            // bytes of temporaries
	Arguments, Outputs, Alias int64            // bytes of inputs, of outputs, and of outputs in the place of inputs
	Parameters, Statistics    map[string]int64 // elements by name
}

// inOrder is the flag of JAX's compiler that turns off the order of instructions for concurrency,
// which needs more memory.
const inOrder = "--xla_cpu_enable_concurrency_optimized_scheduler=false"

// peers prints a row for each net: planned scratch, and the temporaries that JAX's compiler
// reserves for a step of the same batch size and parameters, by default and with inOrder, and its
// other memory.
func peers(ctx context.Context, python string, all []planned, out io.Writer) error {
	first, err := ask(ctx, python, all, "")
	if err != nil {
		return err
	}
	ordered, err := ask(ctx, python, all, inOrder)
	if err != nil {
		return err
	}
	w := columns(out)
	fmt.Fprintf(w, "net\tplanned\tJAX %s, %s\tratio\tin order\tratio\targuments\toutputs\tin place\n", first[0].Version, first[0].Platform)
	for i, n := range all {
		r, scratch := first[i], n.whole.step().Scratch
		if err := r.alike(n); err != nil {
			return fmt.Errorf("%s: peer.py runs a different step: %w", n.net.Name, err)
		}
		fmt.Fprintf(w, "%s\t%d", n.net.Name, scratch)
		for _, temp := range []int64{r.Temp, ordered[i].Temp} {
			fmt.Fprintf(w, "\t%d\t%.2f", temp, float64(temp)/float64(scratch))
		}
		fmt.Fprintf(w, "\t%d\t%d\t%d\n", r.Arguments, r.Outputs, r.Alias)
	}
	return w.Flush()
}

// ask runs the script for the nets, with a flag for JAX's compiler in addition to those of the
// environment.
func ask(ctx context.Context, python string, all []planned, flag string) ([]reserved, error) {
	args := []string{"-"}
	for _, n := range all {
		args = append(args, n.net.Name)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, python, args...)
	cmd.Env = append(os.Environ(), "XLA_FLAGS="+strings.TrimSpace(os.Getenv("XLA_FLAGS")+" "+flag))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(script), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s, which must have JAX: %w\n%s", python, err, stderr.Bytes())
	}
	theirs := make([]reserved, len(all))
	for d, i := json.NewDecoder(&stdout), 0; i < len(theirs); i++ {
		if err := d.Decode(&theirs[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", all[i].net.Name, err)
		}
	}
	return theirs, nil
}

// alike returns an error unless r is a step of n: with the same batch size, and parameters and
// running statistics of the same names and sizes.
func (r reserved) alike(n planned) error {
	switch {
	case r.Net != n.net.Name || r.Batch != n.net.Batch:
		return fmt.Errorf("%s of %d rows, want %d", r.Net, r.Batch, n.net.Batch)
	case !maps.Equal(r.Parameters, n.elements("parameters")):
		return fmt.Errorf("parameters %v, want %v", r.Parameters, n.elements("parameters"))
	case !maps.Equal(r.Statistics, n.elements("running statistics")):
		return fmt.Errorf("running statistics %v, want %v", r.Statistics, n.elements("running statistics"))
	}
	return nil
}

// elements returns the number of elements of each part of a region of float32, by name, without
// constants.
func (n planned) elements(region string) map[string]int64 {
	all := make(map[string]int64)
	for _, r := range n.whole.plan.Regions {
		for _, part := range r.Parts {
			if r.Name == region && part.Owner != "" {
				all[part.Name] = part.Size / 4
			}
		}
	}
	return all
}
