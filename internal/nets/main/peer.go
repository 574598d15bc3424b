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

// script has the nets for JAX.
//
//go:embed peer.py
var script string

// reserved is what JAX's compiler reserves for a training step.
type reserved struct {
	Net, Version, Platform    string
	Batch                     int
	Temp                      int64            // bytes of temporaries
	Arguments, Outputs, Alias int64            // bytes of what goes in, of what comes out, and of what comes out where it went in
	Parameters, Statistics    map[string]int64 // elements by name
}

// inOrder is the flag of JAX's compiler by which it does not order instructions so that a CPU can run several at once, which takes memory.
const inOrder = "--xla_cpu_enable_concurrency_optimized_scheduler=false"

// peers prints a row a net: scratch as planned beside the temporaries that JAX's compiler places for a step of as many rows and of the same parameters,
// by default and with inOrder, and what it reserves beside them.
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
			return fmt.Errorf("%s: the step of peer.py is another: %w", n.net.Name, err)
		}
		fmt.Fprintf(w, "%s\t%d", n.net.Name, scratch)
		for _, temp := range []int64{r.Temp, ordered[i].Temp} {
			fmt.Fprintf(w, "\t%d\t%.2f", temp, float64(temp)/float64(scratch))
		}
		fmt.Fprintf(w, "\t%d\t%d\t%d\n", r.Arguments, r.Outputs, r.Alias)
	}
	return w.Flush()
}

// ask runs the script for some nets, with a flag for JAX's compiler beside those of the environment.
func ask(ctx context.Context, python string, all []planned, flag string) ([]reserved, error) {
	args := []string{"-"}
	for _, n := range all {
		args = append(args, n.net.Name)
	}
	var says, complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, python, args...)
	cmd.Env = append(os.Environ(), "XLA_FLAGS="+strings.TrimSpace(os.Getenv("XLA_FLAGS")+" "+flag))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(script), &says, &complaints
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s, which must have JAX: %w\n%s", python, err, complaints.Bytes())
	}
	theirs := make([]reserved, len(all))
	for d, i := json.NewDecoder(&says), 0; i < len(theirs); i++ {
		if err := d.Decode(&theirs[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", all[i].net.Name, err)
		}
	}
	return theirs, nil
}

// alike returns an error where r's step is not one of n's: of as many rows, and parameters and running statistics of the same names and sizes.
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

// elements returns those of a region of float32 by name. Constants, which belong to no layer, are left out.
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
