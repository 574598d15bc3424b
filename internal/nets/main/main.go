// Command main prints what a training step of each net of package nets needs: `go run ./internal/nets/main`.
package main

import (
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/report"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run prints a row a net: bytes of scratch of its training step where every buffer has a place of its own, as planned, and the most that live
// at once, which no plan can be below.
func run() error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "net\tbatch\tinstructions\tbuffers\tno reuse\tplanned\tbound\tplanned / bound\tby")
	for _, n := range nets.All() {
		plan, err := trainer.Plan(n.Model, trainer.Options{Batch: n.Batch, Guard: trainer.GuardEach})
		if err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
		p := plan.Programs[0]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.3f\t%s\n", n.Name, n.Batch, p.Instructions, len(p.Buffers), apart(p), p.Scratch, p.Live,
			float64(p.Scratch)/float64(p.Live), strings.TrimPrefix(strings.Join(p.Notes, ", "), "placed by "))
	}
	return w.Flush()
}

// apart returns the bytes of a program's buffers in places of their own.
func apart(p report.Program) (bytes int64) {
	for _, b := range p.Buffers {
		bytes += arena.Round(b.Size)
	}
	return bytes
}
