package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/group"
)

// small are flags for a short run.
var small = flags{workloads: "w1", rounds: 1, ranks: 2, epochs: 1, shrink: 16}

// program returns a shell script that stands for a Python or a launcher. It prints its arguments to a
// file of this folder, and runs more.
func program(t *testing.T, more string) (path, args string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs /bin/sh")
	}
	dir := t.TempDir()
	path, args = filepath.Join(dir, "program"), filepath.Join(dir, "args")
	text := fmt.Sprintf("#!/bin/sh\n[ \"$1\" != -c ] || { shift 2; }\necho \"$*\" >>%s\n%s\n", args, more)
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path, args
}

// parameters are those of w1, shrunk by 16.
const parameters = 784*32 + 32 + 32*16 + 16 + 16*10 + 10

func TestContendersStandInOneTable(t *testing.T) {
	python, pythonArgs := program(t, fmt.Sprintf(`case "$*" in *"-rank 0 "*) echo '{"rate": 0.5, "parameters": %d, "loss": 2.25}' ;; esac`, parameters))
	mpirun, mpirunArgs := program(t, fmt.Sprintf(`echo '{"rate": 1234, "parameters": %d, "loss": 2.125}'`, parameters))
	f := small
	f.peer, f.mpirun, f.rounds = python, mpirun+" --quiet", 2
	var out strings.Builder
	if err := f.run(t.Context(), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`^\| \| \| samples/s \| × 1 trainer \| × PyTorch \| loss \|\n\|---\|---\|---:\|---:\|---:\|---:\|\n`,
		`\n\| w1 \| 1 trainer, 2 threads \| [0-9,]{5,} \| 1.00 \(1.00 to 1.00\) \| \d{4,}.* \| 2.\d+ \|\n`,
		`\n\| w1 \| 2 ranks of a process \| [0-9,]{5,} \| \d.* \| \d{4,}.* \| 2.\d+ \|\n`,
		`\n\| w1 \| 2 ranks of MPI \| 1,234 \| .* \| 2468.00 \(2468.00 to 2468.00\) \| 2.12 \|\n`,
		`\n\| w1 \| PyTorch, 2 ranks \| 0 \| 0.00 .* \| 1.00 .* \| 2.25 \|\n$`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("want %s in\n%s", want, &out)
		}
	}
	for file, want := range map[string]string{
		pythonArgs: ` -ranks 2 -rank 1 .* -batch 4 -steps 64 -epochs 1 -shrink 16 -rate 0.1\n`,
		mpirunArgs: `^--quiet -n 2 \S+ -member -workload w1 -ranks 2 -epochs 1 -shrink 16\n.*\n$`,
	} {
		b, err := os.ReadFile(file)
		if err != nil || !regexp.MustCompile(want).Match(b) {
			t.Errorf("%v, arguments %s, want %s", err, b, want)
		}
	}
}

// Ranks train on the same batches as one trainer: without batch normalization, only the order of
// additions differs.
func TestRanksLearnAsOneTrainer(t *testing.T) {
	for _, w := range []string{"w1", "w3"} {
		one, err := small.one(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		ranks, err := small.local(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		if one.Parameters != ranks.Parameters || math.Abs(one.Loss-ranks.Loss) > 1e-5*one.Loss || one.Rate <= 0 || ranks.Rate <= 0 {
			t.Errorf("%s: one trainer %+v, ranks %+v", w, one, ranks)
		}
	}
}

// PyTorch does not count the means and variances of batch normalization.
func TestStatisticsAreNoParameters(t *testing.T) {
	f := small
	f.shrink = 32
	r, err := f.one(t.Context(), "w4")
	if err != nil {
		t.Fatal(err)
	}
	convs, norms, dense := 9*(3*2+2*2+2*4+4*4+4*8+8*8), 2*(2+2+4+4+8+8), 8*10+10
	if r.Parameters != convs+norms+dense {
		t.Errorf("%d parameters, want %d", r.Parameters, convs+norms+dense)
	}
}

func TestRatiosAreThoseOfARound(t *testing.T) {
	rates := func(all ...float64) (runs []result) {
		for _, r := range all {
			runs = append(runs, result{Rate: r, Loss: 2})
		}
		return runs
	}
	var out strings.Builder
	small.print(&out, []contender{{name: "one"}, {name: "two"}}, map[string][][]result{"w1": {rates(100, 200, 400), rates(50, 180, 800)}})
	if want := "| w1 | two | 180 | 0.90 (0.50 to 2.00) | 2 |\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("want %q in\n%s", want, &out)
	}
}

func TestOtherNetworksAreNotCompared(t *testing.T) {
	f := small
	f.mpirun, _ = program(t, `echo '{"rate": 1, "parameters": 15}'`)
	if err := f.run(t.Context(), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "2 ranks of MPI has 15 parameters") {
		t.Errorf("got %v", err)
	}
}

func TestRanksThatFailAreNamed(t *testing.T) {
	f := small
	f.peer, _ = program(t, `case "$*" in *"-rank 1 "*) echo no torch >&2; exit 1 ;; esac; exec sleep 60`)
	if _, err := f.distributed(t.Context(), "w1"); err == nil || !strings.Contains(err.Error(), "rank 1: ") || !strings.Contains(err.Error(), "no torch") {
		t.Errorf("got %v, want rank 1 and its message", err)
	}
	f.mpirun, _ = program(t, `echo no slots >&2; exit 1`)
	if _, err := f.launch(t.Context(), "w1"); err == nil || !strings.Contains(err.Error(), "no slots") {
		t.Errorf("got %v, want the launcher's message", err)
	}
	for _, text := range []string{"echo words", `echo '{"rate": 0}'`} {
		f.mpirun, _ = program(t, text)
		if _, err := f.launch(t.Context(), "w1"); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}

func TestBadFlagsAreRefused(t *testing.T) {
	for want, change := range map[string]func(*flags){
		"rounds 0":             func(f *flags) { f.rounds = 0 },
		"epochs 0":             func(f *flags) { f.epochs = 0 },
		"shrink 0":             func(f *flags) { f.shrink = 0 },
		"ranks 1: must be 2":   func(f *flags) { f.ranks = 1 },
		"ranks 1025":           func(f *flags) { f.ranks = group.MaxLocal + 1 },
		`workload "w5"`:        func(f *flags) { f.workloads = "w1,w5" },
		"w1 has batches of 4:": func(f *flags) { f.shrink, f.ranks = 32, 5 },
	} {
		f := small
		change(&f)
		if err := f.run(t.Context(), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
