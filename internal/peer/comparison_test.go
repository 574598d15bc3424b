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

// python returns a program that stands for a Python with some modules. Its scripts answer with a report and what change makes of it, or fail where that is nil.
func python(t *testing.T, modules string, change map[string]func(*report)) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs /bin/sh")
	}
	dir := t.TempDir()
	text := fmt.Sprintf("#!/bin/sh\n[ \"$1\" != -c ] || { echo '%s'; exit; }\nscript=$(basename \"$1\" .py)\n[ -s \"$(dirname \"$1\")/measure.py\" ] || exit 9\n"+
		"case \"$*\" in *-compile*) script=compiled ;; *-scan*) script=scanned ;; esac\n"+
		"echo \"$*\" >>%s/$script.args\ncat %s/$script.json || { echo 'ImportError: it is broken' >&2; exit 1; }\n", modules, dir, dir)
	for _, script := range []string{"pytorch", "compiled", "jaxnets", "scanned"} {
		f, ok := change[script]
		if ok && f == nil {
			continue
		}
		r := report{Version: "1.2.3", Workload: "w5", Batch: 16, TrainN: teacherSamples, Parameters: 16*32 + 32 + 32*4 + 4, TrainImages: 1000, EvalImages: 0.5, TrainLoss: []float64{0.25},
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
func compared(t *testing.T, python string, args ...string) (string, error) {
	t.Helper()
	t.Setenv(asProgram, "1")
	args = append([]string{"-peer", python, "-rounds", "2", "-workload", "w5", "-steps", "200", "-window", "100", "-patience", "0", "-threads", fmt.Sprint(runtime.NumCPU())}, args...)
	var out bytes.Buffer
	err := run(context.Background(), args, &out, io.Discard)
	return out.String(), err
}

func TestContendersStandInOneTable(t *testing.T) {
	p := python(t, `["torch", "jax"]`, nil)
	out, err := compared(t, p)
	if err != nil {
		t.Fatal(err)
	}
	speed := `\*\*[0-9,]+\*\*`
	for _, want := range []string{
		`^Evenkeel \S+, PyTorch 1\.2\.3 and JAX 1\.2\.3: \d+ threads, float32; `,
		`\nMedians of 2 rounds; `,
		`\nPyTorch runs w5 with -threads 1\.\n`,
		`\n\| training, samples/s \| network \| batch \| Evenkeel \| PyTorch \| PyTorch, compiled \| JAX, a call a step \| JAX, a call an epoch \|\n\|---\|---\|---:\|---:\|---:\|---:\|---:\|---:\|\n` +
			`\| w5 \| 16-32-4, SGD \| 16 \| ` + speed + ` \|( 1,000 \([0-9.]+ ×\) \|){4}\n`,
		`\n\| w5 \| 16-32-4, SGD \| 16 \| ` + speed + ` \|( 0(\.5)? \([0-9.]+ ×\) \|){4}\n`,
		`\n\| peak resident set, MiB .*\n.*\n\| w5 .* \| \d+ \|( 12,345 \|){4}\n`,
		`\| Evenkeel: scratch and gradients \| Evenkeel: scratch under .GuardEach. \| PyTorch: as it says \| JAX: as it says \|\n.*\n\| w5 \| 16-32-4, SGD \| 16 \| [0-9.]+ \| [0-9.]+ \| 3 \| 3 \|\n`,
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
	out, err := compared(t, python(t, `["jax"]`, map[string]func(*report){"scanned": nil}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nPyTorch is left out: ", "\nPyTorch, compiled is left out: ", " has no module torch.\n", "\nleft out: w5, JAX, a call an epoch: exit status 1: ImportError: it is broken.\n",
		"| Evenkeel | JAX, a call a step |\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
	if out, err = compared(t, python(t, `[]`, nil)); err != nil || !strings.Contains(out, "| batch | Evenkeel |\n") || !strings.Contains(out, "no module jax") {
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
		_, err := compared(t, python(t, `["jax"]`, map[string]func(*report){"jaxnets": change}))
		if err == nil || !strings.Contains(err.Error(), "another training") || !strings.Contains(err.Error(), strings.TrimSuffix(want, ",")) {
			t.Errorf("%v, want an error about another training of %s", err, want)
		}
	}
	out, err := compared(t, python(t, `["jax"]`, map[string]func(*report){"jaxnets": func(r *report) { r.TrainImages = 0 }}))
	if err != nil || !strings.Contains(out, "left out: w5, JAX, a call a step: 0 samples/s") {
		t.Errorf("%v where a report has no speed:\n%s", err, out)
	}
}

func TestWhatIsNoPythonIsRefused(t *testing.T) {
	for _, peer := range []string{filepath.Join(t.TempDir(), "none"), python(t, "no JSON", nil)} {
		if _, err := compared(t, peer); err == nil || !strings.Contains(err.Error(), "must be a Python") || !strings.Contains(err.Error(), "pip install jax torch") {
			t.Errorf("%v, want an error that says how to make one", err)
		}
	}
}

func TestBadComparisonsAreRefused(t *testing.T) {
	cpus := fmt.Sprint(runtime.NumCPU())
	for args, want := range map[string]string{
		"-peer python3":                            "rounds 0: must be above 0",
		"-rounds -1":                               "rounds -1",
		"-rounds 1 -workload w5,w9":                `workload "w9"`,
		"-rounds 1 -workload w5,w5":                "each once",
		"-rounds 1 -cpuprofile x":                  "cpuprofile is of one run",
		"-rounds 1 -patience -1s -threads " + cpus: "patience -1s",
		"-rounds 1 -peer python3 -threads 1000":    "add -threads " + cpus,
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

// A comparison over rounds with known speeds: ratios are of a round, and the middle one counts.
func TestRatiosAreThoseOfARound(t *testing.T) {
	speed := func(all ...float64) (runs []outcome) {
		for _, s := range all {
			runs = append(runs, outcome{report{TrainImages: s}, 0.01})
		}
		return runs
	}
	c := comparison{workloads: []string{"w5"}, contenders: []contender{{name: "Evenkeel"}, {name: "JAX", module: "jax"}},
		results: map[string][][]outcome{"w5": {speed(100, 200, 400), speed(50, 200, 100)}}}
	var out bytes.Buffer
	c.speeds(&out, "speed", func(o *outcome) float64 { return o.TrainImages })
	if want := "| **200** | 100 (2.0 ×) |\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("want %q at the end of %s", want, &out)
	}
	for _, want := range []string{"differs by 150 % of the median", "at most by 150 % (w5, ", "Others took 1.0 % of"} {
		if got := c.noise(); !strings.Contains(got, want) {
			t.Errorf("want %q in %q", want, got)
		}
	}
}

func TestTimeOfOthersIsWhatIsNotIdleNorOwn(t *testing.T) {
	then := load{busy: 1000, all: 5000, known: true}
	for _, c := range []struct {
		now  load
		own  time.Duration
		want float64
	}{
		{load{busy: 1150, all: 5200, known: true}, time.Second, 0.25},
		{load{busy: 1150, all: 5200, known: true}, 2 * time.Second, 0}, // ticks are rounded
		{load{busy: 1150, all: 5000, known: true}, 0, -1},
		{load{}, 0, -1},
	} {
		if got := then.others(c.now, c.own); got != c.want {
			t.Errorf("%v of %+v without %v, want %v", got, c.now, c.own, c.want)
		}
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
