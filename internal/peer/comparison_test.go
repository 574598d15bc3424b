package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// asProgram is set where a test runs its own binary as the program.
const asProgram = "EVENKEEL_PEER_IS_THE_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// pythonWith returns a program that stands for a Python with some modules. Its scripts answer with a report and what change makes of it, or fail where that is nil.
func pythonWith(t *testing.T, modules string, change map[string]func(*report)) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs /bin/sh")
	}
	dir := t.TempDir()
	text := fmt.Sprintf("#!/bin/sh\n[ \"$STARTED\" = so ] || exit 8\n[ \"$1\" != -c ] || { echo '{\"Has\": %s, \"CPUs\": 3}'; exit; }\nscript=$(basename \"$1\" .py)\n[ -s \"$(dirname \"$1\")/measure.py\" ] || exit 9\n"+
		"case \"$*\" in *-compile*) script=compiled ;; *-scan*) script=scanned ;; esac\n"+
		"echo \"$*\" >>%s/$script.args\ncat %s/$script.json || { echo 'ImportError: it is broken' >&2; exit 1; }\n", modules, dir, dir)
	for _, script := range []string{"pytorch", "compiled", "jaxnets", "scanned"} {
		f, ok := change[script]
		if ok && f == nil {
			continue
		}
		r := report{Version: "1.2.3", Workload: "w5", Batch: 16, TrainN: teacherSamples, Parameters: 16*32 + 32 + 32*4 + 4, TrainImages: 1000, EvalImages: 500, TrainLoss: []float64{0.25},
			RSS: rss{Peak: 12345}, StepBytes: []stepBytes{{"as it says", 3 << 20}}}
		if ok {
			f(&r)
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, script+".json"), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "python")
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// compared returns what a comparison of w5 with a Python prints.
func compared(t *testing.T, peer string, args ...string) (string, error) {
	t.Helper()
	t.Setenv(asProgram, "1")
	args = append([]string{"-peer", peer, "-rounds", "2", "-workload", "w5", "-steps", "200", "-window", "100", "-patience", "0", "-threads", "3", "-via", "env STARTED=so"}, args...)
	var out bytes.Buffer
	err := run(context.Background(), args, &out, io.Discard)
	return out.String(), err
}

func TestContendersStandInOneTable(t *testing.T) {
	p := pythonWith(t, `["torch", "jax"]`, nil)
	out, err := compared(t, p)
	if err != nil {
		t.Fatal(err)
	}
	speed := `\*\*[0-9,]+\*\*`
	for _, want := range []string{
		`^Evenkeel and PyTorch 1\.2\.3 and JAX 1\.2\.3: 3 threads, float32; `,
		`\nw5: 16-32-4, SGD, batch 16\.\n`,
		`\nMedians of 2 rounds; `,
		`\nPyTorch runs w5 with -threads 1\.\n`,
		`\n\| training, samples/s \| Evenkeel \| PyTorch \| PyTorch, compiled \| JAX, a call a step \| JAX, a call an epoch \|\n\|---\|---:\|---:\|---:\|---:\|---:\|\n` +
			`\| w5 \| ` + speed + ` \|( 1,000 \([0-9.]+ ×\) \|){4}\n`,
		`\n\| w5 \| ` + speed + ` \|( 500 \([0-9.]+ ×\) \|){4}\n`,
		`\n\| peak resident set, MiB .*\n.*\n\| w5 \| \d+ \|( 12,345 \|){4}\n`,
		`\| Evenkeel: scratch and gradients \| Evenkeel: scratch under .GuardEach. \| PyTorch: as it says \| JAX: as it says \|\n.*\n\| w5 \| [0-9.]+ \| [0-9.]+ \| 3 \| 3 \|\n`,
		`\n\| loss of the last epoch .*\n.*\n\| w5 .* \|( 0\.25 \|){4}\n$`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("want %s in\n%s", want, out)
		}
	}
	b, err := os.ReadFile(filepath.Join(filepath.Dir(p), "pytorch.args"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(string(b)), "\n"); len(lines) != 2 || !strings.Contains(lines[1], "-workload w5 ") || !strings.Contains(lines[1], "-steps 200 ") ||
		!strings.HasSuffix(lines[1], "-threads 1") {
		t.Errorf("the script got\n%s\nwant two runs of w5 with the flags of the comparison, and then those of the contender", b)
	}
}

