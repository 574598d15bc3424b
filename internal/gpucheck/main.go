// Command gpucheck runs tests, benchmarks and trainings on a GPU, with the programs in its folder,
// and writes a report.
//
//	scripts/gpu-check build DIR    # builds the folder, on a machine with Go
//	DIR/gpucheck                   # runs it, on a machine with a GPU; it needs only the driver
//
// After a part has failed the others still run, and the exit status is 1. [Report] is the content
// of report.json.
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

// check is one run of gpucheck.
type check struct {
	dir     string // folder of the programs and of the report
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

// run runs the selected parts. ok: no part failed.
func run(ctx context.Context, args []string) (ok bool, err error) {
	c := &check{results: map[string]*Run{}}
	s := flag.NewFlagSet("gpucheck", flag.ContinueOnError)
	s.StringVar(&c.dir, "dir", "", "folder of the programs and of the report; empty: the folder of this program")
	s.BoolVar(&c.small, "small", false, "shrink everything, to try all parts on the emulated driver")
	limit := s.Duration("limit", 9*time.Minute+30*time.Second, "time after which the remaining parts are skipped")
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

// all runs the parts. It writes the report after each, so that a report exists even if the program
// is killed.
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

// head fills the report except its parts.
func (c *check) head(ctx context.Context) {
	host, _ := os.Hostname() // optional
	commit, err := os.ReadFile(filepath.Join(c.dir, "commit"))
	if err != nil {
		commit = []byte("unknown")
	}
	c.report = Report{Date: time.Now().UTC().Format(time.RFC3339), Commit: strings.TrimSpace(string(commit)), Host: host, Small: c.small,
		GPU: map[string]string{}, Passed: true}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if gpu, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader").Output(); err == nil {
		c.report.Driver = strings.TrimSpace(string(gpu))
	}
}
