package main

import (
	"bytes"
	"flag"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
	record "github.com/evenkeel/evenkeel/trainer/runs"
	"github.com/evenkeel/evenkeel/trainer/runs/live"
)

var (
	costPairs = flag.Int("cost", 0, "`pairs` of epochs, without and with a record, to measure the cost of a record by; 0: not measured")
	costKind  = flag.String("cost-of", "page", "what is measured: progress, an empty hook; norms, those that a record shows; record; or page, a record whose page is open")
)

// The cost of a record, in epochs with and without it in turn. It needs an idle machine: -cost runs it.
func TestCostOfARecord(t *testing.T) {
	if *costPairs == 0 {
		t.Skip("needs an idle machine and -cost PAIRS")
	}
	train, _, err := load(example.Flags)
	if err != nil {
		t.Fatal(err)
	}
	plain := trainerFor(t, trainer.Options{}, train)
	opt := trainer.Options{Progress: func(trainer.Progress) {}}
	if *costKind != "progress" {
		record.Keep(&opt)
	}
	var recorded *trainer.Trainer
	if *costKind == "record" || *costKind == "page" {
		run, err := record.Create(t.Context(), t.TempDir(), record.Options{})
		if err != nil {
			t.Fatal(err)
		}
		opt.Progress = run.Progress
		recorded = trainerFor(t, opt, train)
		if err := run.Attach(record.Source{Trainer: recorded}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if s := run.State(); s.Dropped > 0 || run.Close() != nil {
				t.Errorf("%d steps are dropped, %s", s.Dropped, s.Error)
			}
		})
		if *costKind == "page" {
			open(t, run)
		}
	} else {
		recorded = trainerFor(t, opt, train)
	}
	speed := func(tr *trainer.Trainer) (perSecond, perCPU float64) {
		begun, spent := time.Now(), processSeconds()
		r, err := tr.Fit(t.Context(), train)
		if err != nil {
			t.Fatal(err)
		}
		return float64(r.Samples) / time.Since(begun).Seconds(), float64(r.Samples) / (processSeconds() - spent)
	}
	speed(plain)
	speed(recorded)
	var ratios, ratiosCPU []float64
	for range *costPairs {
		off, offCPU := speed(plain)
		on, onCPU := speed(recorded)
		ratios, ratiosCPU = append(ratios, on/off), append(ratiosCPU, onCPU/offCPU)
		t.Logf("%.0f and %.0f images/s: %+.2f %%", off, on, 100*(on/off-1))
	}
	slices.Sort(ratios)
	slices.Sort(ratiosCPU)
	t.Logf("%s: median %+.2f %%, by the processor time of this process %+.2f %%", *costKind, 100*(ratios[len(ratios)/2]-1),
		100*(ratiosCPU[len(ratiosCPU)/2]-1))
}

// processSeconds returns the processor time that the process has had, on Linux; else NaN.
func processSeconds() float64 {
	b, err := os.ReadFile("/proc/self/stat")
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if err != nil || len(fields) < 13 {
		return math.NaN()
	}
	user, _ := strconv.ParseFloat(fields[11], 64) // numbers, in hundredths of a second
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}

// trainerFor returns a trainer of the example on the CPU.
func trainerFor(t *testing.T, opt trainer.Options, train dataloader.Dataset) *trainer.Trainer {
	t.Helper()
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	opt.Device, opt.Batch, opt.Fields, opt.Seed, opt.Optimizer = dev, example.Flags.Batch, train.Fields(), 1, optim.Adam{}
	tr, err := trainer.New(t.Context(), mlp, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Close(); _ = dev.Close() })
	return tr
}

// open serves the page of a run and opens it in Chromium.
func open(t *testing.T, run *record.Run) {
	t.Helper()
	server, err := live.Serve("", run, live.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	c := exec.CommandContext(t.Context(), "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
		"--window-size=1280,1000", "--remote-debugging-port=0", "--user-data-dir="+t.TempDir(), server.URL())
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	time.Sleep(5 * time.Second) // it has started
}
