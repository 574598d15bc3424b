package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// protocol lists what every contender must report.
var protocol = strings.Fields(`peer variant version workload threads batch train_n epochs_done window_steps windows_s warmup_windows train_img_s
	us_per_step eval_img_s epoch_s eval_s first_step_s train_loss test_acc rss_mb planned_bytes budget_stop notes`)

// measured runs a workload and returns what it wrote, as the table reads it.
func measured(t *testing.T, args ...string) (map[string]any, report) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0)) // which a run sets
	var out bytes.Buffer
	if err := run(context.Background(), args, &out, io.Discard); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	var all map[string]any
	var r report
	for _, v := range []any{&all, &r} {
		if err := json.Unmarshal(out.Bytes(), v); err != nil {
			t.Fatalf("%v: %v in %s", args, err, &out)
		}
	}
	for _, key := range protocol {
		if v, ok := all[key]; !ok || v == nil {
			t.Errorf("%v: %q is missing", args, key)
		}
	}
	for _, key := range []string{"imported", "data", "peak", "end", "epochs"} {
		if v, ok := all["rss_mb"].(map[string]any)[key]; !ok || v == nil {
			t.Errorf("%v: rss_mb/%q is missing", args, key)
		}
	}
	if !(r.TrainImages > 0 && r.StepMicros > 0 && r.EvalImages > 0 && r.FirstStep > 0) || r.Planned["arena"] <= 0 {
		t.Errorf("%v: %+v has a measure that is not positive", args, r)
	}
	return all, r
}

func TestStepsAreTimedInWindowsAcrossEpochs(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "cpu.prof")
	_, r := measured(t, "-workload", "w5", "-steps", "2000", "-threads", "1", "-cpuprofile", profile)
	if b, err := os.ReadFile(profile); err != nil || len(b) == 0 {
		t.Errorf("profile of %d bytes: %v", len(b), err)
	}
	if len(r.Windows) != 3 || r.StepsDone != 3000 || r.EpochsDone != 12 || len(r.TrainLoss) != 12 || len(r.EvalSeconds) != 2 || len(r.RSS.Epochs) != 2 {
		t.Errorf("%d windows, %d steps, %d epochs with %d losses, %d evaluations; want 3, 3000, 12, 12, 2", len(r.Windows), r.StepsDone, r.EpochsDone, len(r.TrainLoss), len(r.EvalSeconds))
	}
	// 3,000 steps of a linear teacher are learned well: chance is 0.25.
	if first, last := r.TrainLoss[0], r.TrainLoss[10]; last > first/2 || r.TestAcc[1] < 0.9 {
		t.Errorf("loss %v, then %v; accuracy %v", first, last, r.TestAcc)
	}
}

func TestTheBudgetStopsTraining(t *testing.T) {
	_, r := measured(t, "-workload", "w5", "-steps", "1000000000", "-budget", "0.05")
	if !r.BudgetStop || r.StepsDone == 0 {
		t.Errorf("budget_stop %v after %d steps", r.BudgetStop, r.StepsDone)
	}
}

func TestAShrunkRunIsSmaller(t *testing.T) {
	_, r := measured(t, "-workload", "w4", "-steps", "2", "-window", "2", "-shrink", "32")
	if r.Batch != 2 || r.TrainN != imageSamples/32 || r.WindowSteps != 2 || len(r.Windows) != 4 || r.Planned["parameters"] >= 64<<10 {
		t.Errorf("batch %d, %d images, windows of %d steps: %v, %d bytes of parameters; want 2, %d, 2, 4 of them, less than 64 KiB",
			r.Batch, r.TrainN, r.WindowSteps, r.Windows, r.Planned["parameters"], imageSamples/32)
	}
	if len(r.Free) != 2 || len(r.InUse) != 2 || r.InUse[0] != r.InUse[1] || r.InUse[0] <= 0 {
		t.Errorf("bytes free %v, in use %v: want two of each, the arena's the same", r.Free, r.InUse)
	}
}

// TestEpochsOfMNIST runs on files of its form: 300 and 200 random images, whose label is the brightest of ten columns.
func TestEpochsOfMNIST(t *testing.T) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(1, 1))
	for part, n := range map[string]int{"train": 300, "t10k": 200} {
		pixels := binary.BigEndian.AppendUint32([]byte{0, 0, 8, 3}, uint32(n))
		pixels = append(pixels, 0, 0, 0, 28, 0, 0, 0, 28)
		labels := binary.BigEndian.AppendUint32([]byte{0, 0, 8, 1}, uint32(n))
		for range n {
			image := make([]byte, 28*28)
			label := r.IntN(10)
			for i := range image {
				image[i] = byte(r.IntN(64))
				if i%28 == 2*label {
					image[i] = 255
				}
			}
			pixels, labels = append(pixels, image...), append(labels, byte(label))
		}
		for name, b := range map[string][]byte{"-images-idx3-ubyte": pixels, "-labels-idx1-ubyte": labels} {
			if err := os.WriteFile(filepath.Join(dir, part+name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, workload := range slices.Sorted(func(yield func(string) bool) {
		for name, w := range workloads {
			if w.epochs > 0 && !yield(name) {
				return
			}
		}
	}) {
		t.Run(workload, func(t *testing.T) {
			_, r := measured(t, "-workload", workload, "-epochs", "3", "-data", dir, "-train-n", "260")
			if r.EpochsDone != 3 || r.StepsDone != 3*(260/r.Batch) || len(r.EvalSeconds) != 3 || r.TrainN != 260 || len(r.Windows) != 1 {
				t.Errorf("%d epochs, %d steps, %d evaluations, %d images, windows %v; want 3, %d, 3, 260 and one scaled",
					r.EpochsDone, r.StepsDone, len(r.EvalSeconds), r.TrainN, r.Windows, 3*(260/r.Batch))
			}
			if r.TrainLoss[2] >= r.TrainLoss[0] {
				t.Errorf("losses %v do not fall", r.TrainLoss)
			}
		})
	}
}

func TestBadCommandLinesAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"-workload", "w9"}, {"-workload", "w5", "-threads", "0"}, {"-workload", "w5", "-variant", "sse"}, {"-workload", "w5", "more"},
		{"-workload", "w5", "-budget", "-1"}, {"-workload", "w5", "-device", "tpu"}, {"-workload", "w5", "-products", "int3"}, {"-workload", "w5", "-window", "-1"}, {"-workload", "w5", "-shrink", "0"}, {"-workload", "w1", "-data", t.TempDir()},
	} {
		if err := run(context.Background(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

func TestFilesThatDoNotFitAreRefused(t *testing.T) {
	labels := []byte{0, 0, 8, 1, 0, 0, 0, 2, 3, 4}
	header := []byte{0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 28, 0, 0, 0, 28}
	for _, images := range [][]byte{nil, header[:15], append([]byte{0, 0, 8, 3, 0, 0, 0, 3}, header[8:]...), append(header[:15:15], 27)} {
		dir := t.TempDir()
		for name, b := range map[string][]byte{"train-labels-idx1-ubyte": labels, "train-images-idx3-ubyte": images} {
			if b == nil {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		d, err := openDigits(dir, "train", []int{784})
		if err == nil {
			t.Errorf("header %v: no error", images)
		}
		if err := d.close(); err != nil {
			t.Error(err)
		}
	}
}
