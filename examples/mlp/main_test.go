package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/examples/internal/run"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

func example(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := defaults.Run(context.Background(), "mlp", args, &out, mlp, part)
	return out.String(), err
}

// trainSamples is how many training images part leaves.
func trainSamples() int {
	if testing.Short() {
		return 6000
	}
	return 60000
}

// part loads MNIST, a tenth of it in short tests.
func part(dir string) (train, test dataloader.Dataset, err error) {
	train, test, err = load(dir)
	if err != nil || !testing.Short() {
		return train, test, err
	}
	train, trainErr := dataloader.Subset(train, 0, trainSamples())
	test, testErr := dataloader.Subset(test, 0, 1000)
	return train, test, errors.Join(trainErr, testErr)
}

func TestOneEpochLearnsInsideTheAnnouncedMemory(t *testing.T) {
	accuracy := 0.95
	if testing.Short() {
		accuracy = 0.75
	}
	for _, c := range []struct {
		name   string
		args   []string
		upload int64
	}{
		{"streaming", nil, int64(trainSamples()) * 785},
		{"resident", []string{"-resident"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "results.json")
			out, err := example(t, append(c.args, "-epochs", "1", "-json", file)...)
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var r run.Results
			if err := json.Unmarshal(b, &r); err != nil {
				t.Fatal(err)
			}
			if r.TestAccuracy < accuracy || r.DriftBytes != 0 || r.AllocsPerStep != 0 || r.UploadBytesPerEpoch != c.upload || r.ImagesPerS <= 0 {
				t.Errorf("results %+v\n%s", r, out)
			}
			if !strings.Contains(out, "memory plan: ") || !strings.Contains(out, "epoch  1") {
				t.Errorf("output:\n%s", out)
			}
		})
	}
}

func TestTooLittleMemorySaysWhatIsMissingAndWhatFits(t *testing.T) {
	_, err := example(t, "-memory", "9MiB")
	var short *trainer.CapacityError
	if !errors.As(err, &short) || !errors.Is(err, arena.ErrCapacity) {
		t.Fatalf("got %v", err)
	}
	if short.Have != 9<<20 || short.Need <= short.Have || short.Fits < 1 || short.Fits >= 128 || !strings.Contains(err.Error(), "missing") {
		t.Errorf("got %+v", short)
	}
}

func TestPlanStopsBeforeTraining(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "memory.svg")
	out, err := example(t, "-plan", "-picture", picture)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out, "epoch") || !strings.Contains(out, "train 128") {
		t.Errorf("output:\n%s", out)
	}
	if b, err := os.ReadFile(picture); err != nil || !bytes.Contains(b, []byte("<svg")) {
		t.Errorf("picture: %v, %d bytes", err, len(b))
	}
}

func TestBadFlagsAreErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
		is   error
	}{
		{"memory below zero", []string{"-memory", "-5"}, "-5", trainer.ErrOption},
		{"memory in words", []string{"-memory", "much"}, "much", nil},
		{"optimizer", []string{"-optimizer", "sgdd"}, "nesterov", optim.ErrOption},
		{"device", []string{"-device", "cuda"}, "cpu and emu", nil},
		{"batch", []string{"-batch", "0"}, "batch 0", trainer.ErrOption},
		{"rate", []string{"-rate", "-1"}, "rate", optim.ErrOption},
		{"epochs", []string{"-epochs", "-1"}, "-epochs", nil},
		{"data", []string{"-data", t.TempDir()}, "train-images-idx3-ubyte", os.ErrNotExist},
		{"argument", []string{"train"}, "train", nil},
		{"file of results", []string{"-epochs", "0", "-json", filepath.Join(t.TempDir(), "no", "where")}, "where", os.ErrNotExist},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := example(t, c.args...)
			if err == nil || !strings.Contains(strings.ToLower(err.Error()), c.want) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestAnInterruptEndsTheProgram runs this test's own binary as the example and sends it the signal of Ctrl-C in mid epoch.
func TestAnInterruptEndsTheProgram(t *testing.T) {
	if os.Getenv("EVENKEEL_EXAMPLE") != "" {
		os.Args = []string{"mlp", "-epochs", "1000"}
		main()
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestAnInterruptEndsTheProgram$")
	cmd.Env = append(os.Environ(), "EVENKEEL_EXAMPLE=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "* train") {
	}
	time.Sleep(200 * time.Millisecond) // the plan is out: the first epoch begins
	start := time.Now()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(stderr.String(), "mlp: interrupted") {
		t.Errorf("ended with %v, %q", err, stderr.String())
	}
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("took %v", d)
	}
}
