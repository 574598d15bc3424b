// Command main prints what a training step of each net of package nets needs:
//
//	go run ./internal/nets/main                  bytes of scratch: without reuse, planned, most live; with recomputation; of the arena, with offload
//	go run ./internal/nets/main -peer python3    also what JAX's compiler reserves, where that Python has JAX
//	go run ./internal/nets/main -rounds 15       also how long steps take on the host with recomputation
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"text/tabwriter"

	"github.com/evenkeel/evenkeel/internal/nets"
)

// flags are what the command line says.
type flags struct {
	peer    string // a Python that has JAX; "": leave it out
	rounds  int    // in which steps are timed; 0: not at all
	steps   int    // of a round
	batch   int    // of steps that are timed; 0: the net's
	threads int    // that compute
	only    string // name of a net; "": all
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

// parse reads the command line, and returns the nets that it asks for.
func parse(args []string, messages io.Writer) (f flags, some []nets.Net, err error) {
	s := flag.NewFlagSet("nets", flag.ContinueOnError)
	s.SetOutput(messages)
	s.StringVar(&f.peer, "peer", "", "a Python that has JAX: also show what its compiler reserves")
	s.IntVar(&f.rounds, "rounds", 0, "also time steps on the host, in so many rounds")
	s.IntVar(&f.steps, "steps", 2, "steps of a round")
	s.IntVar(&f.batch, "batch", 0, "rows of steps that are timed; 0: the net's")
	s.IntVar(&f.threads, "threads", 2, "threads that compute, where steps are timed")
	s.StringVar(&f.only, "only", "", "the net; all where empty")
	if err := s.Parse(args); err != nil {
		return f, nil, err
	}
	var errs []error
	if s.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q", s.Arg(0)))
	}
	if f.rounds < 0 || f.steps < 1 || f.batch < 0 || f.threads < 1 {
		errs = append(errs, fmt.Errorf("rounds %d and batch %d must not be negative, steps %d and threads %d must be above 0", f.rounds, f.batch, f.steps, f.threads))
	}
	var names []string
	for _, n := range nets.All() {
		if names = append(names, n.Name); f.only == "" || f.only == n.Name {
			some = append(some, n)
		}
	}
	if len(some) == 0 {
		errs = append(errs, fmt.Errorf("net %q: must be one of %s", f.only, strings.Join(names, ", ")))
	}
	return f, some, errors.Join(errs...)
}

// run is main without the process around it.
func run(ctx context.Context, args []string, out, messages io.Writer) error {
	f, some, err := parse(args, messages)
	if err != nil {
		return err
	}
	all, err := plans(some)
	if err != nil {
		return err
	}
	tables := []func() error{
		func() error { return placed(all, out) },
		func() error { return recomputed(all, out) },
		func() error { return offloaded(all, out) },
	}
	if f.peer != "" {
		tables = append(tables, func() error { return peers(ctx, f.peer, all, out) })
	}
	if f.rounds > 0 {
		tables = append(tables, func() error { return timed(ctx, f, some, out) })
	}
	for i, print := range tables {
		if i > 0 {
			fmt.Fprintln(out)
		}
		if err := print(); err != nil {
			return err
		}
	}
	return nil
}

// columns returns a writer that lines columns up.
func columns(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, 2, ' ', 0) }
