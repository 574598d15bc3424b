package checkpoint_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/checkpoint"
	"github.com/evenkeel/evenkeel/trainer/loop"
)

// childVariable names the program that the binary of this test runs as, and folderVariable its
// folder.
const (
	childVariable  = "EVENKEEL_CHECKPOINT_CHILD"
	folderVariable = "EVENKEEL_CHECKPOINT_FOLDER"
	killsVariable  = "EVENKEEL_KILLS" // number of kills of the test that kills
)

// children are programs for tests of processes that end.
var children = map[string]func(){
	"train": func() { exit(childTrains(checkpoint.Options{EverySteps: 3, Keep: 2}, tortureEpochs)) },
	"signal": func() {
		stop, release := checkpoint.Signals()
		err := childTrains(checkpoint.Options{EveryTime: time.Hour, Stop: stop}, 1<<20)
		release()
		exit(err)
	},
	"ignore": func() { // does not end after a signal, but the second one ends it
		stop, _ := checkpoint.Signals()
		fmt.Println("step 1")
		<-stop
		fmt.Println("first")
		time.Sleep(time.Minute)
		os.Exit(0)
	},
	"hold": func() {
		f, err := checkpoint.Open(os.Getenv(folderVariable), checkpoint.Options{})
		if err != nil {
			exit(err)
		}
		fmt.Println("held")
		_, _ = io.Copy(io.Discard, os.Stdin)
		f.Close()
	},
}

// exit ends a program.
func exit(err error) {
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(3)
	}
	os.Exit(0)
}

// tortureEpochs are the epochs of the program "train", of 5 steps.
const tortureEpochs = 60

// childTrains trains net from the newest checkpoint, prints the number of each step, and writes the
// parameters to a file.
func childTrains(opt checkpoint.Options, epochs int) (err error) {
	dev, err := cpu.Open(cpu.Options{Threads: 1, Instructions: cpu.Portable})
	if err != nil {
		return err
	}
	defer dev.Close()
	ctx := context.Background()
	tr, err := trainer.New(ctx, net, options(dev))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tr.Close()) }()
	dir := os.Getenv(folderVariable)
	f, err := checkpoint.Open(dir, opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r, err := f.Resume(ctx, tr)
	if err != nil {
		return err
	}
	if len(r.Passed) > 0 {
		return fmt.Errorf("passed over: %v", r.Passed)
	}
	fmt.Println("from", r.From.Step)
	for step, err := range f.Steps(ctx, tr, loop.Until(ctx, tr, childData(), epochs)) {
		if err != nil {
			return err
		}
		fmt.Println("step", step.Number)
	}
	if err := f.Wait(); err != nil {
		return err
	}
	if f.Stopped() {
		fmt.Println("stopped after step", f.Stats().Last.Step)
		return nil
	}
	all, err := digest(tr)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "result"), []byte(all), 0o644)
}

// childData are the samples that programs train on.
func childData() dataloader.Dataset { return samples(failNow{}, 40) }

// failNow is a testing.TB for programs.
type failNow struct{ testing.TB }

// Helper does nothing.
func (failNow) Helper() {}

// Fatal ends the program.
func (failNow) Fatal(args ...any) { exit(errors.New(fmt.Sprint(args...))) }

// program is a running child.
type program struct {
	*exec.Cmd
	lines *bufio.Scanner
	in    io.WriteCloser
}

// start starts a child on a folder.
func start(t *testing.T, child, dir string) *program {
	t.Helper()
	p := &program{Cmd: exec.Command(os.Args[0])}
	p.Env = append(os.Environ(), childVariable+"="+child, folderVariable+"="+dir)
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.in, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	return p
}

// until reads lines until one begins with a text, and returns that.
func (p *program) until(text string) string {
	for p.lines.Scan() {
		if strings.HasPrefix(p.lines.Text(), text) || strings.HasPrefix(p.lines.Text(), "error") {
			return p.lines.Text()
		}
	}
	return ""
}

// A process that trains is killed again and again at random instants. It always goes on from a
// complete checkpoint, and ends with the bits of a process that is not killed.
func TestAKilledRunGoesOnWithTheSameBits(t *testing.T) {
	kills := 8
	if testing.Short() {
		kills = 3
	}
	if text := os.Getenv(killsVariable); text != "" {
		if _, err := fmt.Sscan(text, &kills); err != nil {
			t.Fatalf("%s=%s: must be a number", killsVariable, text)
		}
	}
	whole := t.TempDir()
	if line := start(t, "train", whole).until("nothing"); line != "" {
		t.Fatal(line)
	}
	want, err := os.ReadFile(filepath.Join(whole, "result"))
	if err != nil {
		t.Fatal(err)
	}
	r := seed.Rand(t, 15)
	killed, resumed, ended := 0, 0, 0
	// All may happen before the first checkpoint, so that more are needed.
	more := func() bool { return killed < kills || resumed == 0 && killed < 20*kills }
	for more() {
		dir := t.TempDir()
		for done := false; !done; {
			p := start(t, "train", dir)
			if line := p.until("from"); !strings.HasPrefix(line, "from") {
				t.Fatalf("after %d kills: %q", killed, line)
			} else if line != "from 0" {
				resumed++
			}
			if more() {
				go func(after time.Duration) {
					time.Sleep(after)
					_ = p.Process.Kill() // an error means that it has ended
				}(time.Duration(r.Int64N(int64(40 * time.Millisecond))))
			}
			if line := p.until("nothing"); line != "" {
				t.Fatalf("after %d kills: %q", killed, line)
			}
			if err := p.Wait(); err == nil {
				done = true
			} else if killed++; p.ProcessState.ExitCode() != -1 {
				t.Fatalf("after %d kills: %v", killed, err)
			}
		}
		got, err := os.ReadFile(filepath.Join(dir, "result"))
		if err != nil || string(got) != string(want) {
			t.Fatalf("after %d kills: %v, or other bits than those of a run that was not killed", killed, err)
		}
		ended++
	}
	if resumed == 0 {
		t.Error("no run has gone on from a checkpoint")
	}
	t.Logf("%d kills, %d times resumed, %d runs to the end", killed, resumed, ended)
}
