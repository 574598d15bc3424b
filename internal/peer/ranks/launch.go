package main

import (
	"bytes"
	"context"
	_ "embed" // of the script
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/evenkeel/evenkeel/internal/peer/python"
)

//go:embed ranks.py
var script string

// launch measures the ranks of MPI: processes of this program that the launcher starts.
func (f flags) launch(ctx context.Context, workload string) (r result, err error) {
	out, err := f.members(ctx, f.ranks, "-workload", workload, "-ranks", strconv.Itoa(f.ranks),
		"-epochs", strconv.Itoa(f.epochs), "-shrink", strconv.Itoa(f.shrink))
	if err != nil {
		return r, err
	}
	return decode(f.mpirun, out)
}

// members starts n processes of this program by the launcher of MPI, and returns what they print.
func (f flags) members(ctx context.Context, n int, args ...string) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args = slices.Concat(strings.Fields(f.mpirun), []string{"-n", strconv.Itoa(n), self, "-member"}, args)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", f.mpirun, err, &messages)
	}
	return out.Bytes(), nil
}

// distributed measures the ranks of PyTorch: a process for each, which meet in a file.
func (f flags) distributed(ctx context.Context, workload string) (result, error) {
	dir, err := os.MkdirTemp("", "evenkeel-ranks-")
	if err != nil {
		return result{}, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	outs := make([][]byte, f.ranks)
	var all sync.WaitGroup
	for i := range outs {
		all.Go(func() {
			out, err := python.Run(ctx, f.peer, script, nil, "-workload", workload, "-ranks", strconv.Itoa(f.ranks), "-rank", strconv.Itoa(i),
				"-store", filepath.Join(dir, "store"), "-batch", strconv.Itoa(f.batch(workload)/f.ranks), "-steps", strconv.Itoa(steps[workload]),
				"-epochs", strconv.Itoa(f.epochs), "-shrink", strconv.Itoa(f.shrink), "-rate", fmt.Sprint(rate))
			if outs[i] = out; err != nil {
				stop(fmt.Errorf("rank %d: %w", i, err)) // the others would wait
			}
		})
	}
	all.Wait()
	if err := errors.Join(context.Cause(ctx), os.RemoveAll(dir)); err != nil {
		return result{}, err
	}
	return decode(f.peer, outs[0])
}

// decode reads the result that a program printed.
func decode(program string, out []byte) (r result, err error) {
	if err := json.Unmarshal(out, &r); err != nil {
		return r, fmt.Errorf("%s printed %.100q: %w", program, out, err)
	}
	if r.Rate <= 0 {
		return r, fmt.Errorf("%s reports %v samples a second", program, r.Rate)
	}
	return r, nil
}
