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

// Report is the content of report.json.
type Report struct {
	Date   string            `json:"date"`   // UTC, in the format of RFC 3339
	Commit string            `json:"commit"` // commit of the programs
	Host   string            `json:"host"`
	Driver string            `json:"driver,omitempty"` // from nvidia-smi: GPU, driver version, memory
	Small  bool              `json:"small"`            // everything was shrunk: the figures do not count
	GPU    map[string]string `json:"gpu"`              // from the benchmarks: name, attributes and limits of the GPU
	Passed bool              `json:"passed"`           // no part failed
	Parts  []Part            `json:"parts"`
}

// Status is the result of a part.
type Status string

// The results of a part.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped" // something that it needs is missing; see Why
)

// Part is one part of the check.
type Part struct {
	Name    string   `json:"name"`
	Status  Status   `json:"status"`
	Why     string   `json:"why,omitempty"` // reason, unless it passed
	Seconds float64  `json:"seconds"`
	Log     string   `json:"log,omitempty"` // file of its output, from the folder of the report
	Tests   *Tests   `json:"tests,omitempty"`
	Figures []Figure `json:"figures,omitempty"`
	Run     *Run     `json:"run,omitempty"`
}

// Tests counts the tests of a part and names those that did not pass.
type Tests struct {
	Passed  int      `json:"passed"`
	Failed  []string `json:"failed"`
	Skipped []string `json:"skipped"`
}

// Figure is a line of a benchmark. Metrics are by unit: "ns/op", the device's time; "GB/s" and
// "GFLOP/s", what was reached, operands read and written once; "%B" and "%FLOP", the share of the
// GPU's limit; "%overlap", of the shorter of two in which both ran; and so on.
type Figure struct {
	Name    string             `json:"name"`
	N       int64              `json:"n"` // launches that were timed
	Metrics map[string]float64 `json:"metrics"`
}

// Run is the training of a workload by this library or another one: the fields of its output that
// the report needs.
type Run struct {
	Peer        string    `json:"peer"`
	Version     string    `json:"version"`
	Workload    string    `json:"workload"`
	Device      string    `json:"device"`
	Products    string    `json:"products"` // precision of matrix products
	Batch       int       `json:"batch"`
	TrainImages float64   `json:"train_img_s"` // images per second, in the median window
	StepMicros  float64   `json:"us_per_step"`
	EvalImages  float64   `json:"eval_img_s"`
	TrainLoss   []float64 `json:"train_loss"`      // by epoch
	TestAcc     []float64 `json:"test_acc"`        // by evaluation
	Free        []int64   `json:"free_bytes"`      // free bytes of the device, by evaluation
	InUse       []int64   `json:"arena_use_bytes"` // bytes in use in the arena, by evaluation
}

// write writes report.json and report.md to a folder.
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
		fmt.Fprintf(w, "\n**Everything was shrunk, to try whether it runs: the figures do not count.**\n")
	}
	fmt.Fprintf(w, "\n| part | result | seconds | tests passed / failed / skipped | why |\n|---|---|---|---|---|\n")
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

// failures lists the failed tests.
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

// runs writes a table of the trainings, sorted by workload.
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
	fmt.Fprintf(w, "\n## Training\n\nImages per second; loss of the last epoch, accuracy of the last evaluation.\n\n")
	fmt.Fprintf(w, "| workload | by | products | batch | images/s | µs a step | evaluated images/s | loss | accuracy |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, x := range runs {
		fmt.Fprintf(w, "| %s | %s %s | %s | %d | %.0f | %.1f | %.0f | %s | %s |\n", x.Workload, x.Peer, x.Version, x.Products, x.Batch,
			x.TrainImages, x.StepMicros, x.EvalImages, last(x.TrainLoss), last(x.TestAcc))
	}
}

// figures writes a table for the benchmarks of each part.
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

// last writes the last value, or nothing.
func last(x []float64) string {
	if len(x) == 0 {
		return ""
	}
	return fmt.Sprintf("%.4f", x[len(x)-1])
}

// lastLine returns the last line that is not empty.
func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// keys iterates over the keys of m.
func keys(m map[string]string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}