func TestWhatAPythonLacksIsSaid(t *testing.T) {
	out, err := compared(t, pythonWith(t, `["jax"]`, map[string]func(*report){"scanned": nil}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nPyTorch is left out: ", "\nPyTorch, compiled is left out: ", " has no module torch.\n", "\nleft out of round 1: w5, JAX, a call an epoch: exit status 1: ImportError: it is broken.\n",
		"| Evenkeel | JAX, a call a step |\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
	if out, err = compared(t, pythonWith(t, `[]`, nil)); err != nil || !strings.Contains(out, "| training, samples/s | Evenkeel |\n") || !strings.Contains(out, "no module jax") {
		t.Errorf("%v with neither:\n%s", err, out)
	}
}

func TestOtherTrainingsAreNotCompared(t *testing.T) {
	for want, change := range map[string]func(*report){
		"15 parameters":  func(r *report) { r.Parameters = 15 },
		"batches of 17,": func(r *report) { r.Batch = 17 },
		"of 99 samples":  func(r *report) { r.TrainN = 99 },
		"w4":             func(r *report) { r.Workload = "w4" },
	} {
		_, err := compared(t, pythonWith(t, `["jax"]`, map[string]func(*report){"jaxnets": change}))
		if err == nil || !strings.Contains(err.Error(), "a different training") || !strings.Contains(err.Error(), strings.TrimSuffix(want, ",")) {
			t.Errorf("%v, want an error about a different training of %s", err, want)
		}
	}
	out, err := compared(t, pythonWith(t, `["jax"]`, map[string]func(*report){"jaxnets": func(r *report) { r.TrainImages = 0 }}))
	if err != nil || !strings.Contains(out, "left out of round 1: w5, JAX, a call a step: 0 samples/s") {
		t.Errorf("%v where a report has no speed:\n%s", err, out)
	}
}

func TestWhatIsNoPythonIsRefused(t *testing.T) {
	for _, peer := range []string{filepath.Join(t.TempDir(), "none"), pythonWith(t, "no JSON", nil)} {
		if _, err := compared(t, peer); err == nil || !strings.Contains(err.Error(), "must be a Python") || !strings.Contains(err.Error(), "pip install jax torch") {
			t.Errorf("%v, want an error that says how to make one", err)
		}
	}
}

func TestJAXOnOtherCPUsIsRefused(t *testing.T) {
	if _, err := compared(t, pythonWith(t, `["jax"]`, nil), "-threads", "2"); err == nil || !strings.Contains(err.Error(), "each of its 3 CPUs") {
		t.Errorf("%v, want an error that names 3 CPUs", err)
	}
	if _, err := compared(t, pythonWith(t, `["torch"]`, nil), "-threads", "2"); err != nil {
		t.Errorf("%v with PyTorch, which takes as many threads as it is told", err)
	}
}

func TestBadComparisonsAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"-peer python3":             "rounds 0: must be above 0",
		"-rounds -1":                "rounds -1",
		"-rounds 1 -workload w5,w9": `workload "w9"`,
		"-rounds 1 -workload w5,w5": "each once",
		"-rounds 1 -cpuprofile x":   "cpuprofile applies to one run",
		"-rounds 1 -patience -1s":   "patience -1s",
	} {
		if err := run(context.Background(), strings.Fields(args), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

func TestAComparisonCanBeStopped(t *testing.T) {
	t.Setenv(asProgram, "1")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, patience := range []string{"0", "1h"} {
		if err := run(ctx, []string{"-rounds", "1", "-workload", "w5", "-patience", patience}, io.Discard, io.Discard); err != context.Canceled && (err == nil || !strings.Contains(err.Error(), "context canceled")) {
			t.Errorf("patience %s: %v, want context.Canceled", patience, err)
		}
	}
}

func TestPackedDigitsAreUnpacked(t *testing.T) {
	dir, room := t.TempDir(), t.TempDir()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte("pixels")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "train-images-idx3-ubyte")
	if err := os.WriteFile(name+".gz", b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	at, err := plain(dir, room)
	if err != nil || at != room {
		t.Fatalf("%q, %v, want %q", at, err, room)
	}
	if got, err := os.ReadFile(filepath.Join(room, filepath.Base(name))); err != nil || string(got) != "pixels" {
		t.Errorf("%q, %v", got, err)
	}
	if at, err := plain(room, t.TempDir()); err != nil || at != room {
		t.Errorf("plain files: %q, %v, want %q", at, err, room)
	}
	if err := os.WriteFile(name+".gz", b.Bytes()[:12], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := plain(dir, room); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("a short file: %v, want an error that names it", err)
	}
}

// Ratios are of a round, the middle one counts, and a contender may have failed in one.
func TestRatiosAreThoseOfARound(t *testing.T) {
	speed := func(all ...float64) (runs []report) {
		for round, s := range all {
			if s > 0 {
				runs = append(runs, report{TrainImages: s, Others: 0.01, round: round})
			}
		}
		return runs
	}
	c := comparison{workloads: []string{"w5"}, contenders: []contender{{name: "Evenkeel"}, {name: "JAX", module: "jax"}},
		results: map[string][][]report{"w5": {speed(100, 200, 400, 80), speed(50, 0, 100, 80)}}}
	var out bytes.Buffer
	c.speeds(&out, "speed", func(o *report) float64 { return o.TrainImages })
	if want := "| **150** | 80 (2.0 ×) |\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("want %q at the end of %s", want, &out)
	}
	for _, want := range []string{"differs by 213 % of the median", "at most by 213 % (w5, Evenkeel)", "Other processes used 1.0 % of"} {
		if got := c.noise(); !strings.Contains(got, want) {
			t.Errorf("want %q in %q", want, got)
		}
	}
}

func TestTimeOfOthersIsWhatIsNotIdleNorOwn(t *testing.T) {
	then := load{busy: 1000, own: 70, all: 5000, known: true}
	for now, want := range map[load]float64{
		{busy: 1150, own: 170, all: 5200, known: true}: 0.25,
		{busy: 1150, own: 270, all: 5200, known: true}: 0, // ticks are rounded
		{busy: 1150, own: 70, all: 5000, known: true}:  -1,
		{}: -1,
	} {
		if got := then.others(now); got != want {
			t.Errorf("%v of %+v, want %v", got, now, want)
		}
	}
	if runtime.GOOS != "linux" {
		return
	}
	now := loaded()
	for first, began := now.own, time.Now(); now.own < first+3 && time.Since(began) < time.Minute; {
		now = loaded()
	}
	if !now.known || now.own < 3 || now.busy < now.own || now.all < now.busy {
		t.Errorf("%+v after some work, want 3 ticks of it or more", now)
	}
}

func TestFiguresAreRounded(t *testing.T) {
	for x, want := range map[float64]float64{171970.4: 172000, 0.0045678: 0.00457, 999.6: 1000, 0: 0} {
		if got := figures(x, 3); got != want {
			t.Errorf("%v of %v, want %v", got, x, want)
		}
	}
	for x, want := range map[float64]string{0.974: "0.97", 1.996: "2.00", 2.04: "2.0", 9.96: "10.0", 10.4: "10"} {
		if got := times(x); got != want {
			t.Errorf("%q of %v, want %q", got, x, want)
		}
	}
}
