package runtest

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/examples/internal/run"
	"github.com/evenkeel/evenkeel/trainer"
)

// Resumes trains e for two epochs of that many samples, then again with checkpoints: it ends the
// program's context at half of the second epoch, and goes on with -resume. It fails t unless the
// interrupted run ends without an error, with a line that says how to go on, and both ways end with
// equal parameters.
func Resumes(t *testing.T, e run.Example, samples int, args ...string) {
	t.Helper()
	args = append(args, "-epochs", "2")
	digest := func(args ...string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "results.json")
		var r run.Results
		if out, err := Run(e, samples, append(args, "-json", file)...); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		b, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(b, &r)
		}
		if err != nil {
			t.Fatal(err)
		}
		return r.ParametersSHA256
	}
	want := digest(args...)
	args = append(args, "-checkpoint", filepath.Join(t.TempDir(), "run"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopped := e
	stopped.Progress = func(p trainer.Progress) {
		if p.Epoch == 1 && p.StepNumber > 0 && p.Step >= (p.Steps+1)/2 {
			cancel()
		}
	}
	var out bytes.Buffer
	if err := runOn(ctx, stopped, samples, &out, append(args, "-every", "1e")...); err != nil {
		t.Fatalf("interrupted: %v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "-resume goes on") || ctx.Err() == nil {
		t.Errorf("interrupted:\n%s", out.String())
	}
	if _, err := Run(e, samples, args...); err == nil || !strings.Contains(err.Error(), "-resume") {
		t.Errorf("over the checkpoints of a run: %v", err)
	}
	if got := digest(append(args, "-resume")...); got != want {
		t.Errorf("the resumed run has parameters %s, one without a break %s", got, want)
	}
	// All epochs are trained: only the evaluation is left.
	if got := digest(append(args, "-resume")...); got != want {
		t.Errorf("resumed at the end: parameters %s, want %s", got, want)
	}
}
