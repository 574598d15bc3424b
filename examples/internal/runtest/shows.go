package runtest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/examples/internal/run"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/page"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// Shows fails t if README.md or a page of docs shows other output than e prints. Of a training it
// compares that many epochs.
func Shows(t *testing.T, e run.Example, epochs int) {
	t.Helper()
	program := "go run ./examples/" + e.Name
	for _, b := range page.Blocks(t, program) {
		t.Run(b.Page+" "+b.Command, func(t *testing.T) {
			args, grep := b.Args(program)
			if grep != "epoch" {
				b.Compare(t, Printed(t, e, args...), grep)
				return
			}
			if testing.Short() || cputest.Race {
				t.Skip("trains for some seconds: run without -short, and without the race detector")
			}
			onTwoThreads(t)
			b.Text = strings.Join(strings.SplitAfterN(b.Text, "\n", epochs+1)[:epochs], "")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out := &ending{epochs: epochs, end: cancel}
			if err := runOn(ctx, e, 0, out, args...); err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			b.Compare(t, out.String(), grep)
		})
	}
}

// ending is an output that ends the program after a number of epochs.
type ending struct {
	strings.Builder
	epochs int
	end    func()
}

// Write writes a line and counts epochs.
func (e *ending) Write(line []byte) (int, error) {
	if strings.HasPrefix(string(line), "epoch") {
		if e.epochs--; e.epochs == 0 {
			e.end()
		}
	}
	return e.Builder.Write(line)
}

// Printed returns the output of e, followed by its error.
func Printed(t testing.TB, e run.Example, args ...string) string {
	t.Helper()
	if !slices.Contains(args, "emu") {
		onTwoThreads(t)
	}
	out, err := Run(e, 0, args...)
	if err != nil {
		out += e.Name + ": " + err.Error() + "\n"
	}
	return out
}

// onTwoThreads sets the threads and instructions of the plans on the pages. Workspaces of kernels
// depend on both.
func onTwoThreads(t testing.TB) {
	t.Helper()
	d, err := cpu.Open(cpu.Options{Threads: 1, Instructions: cpu.AVX512})
	if err != nil {
		t.Skipf("the pages show plans for AVX-512: %v", err)
	}
	d.Close()
	t.Setenv("EVENKEEL_INSTRUCTIONS", "avx512")
	before := runtime.GOMAXPROCS(2)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}
