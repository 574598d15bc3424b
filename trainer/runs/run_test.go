package runs_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/runs"
)

// The folder has the numbers that the trainer has reported, whatever the names are.
func TestAFolderHasTheNumbersOfTheTraining(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	var log bytes.Buffer
	r := created(t, t.Context(), dir, runs.Options{Name: hostile, Settings: []trainer.Setting{{Name: "rate", Value: hostile}},
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	var steps []trainer.Progress
	tr := attached(t, r, runs.Source{}, func(p trainer.Progress) {
		if p.StepNumber > 0 {
			steps = append(steps, p)
		}
	})
	ds := data(t, 22)
	for range 2 {
		if _, err := tr.Fit(t.Context(), ds); err != nil {
			t.Fatal(err)
		}
		result, err := tr.Evaluate(t.Context(), ds)
		if err != nil {
			t.Fatal(err)
		}
		r.Evaluated(hostile, result)
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	rows := lines(t, dir)
	losses, norms, epochs := with(rows, "loss/step"), with(rows, "norm"), with(rows, "loss/epoch")
	for _, p := range steps {
		n := int(p.StepNumber)
		if losses[n] != p.StepLoss || norms[n] != p.StepNorm || with(rows, "rate")[n] != p.StepRate {
			t.Errorf("step %d: loss %v and norm %v, want %v and %v", n, losses[n], norms[n], p.StepLoss, p.StepNorm)
		}
		if last := p.Step == p.Steps; last && epochs[n] != p.Loss || !last && epochs[n] != nil {
			t.Errorf("step %d: mean loss of the epoch %v, want %v", n, epochs[n], p.Loss)
		}
	}
	if len(losses) != 12 || len(epochs) != 2 || len(with(rows, "loss/"+hostile)) != 2 {
		t.Errorf("%d steps, %d epochs, %d evaluations", len(losses), len(epochs), len(with(rows, "loss/"+hostile)))
	}
	// The norms of the layers are those of which the norm is made, where they were read.
	first, second := with(rows, `layer norm/a<b>&/"`), with(rows, "layer norm/out")
	for n, v := range first {
		if got := math.Hypot(v.(float64), second[n].(float64)); math.Abs(got/norms[n].(float64)-1) > 1e-5 {
			t.Errorf("step %d: norms of layers %v and %v, of all %v", n, v, second[n], norms[n])
		}
	}
	last := rows[len(rows)-1]
	for _, key := range []string{"device memory/arena", "device memory/free", "host memory/Go heap", "samples per second"} {
		if v, ok := last[key].(float64); !ok || v <= 0 {
			t.Errorf("%s is %v", key, last[key])
		}
	}
	share := 0.0
	for _, key := range []string{"data", "copies", "compute", "host"} {
		share += last["time/"+key].(float64)
	}
	if len(first) == 0 || math.Abs(share-1) > 1e-9 {
		t.Errorf("%d norms of layers; shares of time add up to %v", len(first), share)
	}
	if s := r.State(); s.Status != runs.Ended || s.Number != 12 || s.Samples != 44 || s.Dropped != 0 {
		t.Errorf("state %+v", s)
	}
	if !strings.Contains(log.String(), "run closed") {
		t.Errorf("log %s", &log)
	}
	checkFiles(t, dir)
	checkTensorBoard(t, dir, steps)
}

// checkFiles checks that pictures can be read and that the page has no name unescaped.
func checkFiles(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"curves.svg", "time.svg"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for d := xml.NewDecoder(bytes.NewReader(b)); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	for _, name := range []string{"curves.png", "time.png"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := png.Decode(bytes.NewReader(b)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "plan.html")); err != nil || !bytes.Contains(b, []byte("<html")) {
		t.Errorf("plan.html: %v", err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(page, []byte("<script")); n != 2 || bytes.Contains(page, []byte("<img")) {
		t.Errorf("the page has %d scripts", n)
	}
	var views []struct{ Name string }
	text := regexp.MustCompile(`(?s)<script id="data" type="application/json">(.*?)</script>`).FindSubmatch(page)
	if err := json.Unmarshal(text[1], &views); err != nil || views[0].Name != hostile {
		t.Errorf("the data of the page: %+v, %v", views, err)
	}
}

// checkTensorBoard checks that TensorBoard reads the losses of the steps.
func checkTensorBoard(t *testing.T, dir string, steps []trainer.Progress) {
	t.Helper()
	python := os.Getenv("EVENKEEL_PYTHON")
	if python == "" {
		python = "python3"
	}
	out, err := exec.Command(python, "-c", `import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
a = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
a.Reload()
print(json.dumps([[e.step, e.value] for e in a.Scalars("loss/step")]))`, dir).Output()
	if err != nil {
		t.Log("not read by TensorBoard: set EVENKEEL_PYTHON to a Python that has it: ", err)
		return
	}
	var got [][2]float64
	if err := json.Unmarshal(out, &got); err != nil || len(got) != len(steps) {
		t.Fatalf("TensorBoard reads %s (%v)", out, err)
	}
	for i, p := range steps {
		if got[i] != [2]float64{float64(p.StepNumber), float64(float32(p.StepLoss))} {
			t.Errorf("TensorBoard reads %v, want step %d and loss %v", got[i], p.StepNumber, p.StepLoss)
		}
	}
}

// progress returns the progress of a step.
func progress(number int64) trainer.Progress {
	return trainer.Progress{StepNumber: number, Step: int(number), Steps: 100, Samples: int(number), Loss: 1, StepLoss: float64(number),
		Accuracy: math.NaN(), StepAccuracy: math.NaN(), StepNorm: math.NaN(), StepRate: 0.5}
}

// A run that goes on has the rows before it, without the steps that a restored training repeats, and
// without the part of a line that a kill has left.
func TestARunGoesOnInItsFolder(t *testing.T) {
	dir := t.TempDir()
	train := func(resume bool, first, last int64) {
		r := created(t, t.Context(), dir, runs.Options{Resume: resume})
		for n := first; n <= last; n++ {
			r.Progress(progress(n))
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	train(true, 1, 6) // resuming an empty folder begins a run
	f, err := os.OpenFile(filepath.Join(dir, "metrics.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(`{"step":7,"loss/step":`)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	train(true, 4, 5)
	if got := slices.Sorted(maps.Keys(with(lines(t, dir), "loss/step"))); !slices.Equal(got, []int{1, 2, 3, 4, 5, 6}) {
		t.Errorf("the log has the steps %v", got)
	}
	train(true, 6, 7)
	page, err := os.ReadFile(filepath.Join(dir, "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	if want := `"name":"step","style":"faint","points":[[1,1],[2,2],[3,3],[4,4],[5,5],[6,6],[7,7]]`; !bytes.Contains(page, []byte(want)) {
		t.Errorf("the page has not %s", want)
	}
	var info struct{ Opened []string }
	b, err := os.ReadFile(filepath.Join(dir, "run.json"))
	if err := errors.Join(err, json.Unmarshal(b, &info)); err != nil || len(info.Opened) != 3 {
		t.Errorf("run.json: %s, %v", b, err)
	}
	events, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	if err != nil || len(events) != 3 {
		t.Errorf("event files %q, %v", events, err)
	}
}

func TestAFolderThatIsNoNewRunIsRefused(t *testing.T) {
	run, other, broken, later := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	first := created(t, t.Context(), run, runs.Options{})
	first.Progress(progress(1))
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		filepath.Join(other, "a"): "x", filepath.Join(broken, "run.json"): "{", filepath.Join(later, "run.json"): `{"version":2}`,
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		dir    string
		resume bool
		says   string
	}{{run, false, "set Options.Resume"}, {other, true, "other files"}, {broken, true, "cannot be read"}, {later, true, "version 2"}} {
		var e *runs.FolderError
		if _, err := runs.Create(t.Context(), c.dir, runs.Options{Resume: c.resume}); !errors.As(err, &e) || e.Dir != c.dir ||
			!errors.Is(err, trainer.ErrOption) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.says, err)
		}
	}
	if _, err := runs.Create(t.Context(), t.TempDir(), runs.Options{Every: -1}); !errors.Is(err, trainer.ErrOption) {
		t.Errorf("Every -1: %v", err)
	}
}

// The first error of the files is that of Close, and the run goes on without them.
func TestAFolderThatVanishesEndsTheFilesAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	r := created(t, t.Context(), dir, runs.Options{})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	r.Progress(progress(1))
	if err := r.Close(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Close: %v", err)
	}
	if s := r.State(); s.Number != 1 || s.Error == "" {
		t.Errorf("state %+v", s)
	}
}

func TestComparedRunsAreOnOnePage(t *testing.T) {
	a, b, page := filepath.Join(t.TempDir(), "same"), filepath.Join(t.TempDir(), "same"), filepath.Join(t.TempDir(), "all.html")
	for i, dir := range []string{a, b} {
		r := created(t, t.Context(), dir, runs.Options{})
		r.Progress(progress(int64(i) + 5))
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := runs.Compare(page, a, b); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for i, dir := range []string{a, b} {
		for _, want := range []string{fmt.Sprintf(`"name":%q`, "same ("+dir+")"), fmt.Sprintf(`"points":[[%d,%[1]d]]`, i+5)} {
			if !bytes.Contains(text, []byte(want)) {
				t.Errorf("the page has not %s", want)
			}
		}
	}
	var e *runs.FolderError
	if err := runs.Compare(page, a, t.TempDir()); !errors.As(err, &e) || !strings.Contains(err.Error(), "run.json") {
		t.Errorf("a folder without a run: %v", err)
	}
	if err := runs.Compare(page); !errors.Is(err, trainer.ErrOption) {
		t.Errorf("no folder: %v", err)
	}
}

// A rollback in the process removes the evaluations after the step that it goes on with, too, also in
// what TensorBoard reads.
func TestAStepBackRemovesWhatCameAfter(t *testing.T) {
	dir := t.TempDir()
	r := created(t, t.Context(), dir, runs.Options{})
	for n := range int64(6) {
		r.Progress(progress(n + 1))
	}
	r.Evaluated("test", trainer.Result{Loss: 7, Accuracy: math.NaN()})
	for end := time.Now().Add(20 * time.Second); r.State().Number < 6 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	r.Progress(progress(4))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"points":[[1,1],[2,2],[3,3],[4,4]]`, `"name":"test","style":"dotted","points":[]`} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("the page has not %s", want)
		}
	}
	events, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	if err != nil || len(events) != 1 {
		t.Fatalf("%q, %v", events, err)
	}
	b, err := os.ReadFile(events[0])
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(b, []byte("\x3a\x02\x08\x01")); n != 2 { // SessionLog with the status START
		t.Errorf("%d restarts, want those of steps 1 and 4", n)
	}
}
