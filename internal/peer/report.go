package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"time"

	plans "github.com/evenkeel/evenkeel/trainer/report"
)

// report is the output of a run.
type report struct {
	Peer         string           `json:"peer"`
	Variant      string           `json:"variant"`
	Version      string           `json:"version"`
	Workload     string           `json:"workload"`
	Threads      int              `json:"threads"`
	Batch        int              `json:"batch"`
	TrainN       int              `json:"train_n"`
	EpochsDone   int              `json:"epochs_done"`
	WindowSteps  int              `json:"window_steps"`
	Windows      []float64        `json:"windows_s"` // with those of the warm-up
	WarmUp       int              `json:"warmup_windows"`
	TrainImages  float64          `json:"train_img_s"` // in the median window after the warm-up
	StepMicros   float64          `json:"us_per_step"`
	EvalImages   float64          `json:"eval_img_s"` // in the median evaluation, without the first if there are several
	EpochSeconds []float64        `json:"epoch_s"`
	EvalSeconds  []float64        `json:"eval_s"`
	FirstStep    float64          `json:"first_step_s"`
	TrainLoss    []float64        `json:"train_loss"` // by epoch
	TestAcc      []float64        `json:"test_acc"`   // by evaluation
	RSS          rss              `json:"rss_mb"`
	Planned      map[string]int64 `json:"planned_bytes"`
	BudgetStop   bool             `json:"budget_stop"`
	Notes        []string         `json:"notes"`
	StepsDone    int              `json:"steps_done"`
	Device       string           `json:"device"`
	Products     string           `json:"products"`
	Free         []int64          `json:"free_bytes"`      // free bytes of the device, by evaluation
	InUse        []int64          `json:"arena_use_bytes"` // by evaluation
	Parameters   int64            `json:"parameters"`      // elements
	StepBytes    []stepBytes      `json:"step_bytes"`
	Others       float64          `json:"others"` // fraction of CPU time that other processes used during training and evaluation; -1: not known
	round        int              // number of the round in the comparison
}

// stepBytes is the memory of a training step without parameters, optimizer state and batch.
type stepBytes struct {
	How   string `json:"how"` // source of the number, or setting of the training
	Bytes int64  `json:"bytes"`
}

// rss is the resident set of the process, in MB of 2^20 bytes.
type rss struct {
	Imported float64   `json:"imported"` // at the start
	Data     float64   `json:"data"`     // with the data on the device
	Peak     float64   `json:"peak"`
	End      float64   `json:"end"`
	Epochs   []float64 `json:"epochs"` // after each evaluation
}

// factors describes how matrix products are computed.
func (f flags) factors() string {
	if f.cublas {
		return f.products.String() + " by cuBLAS"
	}
	return f.products.String()
}

// report returns the results of the clock.
func (c *clock) report() (*report, error) {
	window, err := c.speed()
	if err != nil {
		return nil, err
	}
	evals := c.evals
	if len(evals) > 1 {
		evals = evals[1:]
	}
	r := &report{Peer: "evenkeel", Variant: c.f.variant, Version: version(), Workload: c.f.workload, Threads: c.f.threads, Batch: c.w.Batch,
		TrainN: c.d.train.Len(), EpochsDone: len(c.epochs), WindowSteps: c.w.window, Windows: inSeconds(c.windows), WarmUp: c.w.warm,
		TrainImages:  round(float64(c.w.Batch*c.w.window)/window.Seconds(), 1),
		StepMicros:   round(window.Seconds()*1e6/float64(c.w.window), 3),
		EpochSeconds: inSeconds(c.epochs), EvalSeconds: inSeconds(c.evals), FirstStep: c.first.Seconds(),
		TrainLoss: c.loss, TestAcc: c.accuracy, RSS: c.rss, Planned: c.planned(), BudgetStop: c.budget, StepsDone: c.done,
		Device: c.f.device, Products: c.f.factors(), Free: c.free, InUse: c.inUse, Parameters: elements(c.plan),
		StepBytes: c.steps, Others: c.others,
		Notes: []string{"data are resident as float32 and gathered inside the timed step", fmt.Sprintf("evaluated in batches of %d", evalBatch)}}
	if e := median(evals); e > 0 {
		r.EvalImages = round(float64(c.d.test.Len())/e.Seconds(), 1)
	}
	return r, nil
}

// planned returns the bytes of the regions, and the scratch of each program.
func (c *clock) planned() map[string]int64 {
	p := map[string]int64{"arena": c.plan.Total, "pinned": c.plan.Pinned}
	for _, r := range c.plan.Regions {
		p[strings.ReplaceAll(r.Name, " ", "_")] = r.Size
	}
	for _, q := range c.plan.Programs {
		p["scratch of "+q.Name] = q.Scratch
	}
	return p
}

// elements returns the number of elements of all parameters, which are float32, without constants.
func elements(p *plans.Plan) (n int64) {
	for _, r := range p.Regions {
		for _, part := range r.Parts {
			if r.Name == "parameters" && part.Owner != "" {
				n += part.Size / 4
			}
		}
	}
	return n
}

// write writes r as one line of JSON.
func (r *report) write(w io.Writer) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}

// version returns the version of this program.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}

// resident returns a value of /proc/self/status in MB, -1 if the system has none.
func resident(key string) float64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(b)) {
		var kb int64
		if _, err := fmt.Sscanf(line, key+": %d kB", &kb); err == nil {
			return round(float64(kb)/1024, 2)
		}
	}
	return -1
}

// inSeconds converts durations to seconds, rounded to microseconds.
func inSeconds(d []time.Duration) []float64 {
	s := make([]float64, len(d))
	for i := range d {
		s[i] = round(d[i].Seconds(), 6)
	}
	return s
}

// round rounds x to a number of decimal digits.
func round(x float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(x*p) / p
}
