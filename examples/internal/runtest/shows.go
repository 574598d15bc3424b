package runtest

import (
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
// compares n epochs.
func Shows(t *testing.T, e run.Example, n int) {
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
			if len(args) > 0 {
				t.Fatalf("%s: the epochs of a command with arguments are not compared", b.Command)
			}
			b.Text = strings.Join(strings.SplitAfterN(b.Text, "\n", n+1)[:n], "")
			b.Compare(t, strings.Join(epochs(t, e, n), ""), grep)
		})
	}
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
