// Package runtest tests example programs: [Run] runs one on a part of its data, [Trains], [Alike],
// [KeepsItsAccuracy] and [MeetsTheBound] check training and plans, and [Shows] compares the output
// with README.md and the pages of docs.
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

// Run runs e on that many samples of its training set and a sixth as many of its test set, and
// returns the output. 0 samples: all.
func Run(e run.Example, samples int, args ...string) (string, error) {
	var out bytes.Buffer
	err := runOn(context.Background(), e, samples, &out, args...)
	return out.String(), err
}

// runOn is Run with a context and a writer for the output.
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

// Trains runs e for some epochs and returns its results. It fails t if the plan or an epoch is not
// printed, or if memory is not flat: the bytes in use must be the same after each epoch, and a step
// must allocate less than one heap object (two in short tests, which also run with the race
// detector). A short run has too few intervals to leave out objects of the Go runtime.
func Trains(t *testing.T, e run.Example, samples, epochs int, args ...string) run.Results {
	t.Helper()
	file := filepath.Join(t.TempDir(), "results.json")
	out, err := Run(e, samples, append(args, "-epochs", fmt.Sprint(epochs), "-json", file)...)
	if err != nil {
		t.Fatal(err)
	}
	if samples == 0 && len(args) == 0 {
		remember(e, out)
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
