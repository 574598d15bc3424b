package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Report is what report.json holds.
type Report struct {
	Date   string            `json:"date"`   // UTC, as RFC 3339 writes it
	Commit string            `json:"commit"` // that the folder was built from
	Host   string            `json:"host"`
	Driver string            `json:"driver,omitempty"` // what nvidia-smi says: GPU, version of the driver, memory
	Small  bool              `json:"small"`            // everything was shrunk to see whether it runs: figures say nothing
	GPU    map[string]string `json:"gpu"`              // what the benchmarks say of it before their figures: its name, attributes and limits
	Passed bool              `json:"passed"`           // no part failed
	Parts  []Part            `json:"parts"`
}

// Status is how a part ended.
type Status string

// The ends of a part.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped" // what it needs is not there: Why says what
)

// Part is one thing that the GPU was asked.
type Part struct {
	Name    string   `json:"name"`
	Status  Status   `json:"status"`
	Why     string   `json:"why,omitempty"` // where it is not passed
	Seconds float64  `json:"seconds"`
	Log     string   `json:"log,omitempty"` // file of all that it wrote, beside the report
	Tests   *Tests   `json:"tests,omitempty"`
	Figures []Figure `json:"figures,omitempty"`
	Run     *Run     `json:"run,omitempty"`
}

// Tests are those of a part: counts, and the names of those that did not pass.
type Tests struct {
	Passed  int      `json:"passed"`
	Failed  []string `json:"failed"`
	Skipped []string `json:"skipped"`
}

// Figure is a line of a benchmark. Metrics are by unit: "ns/op", the device's time; "GB/s" and "GFLOP/s", what was reached, operands read
// and written once; "%B" and "%FLOP", the share of the GPU's limit; "%overlap", of the shorter of two in which both ran; and so on.
type Figure struct {
	Name    string             `json:"name"`
	N       int64              `json:"n"` // launches that were timed
	Metrics map[string]float64 `json:"metrics"`
}

// Run is a workload's training, by this library or another: the parts of what they write that stand in this report.
type Run struct {
	Peer        string    `json:"peer"`
	Version     string    `json:"version"`
	Workload    string    `json:"workload"`
	Device      string    `json:"device"`
	Products    string    `json:"products"` // what factors of products are rounded to
	Batch       int       `json:"batch"`
	TrainImages float64   `json:"train_img_s"` // images a second, of the median window
	StepMicros  float64   `json:"us_per_step"`
	EvalImages  float64   `json:"eval_img_s"`
	TrainLoss   []float64 `json:"train_loss"`      // by epoch
	TestAcc     []float64 `json:"test_acc"`        // by evaluation
	Free        []int64   `json:"free_bytes"`      // of the device, by evaluation
	InUse       []int64   `json:"arena_use_bytes"` // of the arena, by evaluation
}

// write puts report.json and report.md into a folder.
func (r *Report) write(dir string) error {
	b, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "report.json"), append(b, '\n'), 0o644); err != nil {
		return err
	}
	var text strings.Builder
	r.text(&text)
	return os.WriteFile(filepath.Join(dir, "report.md"), []byte(text.String()), 0o644)
}

// text writes the report for people.
func (r *Report) text(w io.Writer) {
	fmt.Fprintf(w, "# Report of a GPU\n\n")
	for _, line := range [][2]string{{"date", r.Date}, {"commit", r.Commit}, {"host", r.Host}, {"driver", r.Driver}} {
		if line[1] != "" {
			fmt.Fprintf(w, "- %s: %s\n", line[0], line[1])
		}
	}
	for _, key := range slices.Sorted(keys(r.GPU)) {
		fmt.Fprintf(w, "- %s: %s\n", key, r.GPU[key])
	}
	if r.Small {
		fmt.Fprintf(w, "\n**Everything was shrunk, to see whether it runs: the figures say nothing of a GPU.**\n")
	}
	fmt.Fprintf(w, "\n| part | end | seconds | tests passed / failed / skipped | why |\n|---|---|---|---|---|\n")
	for _, p := range r.Parts {
		tests := ""
		if t := p.Tests; t != nil {
			tests = fmt.Sprintf("%d / %d / %d", t.Passed, len(t.Failed), len(t.Skipped))
		}
		fmt.Fprintf(w, "| %s | %s | %.1f | %s | %s |\n", p.Name, p.Status, p.Seconds, tests, strings.ReplaceAll(lastLine(p.Why), "|", "\\|"))
	}
	r.failures(w)
	r.runs(w)
	r.figures(w)
}

// failures lists tests that failed.
func (r *Report) failures(w io.Writer) {
	for _, p := range r.Parts {
		if p.Tests == nil || len(p.Tests.Failed) == 0 {
			continue
		}
		fmt.Fprintf(w, "\nFailed in %s (%s):\n\n", p.Name, p.Log)
		for _, name := range p.Tests.Failed {
			fmt.Fprintf(w, "- %s\n", name)
		}
	}
}

// runs are the workloads, those of one beside each other.
func (r *Report) runs(w io.Writer) {
	var runs []*Run
	for _, p := range r.Parts {
		if p.Run != nil {
			runs = append(runs, p.Run)
		}
	}
	if len(runs) == 0 {
		return
	}
	slices.SortStableFunc(runs, func(a, b *Run) int { return strings.Compare(a.Workload, b.Workload) })
	fmt.Fprintf(w, "\n## Training\n\nImages a second; loss of the last epoch, accuracy of the last evaluation.\n\n")
	fmt.Fprintf(w, "| workload | by | products | batch | images/s | µs a step | evaluated images/s | loss | accuracy |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, x := range runs {
		fmt.Fprintf(w, "| %s | %s %s | %s | %d | %.0f | %.1f | %.0f | %s | %s |\n", x.Workload, x.Peer, x.Version, x.Products, x.Batch,
			x.TrainImages, x.StepMicros, x.EvalImages, last(x.TrainLoss), last(x.TestAcc))
	}
}

// figures are the benchmarks.
func (r *Report) figures(w io.Writer) {
	for _, p := range r.Parts {
		if len(p.Figures) == 0 {
			continue
		}
		var units []string
		for _, f := range p.Figures {
			for unit := range f.Metrics {
				if unit != "ns/op" && !slices.Contains(units, unit) {
					units = append(units, unit)
				}
			}
		}
		slices.Sort(units)
		columns := append([]string{"what", "µs"}, units...)
		fmt.Fprintf(w, "\n## %s\n\n| %s |\n|%s\n", p.Name, strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
		for _, f := range p.Figures {
			fmt.Fprintf(w, "| %s | %.2f |", f.Name, f.Metrics["ns/op"]/1e3)
			for _, unit := range units {
				if v, ok := f.Metrics[unit]; ok {
					fmt.Fprintf(w, " %.4g |", v)
				} else {
					fmt.Fprint(w, " |")
				}
			}
			fmt.Fprintln(w)
		}
	}
}

func last(x []float64) string {
	if len(x) == 0 {
		return ""
	}
	return fmt.Sprintf("%.4f", x[len(x)-1])
}

// lastLine returns the last line of a text that is not empty.
func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

func keys(m map[string]string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}
