// Command main prints tables about a training step of each net of package nets:
//
//	go run ./internal/nets/main                  scratch without reuse, planned, and its bound; with recomputation; arenas with offload
//	go run ./internal/nets/main -peer python3    also the memory that JAX's compiler reserves, if that Python has JAX
//	go run ./internal/nets/main -rounds 15       also the time of steps on the host with recomputation
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

// flags are the flags of the command line.
type flags struct {
	peer    string // a Python with JAX; "": no comparison
	rounds  int    // rounds in which steps are timed; 0: none
	steps   int    // steps in a round
	batch   int    // batch size of timed steps; 0: that of the net
	threads int    // threads of the device
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

// parse reads the command line and returns the selected nets.
func parse(args []string, messages io.Writer) (f flags, some []nets.Net, err error) {
	s := flag.NewFlagSet("nets", flag.ContinueOnError)
	s.SetOutput(messages)
	s.StringVar(&f.peer, "peer", "", "a Python with JAX: also print the memory that its compiler reserves")
	s.IntVar(&f.rounds, "rounds", 0, "also time steps on the host, in this number of rounds")
	s.IntVar(&f.steps, "steps", 2, "steps in a round")
	s.IntVar(&f.batch, "batch", 0, "batch size of timed steps; 0: that of the net")
	s.IntVar(&f.threads, "threads", 2, "threads of the host for timed steps")
	s.StringVar(&f.only, "only", "", "name of one net; empty: all")
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

// run prints the tables to out.
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

// columns returns a writer that aligns columns.
func columns(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, 2, ' ', 0) }
