// Command evenkeel-runs writes a page that compares recorded runs (package trainer/runs): each in a
// colour of its own, with what differs in their settings.
//
//	evenkeel-runs -o compare.html runs/a runs/b
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/evenkeel/evenkeel/trainer/runs"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "evenkeel-runs:", err)
		os.Exit(1)
	}
}

// run is the command.
func run(args []string, out, messages io.Writer) error {
	fs := flag.NewFlagSet("evenkeel-runs", flag.ContinueOnError)
	fs.SetOutput(messages)
	name := fs.String("o", "compare.html", "`file` of the page")
	fs.Usage = func() {
		fmt.Fprintln(messages, "Usage: evenkeel-runs [-o FILE] FOLDER...")
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); err != nil {
		return err
	}
	if err := runs.Compare(*name, fs.Args()...); err != nil {
		return err
	}
	fmt.Fprintln(out, *name)
	return nil
}
