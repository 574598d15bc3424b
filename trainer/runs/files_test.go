package runs_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/runs"
)

// messages are the lines of a logger.
type messages struct {
	mu   sync.Mutex
	text strings.Builder
}

func (m *messages) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.text.Write(p)
}

func (m *messages) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.text.String()
}

// content returns the names and sizes of files in a folder, without the lock's.
func content(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %d %v\n", e.Name(), info.Size(), info.ModTime())
	}
	return b.String()
}

// A second run in the folder is refused, changes nothing in it, and names who has it.
func TestARunHasItsFolderForItself(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := created(t, t.Context(), dir, runs.Options{})
	r.Progress(progress(1))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = created(t, t.Context(), dir, runs.Options{Resume: true})
	before := content(t, dir)
	for _, resume := range []bool{true, false} {
		var e *runs.LockedError
		_, err := runs.Create(t.Context(), dir, runs.Options{Resume: resume})
		if !errors.As(err, &e) || !errors.Is(err, runs.ErrLocked) || e.PID != os.Getpid() || !strings.Contains(err.Error(), fmt.Sprint("process ", e.PID)) {
			t.Errorf("resume %v: %v", resume, err)
		}
	}
	if after := content(t, dir); after != before {
		t.Errorf("the folder has\n%s instead of\n%s", after, before)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := created(t, t.Context(), dir, runs.Options{Resume: true}).Close(); err != nil {
		t.Errorf("after Close: %v", err)
	}
}

// A start that came to no step leaves the folder to the next one; with a step or an evaluation it does not.
func TestAFolderOfARunWithoutAStepIsTakenOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		r := created(t, t.Context(), dir, runs.Options{Settings: []trainer.Setting{{Name: "a", Value: "b"}}})
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r := created(t, t.Context(), dir, runs.Options{})
	r.Evaluated("test", trainer.Result{Loss: 1})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	events, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	if rows := lines(t, dir); err != nil || len(events) != 1 || len(with(rows, "loss/test")) != 1 || len(rows) != 2 {
		t.Errorf("events %q, %v, rows %v", events, err, rows)
	}
	var e *runs.FolderError
	if _, err := runs.Create(t.Context(), dir, runs.Options{}); !errors.As(err, &e) || !e.Recorded {
		t.Errorf("a run with an evaluation: %v", err)
	}
}

// A picture that cannot be written is reported at once, and the numbers go on.
func TestNumbersOutlivePictures(t *testing.T) {
	t.Parallel()
	dir, log := t.TempDir(), &messages{}
	for _, name := range []string{"index.html", "curves.png"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil { // cannot be replaced by a file
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "run.json"), []byte(`{"version":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := created(t, t.Context(), dir, runs.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	r.Progress(progress(1))
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "of the run") {
		t.Errorf("Close: %v", err)
	}
	if len(with(lines(t, dir), "loss/step")) != 1 || strings.Contains(log.String(), "not recorded") || !strings.Contains(log.String(), "a picture or a page") {
		t.Errorf("rows %v, log %s", lines(t, dir), log)
	}
	if _, err := os.Stat(filepath.Join(dir, "curves.svg")); err != nil {
		t.Errorf("the other picture: %v", err)
	}
	if s := r.State(); s.Error == "" {
		t.Error("the page does not show the error")
	}
}

// The end of the folder is reported while the training runs, and what another run makes there is left alone.
func TestAFolderThatIsGoneIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	dir, log := filepath.Join(t.TempDir(), "run"), &messages{}
	r := created(t, t.Context(), dir, runs.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	r.Progress(progress(1))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	other := created(t, t.Context(), dir, runs.Options{})
	before := content(t, dir)
	for end := time.Now().Add(20 * time.Second); !strings.Contains(log.String(), "not recorded any more") && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	err := r.Close()
	if err == nil || strings.Count(log.String(), "level=ERROR") != 1 || !strings.Contains(log.String(), "gone: another process") {
		t.Errorf("Close: %v, log %s", err, log)
	}
	if _, err := os.Stat(filepath.Join(dir, "index.html")); err == nil {
		t.Errorf("the folder of another run is changed: %s, was %s", content(t, dir), before)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

// A damaged line names its file, its number, and what to do.
func TestADamagedLineIsNamed(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"x", "{", `{"loss":2}`, `{"step":1e300}`, `{"step":1.5}`, `{"step":-1}`, `{"step":"NaN"}`,
		`{"step":1,"epoch":1e300}`, `{"step":1,"seconds":"+Inf"}`, `{"step":1,"time":1e300}`} {
		dir := t.TempDir()
		if err := created(t, t.Context(), dir, runs.Options{}).Close(); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, "metrics.jsonl")
		if err := os.WriteFile(name, []byte("{\"step\":1}\n"+bad+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var e *runs.RowError
		_, err := runs.Create(t.Context(), dir, runs.Options{Resume: true})
		if !errors.As(err, &e) || !errors.Is(err, trainer.ErrOption) || e.File != name || e.Line != 2 || strings.Contains(err.Error(), "no number") && strings.Contains(bad, "step") {
			t.Errorf("%s: %v", bad, err)
		}
		if err := os.WriteFile(name, []byte("{\"step\":1}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := created(t, t.Context(), dir, runs.Options{Resume: true}).Close(); err != nil {
			t.Errorf("without the line: %v", err)
		}
	}
}
