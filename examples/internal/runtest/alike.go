package runtest

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/evenkeel/evenkeel/examples/internal/run"
	"github.com/evenkeel/evenkeel/trainer"
)

// losses runs e for an epoch and returns the loss of each step, of training and then of evaluation,
// and the results. With several objectives a batch has a step of each.
func losses(t *testing.T, e run.Example, samples int, args ...string) (all []float64, r run.Results) {
	t.Helper()
	e.Progress = func(p trainer.Progress) { all = append(all, p.StepLoss) }
	file := filepath.Join(t.TempDir(), "results.json")
	if _, err := Run(e, samples, append(args, "-epochs", "1", "-json", file)...); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all, r
}

// Alike trains e for that many steps on the host and on a device, and fails t if the losses of a
// step differ by more than the relative tolerance, because devices sum in different orders, or if
// the uploaded bytes differ at all.
func Alike(t *testing.T, e run.Example, device string, batch, steps int, tolerance float64, args ...string) {
	t.Helper()
	args = append([]string{"-batch", fmt.Sprint(batch)}, args...) // ranks may divide it
	want, host := losses(t, e, batch*steps, append(args, "-device", "cpu")...)
	got, there := losses(t, e, batch*steps, append(args, "-device", device)...)
	if len(got) != len(want) || len(want) < steps {
		t.Fatalf("%d steps on %s, %d on the host, want the same and at least %d", len(got), device, len(want), steps)
	}
	worst := 0.0
	for i, w := range want {
		off := math.Abs(got[i]-w) / math.Abs(w)
		if !(off <= tolerance) {
			t.Errorf("step %d of %d: loss %v on %s, %v on the host", i+1, len(want), got[i], device, w)
		}
		worst = max(worst, off)
	}
	if there.UploadBytesPerEpoch != host.UploadBytesPerEpoch || there.DriftBytes != 0 {
		t.Errorf("on %s %+v, on the host %+v: want the same number of uploaded bytes", device, there, host)
	}
	t.Logf("%d steps, losses %.4f to %.4f, at most %.1e apart", steps, want[0], want[steps-1], worst)
}
