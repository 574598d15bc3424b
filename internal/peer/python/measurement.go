package python

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
)

// Main is the main function of a command with the given name: it parses the flags and calls run, whose
// ctx is done after an interrupt. After an error of run it prints that and exits with status 1.
func Main(name string, run func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	flag.Parse()
	if err := run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		stop()
		os.Exit(1)
	}
}

// Median returns the run in the middle of the order by a number; of two, that with the larger one.
// There must be a run.
func Median[T any](runs []T, of func(T) float64) T {
	sorted := slices.SortedFunc(slices.Values(runs), func(a, b T) int { return cmp.Compare(of(a), of(b)) })
	return sorted[len(sorted)/2]
}
