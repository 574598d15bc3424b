package run

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/evenkeel/evenkeel/trainer"
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
		var refused *FlagError
		if err := line.Run(t.Context(), []string{"-run", record}, io.Discard); !errors.As(err, &refused) || refused.Flag != "run" || !strings.Contains(refused.Reason, "-resume") {
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

// A start that has failed leaves the folder of the record to the command that is right.
func TestAFailedStartLeavesTheFolderOfTheRecord(t *testing.T) {
	t.Parallel()
	used, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	dir, record := t.TempDir(), filepath.Join(t.TempDir(), "run")
	if err := line.Run(t.Context(), []string{"-epochs", "1", "-checkpoint", dir}, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-serve", used.Addr().String()}, {"-memory", "1"}, {"-checkpoint", dir}} {
		if err := line.Run(t.Context(), append(args, "-run", record), io.Discard); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
	if err := line.Run(t.Context(), []string{"-epochs", "1", "-run", record}, io.Discard); err != nil {
		t.Errorf("the command that is right: %v", err)
	}
}

// A record that cannot go on is no error of the training, whose results are written.
func TestATrainingOutlivesItsRecord(t *testing.T) {
	t.Parallel()
	record, results := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "results.json")
	e := line
	e.Progress = func(p trainer.Progress) {
		if p.StepNumber == 3 {
			if err := os.RemoveAll(record); err != nil {
				t.Error(err)
			}
		}
	}
	if err := e.Run(t.Context(), []string{"-epochs", "2", "-run", record, "-json", results}, io.Discard); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(results); err != nil || !bytes.Contains(b, []byte("test_loss")) {
		t.Errorf("results %s, %v", b, err)
	}
}

// Ranks that share their state can be recorded.
func TestRanksThatShareAreRecorded(t *testing.T) {
	t.Parallel()
	record := filepath.Join(t.TempDir(), "run")
	if err := line.Run(t.Context(), []string{"-epochs", "2", "-ranks", "2", "-shard", "state,gradients", "-run", record}, io.Discard); err != nil {
		t.Fatal(err)
	}
	if got := rows(t, record); !bytes.Contains(got, []byte(`"norm":`)) || bytes.Contains(got, []byte(`"layer norm`)) {
		t.Errorf("rows %s", got)
	}
}

// The address is printed also with -quiet, and its token can be chosen.
func TestTheAddressOfThePage(t *testing.T) {
	const token = "a-token-of-my-own"
	t.Setenv("EVENKEEL_TOKEN", token)
	out := &output{}
	if err := line.Run(t.Context(), []string{"-epochs", "1", "-serve", "127.0.0.1:0"}, out); err != nil || !strings.Contains(out.String(), "#token="+token+"\n") {
		t.Errorf("%v, %s", err, out)
	}
	t.Setenv("EVENKEEL_TOKEN", "short")
	if err := line.Run(t.Context(), []string{"-serve", "127.0.0.1:0"}, io.Discard); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("a short token: %v", err)
	}
	if f := (&Flags{Quiet: true}); f.announces(out) != os.Stderr || (&Flags{}).announces(out) != io.Writer(out) {
		t.Error("the address is not printed where it can be read")
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
