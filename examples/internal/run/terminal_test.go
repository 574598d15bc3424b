package run

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/trainer"
)

func TestTheLineOfAnEpochFitsTheTerminal(t *testing.T) {
	t.Parallel()
	fit, val := trainer.Result{Loss: 0.21987, Accuracy: 0.9355}, trainer.Result{Loss: 0.10524, Accuracy: 0.9675}
	want := "epoch  1   156663 images/s  train loss 0.2199 (93.55 %)  test loss 0.1052 (96.75 %)  8787200 bytes in use\n"
	if got := epochLine(wide, 1, 156663, fit, val, 8787200); got != want {
		t.Errorf("wide: got %q, want %q", got, want)
	}
	want = "epoch  1  157k images/s  train 0.2199 (93.55 %)  test 0.1052 (96.75 %)  8.4 MiB\n"
	if got := epochLine(80, 1, 156663, fit, val, 8787200); got != want {
		t.Errorf("80 columns: got %q, want %q", got, want)
	}
	losses := []trainer.ObjectiveResult{{Name: "discriminator", Loss: 1.2345}, {Name: "generator", Loss: 0.9876}}
	fit, val = trainer.Result{Losses: losses, Accuracy: math.NaN()}, trainer.Result{Losses: losses, Accuracy: math.NaN()}
	want = "epoch 12  956 images/s  train discriminator 1.2345, generator 0.9876\n" +
		"          test discriminator 1.2345, generator 0.9876  1.0 KiB\n"
	if got := epochLine(80, 12, 956, fit, val, 1024); got != want {
		t.Errorf("two losses: got\n%swant\n%s", got, want)
	}
}

func TestOutputToNoTerminalIsWide(t *testing.T) {
	t.Parallel()
	f, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n := columns(f); n != wide {
		t.Errorf("a file has %d columns, want %d", n, wide)
	}
	if n := columns(new(bytes.Buffer)); n != wide {
		t.Errorf("a buffer has %d columns, want %d", n, wide)
	}
}

func TestJoinedFieldsBreakBetweenThem(t *testing.T) {
	t.Parallel()
	if got, want := joined(20, "epoch 1", "abcdefghijk", "lm", "no"), "epoch 1  abcdefghijk\n          lm  no\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for line := range strings.Lines(joined(20, "epoch 1", "abcdefghijk", "lm", "no")) {
		if n := len(strings.TrimSuffix(line, "\n")); n > 20 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
}

func TestALongEpochIsLoggedWhereThereIsNoTerminal(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	begun := time.Unix(1000, 0)
	l := newProgressLog(&out, 10_000, begun)
	for i := range 50 { // a step of 100 samples a second, of a resumed epoch
		l.step(trainer.Progress{Epoch: 2, Samples: 5000 + 100*i, Loss: 0.5, Accuracy: 0.75}, begun.Add(time.Duration(i)*time.Second))
	}
	var want strings.Builder
	for _, line := range []string{"60 %  loss 0.5000 (75.00 %)  100 images/s  40s left", "70 %  loss 0.5000 (75.00 %)  100 images/s  30s left",
		"80 %  loss 0.5000 (75.00 %)  100 images/s  20s left", "90 %  loss 0.5000 (75.00 %)  100 images/s  10s left"} {
		want.WriteString("epoch  3  " + line + "\n")
	}
	if out.String() != want.String() {
		t.Errorf("got\n%swant\n%s", &out, &want)
	}
}
