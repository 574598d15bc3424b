package run

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/checkpoint"
)

func TestAnIntervalIsStepsATimeOrEpochs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]checkpoint.Options{
		"":     {EveryEpochs: 1},
		"500":  {EverySteps: 500},
		"2e":   {EveryEpochs: 2},
		"90s":  {EveryTime: 90 * time.Second},
		"1h5m": {EveryTime: 65 * time.Minute},
	} {
		got, err := Interval(text)
		if err != nil || got.EverySteps != want.EverySteps || got.EveryEpochs != want.EveryEpochs || got.EveryTime != want.EveryTime {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"0", "-1", "0e", "e", "x", "-5m", "0s", "1.5"} {
		var e *FlagError
		if _, err := Interval(text); !errors.As(err, &e) || e.Flag != "every" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The last step of a run is in a checkpoint, also if none was due there.
func TestARunEndsWithACheckpoint(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	if err := line.Run(t.Context(), []string{"-epochs", "2", "-checkpoint", dir, "-every", "1h"}, io.Discard); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := line.Run(t.Context(), []string{"-epochs", "2", "-checkpoint", dir, "-resume"}, &out); err != nil ||
		!strings.Contains(out.String(), "epoch 3, step 1") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// An interrupt before the first step, and one during an evaluation, end the program cleanly, too.
func TestAnInterruptAtAnyTimeIsACleanEndWithCheckpoints(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(p trainer.Progress) bool{
		"training":   func(p trainer.Progress) bool { return p.StepNumber == 3 },
		"evaluation": func(p trainer.Progress) bool { return p.StepNumber == 0 },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		e := line
		e.Progress = func(p trainer.Progress) {
			if at(p) {
				cancel()
			}
		}
		var out strings.Builder
		dir := filepath.Join(t.TempDir(), "run")
		err := e.Run(ctx, []string{"-epochs", "500", "-checkpoint", dir, "-every", "1h"}, &out)
		if err != nil || !strings.Contains(out.String(), "stopped after step") {
			t.Errorf("%s: %v\n%s", name, err, out.String())
		}
		out.Reset()
		if err := line.Run(t.Context(), []string{"-epochs", "2", "-batch", "1", "-checkpoint", dir, "-resume"}, &out); err != nil ||
			!strings.Contains(out.String(), "resumed from") || !strings.Contains(out.String(), "batch: 2 was saved and 1 is set") {
			t.Errorf("%s, with another batch: %v\n%s", name, err, out.String())
		}
	}
	// Nothing is loaded yet.
	ctx, cancel := context.WithCancel(t.Context())
	e := line
	e.Load = func(f Flags) (train, test dataloader.Dataset, err error) { cancel(); return line.Load(f) }
	if err := e.Run(ctx, []string{"-checkpoint", t.TempDir()}, io.Discard); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("loading: %v", err)
	}
}
