//go:build unix

// Main is the program of a rank in the tests of package mpi: it does what -mode selects, and prints
// one line for each thing that a test looks for.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/group/mpi"
)

var (
	mode   = flag.String("mode", "sums", "sums, loop, mismatch or early")
	strict = flag.Bool("strict", false, "sum in the order of ranks")
	limit  = flag.Duration("limit", 0, "of an operation")
	log    = flag.String("log", "", "a file to print to: a launcher may lose output when it ends a job")
	apart  = flag.Bool("apart", false, "a folder of notes for each rank, as if each had its own host")
	notes  = flag.String("notes", "", "folder of notes")
	victim = flag.Int("victim", 0, "the rank that fails in mode loop")
	how    = flag.String("how", "", "kill, exit, stop, term, terms or abort: how it fails")
	after  = flag.Duration("after", 0, "the time after which it fails")
	grace  = flag.Duration("grace", 0, "of the group after SIGTERM")
	n      = flag.Int("n", 1000, "elements that mode loop sums")
)

func main() {
	flag.Parse()
	if *log != "" {
		f, err := os.OpenFile(*log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			fmt.Println(err)
			os.Exit(2)
		}
		os.Stdout = f
	}
	if *apart {
		*notes = filepath.Join(*notes, os.Getenv("OMPI_COMM_WORLD_RANK")+os.Getenv("PMI_RANK"))
		if err := os.Mkdir(*notes, 0o700); err != nil {
			fmt.Println(err)
			os.Exit(2)
		}
	}
	g, err := mpi.Open(mpi.Options{Options: group.Options{Limit: *limit, Strict: *strict}, Notes: *notes, Grace: *grace})
	if err == nil {
		switch *mode {
		case "sums":
			err = sums(g)
		case "loop":
			err = loop(g)
		case "mismatch":
			err = mismatch(g)
		case "early":
			err = early(g)
		}
	}
	report(g, err)
	if g != nil {
		end := g.Close()
		report(g, end)
		err = errors.Join(err, end)
	}
	os.Exit(group.ExitCode(err))
}

// report prints an error, if there is one. A rank reports before it closes: the launcher ends the
// others when the first one ends.
func report(g group.Group, err error) {
	if err != nil {
		fmt.Printf("rank %d: error %v\n", rank(g), err)
	}
}

func rank(g group.Group) int {
	if g == nil {
		return -1
	}
	return g.Rank()
}

// loop sums until one fails.
func loop(g group.Group) error {
	data := make([]byte, 4**n)
	o, err := g.Prepare(group.Op{Kind: group.Sum, Type: arena.Float32, Data: data, Label: "loop"})
	if err != nil {
		return err
	}
	fail, acted := time.Now().Add(*after), false
	for step := 0; ; step++ {
		started := false
		if !acted && g.Rank() == *victim && *how != "" && time.Now().After(fail) {
			acted = true
			large := *n > 1<<20
			if started = large || step%2 == 0; started { // in an operation, else between two
				if err := o.Start(); err != nil {
					return err
				}
				if large {
					time.Sleep(2 * time.Millisecond) // in the middle of it
				}
			}
			if err := act(g); err != nil {
				return err
			}
		}
		run := group.Run
		if started {
			run = group.Operation.Wait
		}
		if err := run(o); err != nil {
			fmt.Printf("rank %d: ends %.3f\n", g.Rank(), float64(time.Now().UnixMilli())/1e3)
			return err
		}
		if step == 0 {
			fmt.Printf("rank %d: ready %d\n", g.Rank(), os.Getpid())
		}
	}
}

// act lets this rank fail.
func act(g group.Group) error {
	fmt.Printf("rank %d: fails %.3f\n", g.Rank(), float64(time.Now().UnixMilli())/1e3)
	switch *how {
	case "kill":
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "exit":
		os.Exit(7)
	case "stop":
		err := syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(time.Minute) // other threads run on for a moment
		return err
	case "term":
		err := syscall.Kill(os.Getpid(), syscall.SIGTERM)
		time.Sleep(100 * time.Millisecond) // the error comes from the operation in flight, or the next
		return err
	case "terms":
		for range 2 {
			if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
				return err
			}
			time.Sleep(100 * time.Millisecond)
		}
		return nil
	case "abort":
		err := errors.New("out of memory: 7 bytes")
		g.Abort(err)
		return err
	}
	return fmt.Errorf("unknown: %s", *how)
}

// mismatch lets the last rank start another operation than the rest, in the third round.
func mismatch(g group.Group) error {
	data := make([]byte, 400)
	for round := range 4 {
		op := group.Op{Kind: group.Sum, Type: arena.Float32, Data: data, Label: "usual"}
		if round == 2 && g.Rank() == g.Size()-1 {
			op = group.Op{Kind: group.Broadcast, Type: arena.Uint8, Data: data[:100], Label: "odd"}
		}
		o, err := g.Prepare(op)
		if err != nil {
			return err
		}
		if err := group.Run(o); err != nil {
			return err
		}
	}
	return nil
}

// early lets the last rank be busy longer than the limit, which is right, and then close too early.
func early(g group.Group) error {
	o, err := g.Prepare(group.Op{Kind: group.Barrier, Label: "round"})
	if err != nil {
		return err
	}
	for range 2 {
		if g.Rank() == g.Size()-1 {
			done := g.Busy("compiles")
			time.Sleep(2 * *limit)
			done()
		}
		if err := group.Run(o); err != nil {
			return err
		}
	}
	fmt.Printf("rank %d: rounds done\n", g.Rank())
	if g.Rank() == g.Size()-1 {
		return nil
	}
	return group.Run(o)
}

// sums compares all kinds of operations with a local group.
func sums(g group.Group) error {
	if g.Rank() == 0 {
		fmt.Printf("engine %s, %d ranks\n", g, g.Size())
	}
	for _, n := range []int{0, 1, 7, 4099, 300_007} {
		for _, op := range operations(g.Size(), n) {
			if err := compare(g, op); err != nil {
				return err
			}
		}
	}
	texts, err := group.Exchange(context.Background(), g, fmt.Appendf(nil, "%*d", 1+g.Rank(), g.Rank()))
	if err != nil {
		return err
	}
	for r, text := range texts {
		if string(text) != fmt.Sprintf("%*d", 1+r, r) {
			return fmt.Errorf("rank %d exchanged %q", r, text)
		}
	}
	if err := objects(g); err != nil {
		return err
	}
	fmt.Printf("rank %d: all right\n", g.Rank())
	return nil
}

// objects returns an error if Start and Wait make Go objects.
func objects(g group.Group) error {
	o, err := g.Prepare(group.Op{Kind: group.Sum, Type: arena.Float32, Data: make([]byte, 3<<20), Label: "objects"})
	if err != nil {
		return err
	}
	const runs = 50
	step := func() { err = errors.Join(err, o.Start(), o.Wait()) }
	if k := testing.AllocsPerRun(runs, step); k != 0 {
		return fmt.Errorf("%v objects a run", k)
	}
	return errors.Join(err, o.Close())
}
