// Command gpucheck asks a GPU everything that it can be asked, with the programs that lie beside it, and writes a report.
//
//	scripts/gpu-check build DIR    # makes the folder, where Go is
//	DIR/gpucheck                   # fills it, where the GPU is: nothing but the driver is needed
//
// A part that fails is in the report as failed, and the rest goes on; the program ends with 1 then. [Report] is what report.json holds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// check is a folder that is being filled.
type check struct {
	dir     string // of the programs, and of the report
	small   bool
	only    []string // names of parts; empty: all
	report  Report
	results map[string]*Run // by part
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := run(ctx, os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintf(os.Stderr, "gpucheck: %v\n", err)
		os.Exit(2)
	case !ok:
		os.Exit(1)
	}
}

// run is main without the process around it. ok says that no part failed.
func run(ctx context.Context, args []string) (ok bool, err error) {
	c := &check{results: map[string]*Run{}}
	s := flag.NewFlagSet("gpucheck", flag.ContinueOnError)
	s.StringVar(&c.dir, "dir", "", "folder of the programs and of the report; empty: where this program lies")
	s.BoolVar(&c.small, "small", false, "shrink everything, to see on the emulated driver whether it runs")
	limit := s.Duration("limit", 9*time.Minute+30*time.Second, "after which parts that are left are skipped")
	only := s.String("parts", "", "names of the parts to run, separated by commas; empty: all")
	if err := s.Parse(args); err != nil {
		return false, err
	}
	if s.NArg() > 0 {
		return false, fmt.Errorf("unexpected argument %q", s.Arg(0))
	}
	if *only != "" {
		c.only = strings.Split(*only, ",")
	}
	if c.dir == "" {
		self, err := os.Executable()
		if err != nil {
			return false, err
		}
		c.dir = filepath.Dir(self)
	}
	if c.dir, err = filepath.Abs(c.dir); err != nil {
		return false, err
	}
	c.head(ctx)
	ctx, cancel := context.WithTimeoutCause(ctx, *limit, fmt.Errorf("the limit of %v is over", *limit))
	defer cancel()
	return c.all(ctx)
}

// all runs the parts and writes the report after each, so that one is there whatever comes.
func (c *check) all(ctx context.Context) (ok bool, err error) {
	parts := c.parts()
	for _, name := range c.only {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			return false, fmt.Errorf("no part %q", name)
		}
	}
	for _, p := range parts {
		if len(c.only) > 0 && !slices.Contains(c.only, p.name) {
			continue
		}
		done := c.do(ctx, p)
		fmt.Printf("%-20s %-8s %6.1f s  %s\n", done.Name, done.Status, done.Seconds, lastLine(done.Why))
		c.report.Parts = append(c.report.Parts, done)
		c.report.Passed = c.report.Passed && done.Status != Failed
		if err := c.report.write(c.dir); err != nil {
			return false, err
		}
	}
	fmt.Println(filepath.Join(c.dir, "report.md"))
	return c.report.Passed, nil
}

// head is what the report says before its parts.
func (c *check) head(ctx context.Context) {
	host, _ := os.Hostname() // a report without it is as good
	commit, err := os.ReadFile(filepath.Join(c.dir, "commit"))
	if err != nil {
		commit = []byte("unknown")
	}
	c.report = Report{Date: time.Now().UTC().Format(time.RFC3339), Commit: strings.TrimSpace(string(commit)), Host: host, Small: c.small,
		GPU: map[string]string{}, Passed: true}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if said, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader").Output(); err == nil {
		c.report.Driver = strings.TrimSpace(string(said))
	}
}
