// Package runtest runs examples on a part of their data, for their tests.
package runtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/examples/internal/run"
)

// Run runs e on the first samples of its training set and a sixth as many of its test set, and returns what it prints.
// 0 samples: all.
func Run(e run.Example, samples int, args ...string) (string, error) {
	var out bytes.Buffer
	err := runOn(context.Background(), e, samples, &out, args...)
	return out.String(), err
}

// runOn is Run with the program's output and what ends it before its time.
func runOn(ctx context.Context, e run.Example, samples int, out io.Writer, args ...string) error {
	load := e.Load
	e.Load = func(f run.Flags) (train, test dataloader.Dataset, err error) {
		train, test, err = load(f)
		if err != nil || samples == 0 || samples == train.Len() {
			return train, test, err
		}
		train, trainErr := dataloader.Subset(train, 0, samples)
		test, testErr := dataloader.Subset(test, 0, max(1, samples/6))
		return train, test, errors.Join(trainErr, testErr)
	}
	return e.Run(ctx, args, out)
}

// Trains runs e for some epochs and returns its results. It fails t where the plan or an epoch is not printed, or where memory is not flat:
// the arena's bytes in use must be the same after each epoch, and a step must make less than one heap object: the runtime's own, which a short run
// has too few windows to leave out, or less than two in short tests, which the race detector watches.
func Trains(t *testing.T, e run.Example, samples, epochs int, args ...string) run.Results {
	t.Helper()
	file := filepath.Join(t.TempDir(), "results.json")
	out, err := Run(e, samples, append(args, "-epochs", fmt.Sprint(epochs), "-json", file)...)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r run.Results
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "memory plan: ") || strings.Count(out, " bytes in use\n") != epochs {
		t.Errorf("output:\n%s", out)
	}
	allocs := 1.0
	if testing.Short() {
		allocs = 2
	}
	if r.DriftBytes != 0 || r.AllocsPerStep >= allocs || r.ArenaBytes <= 0 || r.ImagesPerS <= 0 {
		t.Errorf("results %+v, want flat memory", r)
	}
	return r
}
