//go:build gpu && cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/examples/internal/runtest"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
	"github.com/evenkeel/evenkeel/kernels/cuda"
)

// Sums in another order move float32 losses by 1e-7 a step, and Adam's quotients carry that on.
func TestAGPULearnsWhatTheHostLearns(t *testing.T) {
	for name, args := range map[string][]string{
		"streaming": nil, "resident": {"-resident"}, "guard each": {"-guard", "each"}, "momentum": {"-optimizer", "momentum", "-rate", "0.05"},
	} {
		t.Run(name, func(t *testing.T) { runtest.Alike(t, example, "cuda", 8, 20, 1e-4, args...) })
	}
}

// emulated sets the number of GPUs, and skips the test where they are real.
func emulated(t *testing.T, gpus int64) {
	t.Helper()
	if !fakecuda.Loaded() {
		t.Skip("needs the emulated driver")
	}
	if err := fakecuda.Set("devices", gpus); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fakecuda.Set("devices", 1) })
}

// Each rank has a GPU of its own, and NCCL sums between them.
func TestRanksOnGPUsLearnWhatRanksOnTheHostLearn(t *testing.T) {
	emulated(t, 2)
	before, sums := fakecuda.Calls("ncclCommInitRankConfig"), fakecuda.Calls("ncclAllReduce")
	runtest.Alike(t, example, "cuda", 4, 8, 1e-4, "-ranks", "2", "-batch", "2")
	if n := fakecuda.Calls("ncclCommInitRankConfig") - before; n != 2 {
		t.Errorf("%d ranks have joined by NCCL, want 2", n)
	}
	if fakecuda.Calls("ncclAllReduce") == sums {
		t.Error("NCCL has summed nothing")
	}
	if left, err := fakecuda.Ledger(); err != nil || left != (fakecuda.Objects{}) {
		t.Errorf("left: %+v, %v", left, err)
	}
}

func TestRanksNeedAGPUEach(t *testing.T) {
	emulated(t, 2)
	_, err := runtest.Run(example, 16, "-epochs", "1", "-device", "cuda", "-batch", "4", "-ranks", "3")
	var few *cuda.NoDeviceError
	if !errors.As(err, &few) || !strings.Contains(err.Error(), "rank 2 needs a GPU of its own") {
		t.Errorf("got %v, want that rank 2 has no GPU", err)
	}
	if left, err := fakecuda.Ledger(); err != nil || left != (fakecuda.Objects{}) {
		t.Errorf("left: %+v, %v", left, err)
	}
}

func TestOnAGPUMemoryIsFlat(t *testing.T) {
	const batch, samples = 4, 4*64 + 3
	r := runtest.Trains(t, example, samples, 2, "-device", "cuda", "-batch", fmt.Sprint(batch))
	if r.UploadBytesPerEpoch != samples*785 {
		t.Errorf("%d bytes crossed in an epoch of %d samples, want 785 each", r.UploadBytesPerEpoch, samples)
	}
	t.Logf("%+v", r)
}

// What the program held of the GPU, and its loader, is released before it ends.
func TestAnInterruptReleasesAGPU(t *testing.T) {
	out, said := interrupted(t, func() {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		err := example.Run(ctx, []string{"-epochs", "1000", "-device", "cuda", "-batch", "4"}, os.Stdout)
		left, ledger := fakecuda.Ledger()
		fmt.Printf("left: %+v, %v\n", left, ledger)
		fmt.Fprintf(os.Stderr, "%d calls: %v", fakecuda.Calls("cuGraphLaunch"), err)
		os.Exit(1)
	})
	if !strings.Contains(said, "step") && !strings.Contains(said, "train epoch 0") || !strings.Contains(said, context.Canceled.Error()) {
		t.Errorf("said %q, want that a pass was cancelled", said)
	}
	if want := fmt.Sprintf("left: %+v, %v\n", fakecuda.Objects{}, nil); fakecuda.Loaded() && !strings.Contains(out, want) {
		t.Errorf("got %q, want %q", out, want)
	}
}
