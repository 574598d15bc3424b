package runtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/evenkeel/evenkeel/examples/internal/run"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// trained holds what examples print when they are trained as they are shipped, without arguments,
// so that the tests of a package share one training.
var trained struct {
	sync.Mutex
	lines map[string][]string // by key: a line for each epoch
}

// key returns e and what its results may depend on.
func key(e run.Example) string {
	instructions := "none"
	if d, err := cpu.Open(cpu.Options{Threads: 1}); err == nil {
		i, _ := d.Instructions()
		if i == cpu.AVX512BF16 { // which differ from AVX512 in products of bfloat16 only
			i = cpu.AVX512
		}
		instructions = fmt.Sprint(i)
		d.Close()
	}
	return fmt.Sprintf("%s, %s on %d threads", e.Name, instructions, runtime.GOMAXPROCS(0))
}

// remember keeps the lines of the epochs of an output.
func remember(e run.Example, out string) {
	k := key(e)
	trained.Lock()
	defer trained.Unlock()
	if trained.lines == nil {
		trained.lines = make(map[string][]string)
	}
	var lines []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "epoch") {
			lines = append(lines, line)
		}
	}
	if len(lines) > len(trained.lines[k]) {
		trained.lines[k] = lines
	}
}

// epochs returns what e, without arguments, prints about its first n epochs. It trains e, unless a
// test of the package has done so.
func epochs(t *testing.T, e run.Example, n int) []string {
	t.Helper()
	lines := func() []string {
		k := key(e)
		trained.Lock()
		defer trained.Unlock()
		return trained.lines[k]
	}
	if len(lines()) < n {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out := &ending{epochs: n, end: cancel}
		if err := runOn(ctx, e, 0, out); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		remember(e, out.String())
	}
	if len(lines()) < n {
		t.Fatalf("%s printed %q, want %d epochs", e.Name, lines(), n)
	}
	return lines()[:n]
}

// Accuracy returns the accuracy of e on the test set after n epochs, as e prints it.
func Accuracy(t *testing.T, e run.Example, n int) float64 {
	t.Helper()
	line := epochs(t, e, n)[n-1]
	_, test, _ := strings.Cut(line, "test loss")
	_, percent, _ := strings.Cut(test, "(")
	percent, _, _ = strings.Cut(percent, " %")
	accuracy, err := strconv.ParseFloat(percent, 64)
	if err != nil {
		t.Fatalf("no accuracy in %q: %v", line, err)
	}
	return accuracy / 100
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
