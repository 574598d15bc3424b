package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/trainer"
)

// docs/memory.md has the tables as they are printed, and the planned bytes in the comparison with JAX.
func TestThePageHasTheTables(t *testing.T) {
	if cputest.Race {
		t.Skip("plans of large nets take minutes under the race detector")
	}
	b, err := os.ReadFile("../../../docs/memory.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	all, err := plans(nets.All())
	if err != nil {
		t.Fatal(err)
	}
	for _, print := range []func([]planned, io.Writer) error{placed, recomputed, offloaded} {
		var table strings.Builder
		if err := print(all, &table); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(page, table.String()) {
			t.Errorf("docs/memory.md has another table than `go run ./internal/nets/main` prints:\n%s", &table)
		}
	}
	_, beside, _ := strings.Cut(page, "main -peer")
	for _, n := range all {
		row := fmt.Sprintf(`(?m)^%s +%d  `, n.net.Name, n.whole.step().Scratch)
		if !regexp.MustCompile(row).MatchString(beside) {
			t.Errorf("docs/memory.md has another %s beside JAX: want %d bytes; `go run ./internal/nets/main -peer PYTHON` prints the table", n.net.Name, n.whole.step().Scratch)
		}
	}
}

// Steps are timed in trainers of just the bytes that are planned.
func TestStepsAreTimed(t *testing.T) {
	var out strings.Builder
	args := []string{"-rounds", "2", "-steps", "1", "-batch", "2", "-threads", "1", "-only", "unet"}
	if err := run(context.Background(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	row := `(?m)^unet +2 +\d+ +\d+\.\d( +\d+ +\d+\.\d % +\+\d+\.\d % +[+-]\d+\.\d %){2}$`
	if !regexp.MustCompile(row).MatchString(out.String()) {
		t.Errorf("no row that matches %s in\n%s", row, &out)
	}
}

// The median does not move with what one round was disturbed by.
func TestMedian(t *testing.T) {
	x := []float64{3, 1, 100, 2, 2.5}
	if got := median(x); got != 2.5 || x[2] != 100 {
		t.Errorf("median %v of %v, want 2.5 and the numbers as they were", got, x)
	}
}

func TestFlagsAreChecked(t *testing.T) {
	for args, want := range map[string]string{"-only lstm": `net "lstm": must be one of vgg, resnet`, "-steps 0": "steps 0", "more": `unexpected argument "more"`,
		"-rounds -1": "rounds -1", "-threads 0": "threads 0"} {
		err := run(context.Background(), strings.Fields(args), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// python returns a program that answers as peer.py does, with one object by default and another where a flag is given.
func python(t *testing.T, first, ordered reserved) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs /bin/sh")
	}
	write := func(name string, r reserved) string {
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	path := filepath.Join(t.TempDir(), "python")
	text := fmt.Sprintf("#!/bin/sh\n[ \"$1 $2\" = '- rnn' ] || exit 3\ngrep -q 'import jax' || exit 4\ncase \"$XLA_FLAGS\" in\n\"\") cat %s ;;\n%s) cat %s ;;\n*) exit 5 ;;\nesac\n",
		write("first", first), inOrder, write("ordered", ordered))
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// Temporaries are compared with scratch only if both steps have the same batch size, parameters and statistics.
func TestPeersAreOfTheSameStep(t *testing.T) {
	t.Setenv("XLA_FLAGS", "")
	var all []planned
	for _, n := range nets.All() {
		if n.Name != "rnn" {
			continue
		}
		plan, err := trainer.Plan(t.Context(), n.Model, trainer.Options{Batch: n.Batch, Guard: trainer.GuardEach})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, planned{net: n, whole: cut{plan: plan}})
	}
	scratch := all[0].whole.step().Scratch
	same := reserved{Net: "rnn", Version: "1.2.3", Platform: "cpu", Batch: 64, Temp: 4 * scratch, Arguments: 7, Outputs: 6, Alias: 5,
		Parameters: map[string]int64{"cell/wx": 64 * 256, "cell/wh": 256 * 256, "cell/b": 256, "out/w": 256 * 10, "out/b": 10}, Statistics: map[string]int64{}}
	ordered := same
	ordered.Temp = 3 * scratch
	var out bytes.Buffer
	if err := peers(context.Background(), python(t, same, ordered), all, &out); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf(`rnn +%d +%d +4\.00 +%d +3\.00 +7 +6 +5\n`, scratch, 4*scratch, 3*scratch); !regexp.MustCompile(want).Match(out.Bytes()) {
		t.Errorf("want %s in\n%s", want, &out)
	}
	for want, change := range map[string]func(*reserved){
		"63 rows":            func(r *reserved) { r.Batch = 63 },
		"parameters":         func(r *reserved) { r.Parameters = map[string]int64{"cell/wx": 1} },
		"running statistics": func(r *reserved) { r.Statistics = map[string]int64{"norm/mean": 1} },
	} {
		other := same
		change(&other)
		if err := peers(context.Background(), python(t, other, ordered), all, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error about %s", err, want)
		}
	}
	if err := peers(context.Background(), filepath.Join(t.TempDir(), "none"), all, io.Discard); err == nil || !strings.Contains(err.Error(), "must have JAX") {
		t.Errorf("without Python: %v", err)
	}
}
