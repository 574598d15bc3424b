package run

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/runs"
)

// output is written by the program and read by its hook.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// press presses a button of the page whose address the program has printed.
func press(t *testing.T, out *output, button string) {
	address := regexp.MustCompile(`the page is at (\S+)`).FindStringSubmatch(out.String())
	if address == nil {
		t.Fatalf("no address in %s", out)
	}
	u, err := url.Parse(address[1])
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest("POST", "http://"+u.Host+"/control/"+button, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, token, _ := strings.Cut(u.Fragment, "=")
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Error(err)
		return
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusNoContent {
		t.Errorf("%s: %v, %v", button, resp.Status, err)
	}
}

// A page stops a training, with a checkpoint if there is a folder for them; the same command with
// -resume goes on, and so does its record.
func TestAPageStopsATrainingWhoseRecordGoesOn(t *testing.T) {
	t.Parallel()
	for _, checkpoints := range []bool{false, true} {
		dir, record := filepath.Join(t.TempDir(), "checkpoints"), filepath.Join(t.TempDir(), "run")
		args := []string{"-epochs", "2000", "-run", record, "-serve", "127.0.0.1:0"}
		says := "stopped on its page after step"
		if checkpoints {
			args = append(args, "-checkpoint", dir, "-every", "1h")
			says = "stopped after step"
		}
		out := &output{}
		e, pressed := line, false
		e.Progress = func(p trainer.Progress) {
			if p.StepNumber == 3 && !pressed {
				pressed = true
				press(t, out, "stop")
			}
		}
		if err := e.Run(t.Context(), args, out); err != nil || !strings.Contains(out.String(), says) {
			t.Errorf("%v\n%s", err, out)
		}
		page, err := os.ReadFile(filepath.Join(record, "index.html"))
		if err != nil || !bytes.Contains(page, []byte(`{"name":"optimizer","value":"sgd"}`)) || !bytes.Contains(page, []byte("layer norm")) {
			t.Errorf("the page has no settings or norms: %v", err)
		}
		var refused *runs.FolderError
		if err := line.Run(t.Context(), []string{"-run", record}, io.Discard); !errors.As(err, &refused) {
			t.Errorf("a folder that has a run: %v", err)
		}
		if !checkpoints {
			continue
		}
		before := bytes.Count(rows(t, record), []byte("\n"))
		if err := line.Run(t.Context(), []string{"-epochs", "3", "-run", record, "-checkpoint", dir, "-resume"}, io.Discard); err != nil {
			t.Error(err)
		}
		if after := rows(t, record); bytes.Count(after, []byte("\n")) <= before || !bytes.Contains(after, []byte(`"loss/test"`)) {
			t.Errorf("the record does not go on: %s", after)
		}
	}
	for _, args := range [][]string{{"-run", "x", "-plan"}, {"-serve", ":0", "-what-fits", "1MiB"}} {
		var e *FlagError
		if err := line.Run(t.Context(), args, io.Discard); !errors.As(err, &e) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// rows returns the lines of a record.
func rows(t *testing.T, dir string) []byte {
	b, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
