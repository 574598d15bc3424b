package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/examples/internal/run"
	"github.com/evenkeel/evenkeel/examples/internal/runtest"
	"github.com/evenkeel/evenkeel/internal/page"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// runs are what is trained: in short tests little. Drift takes two epochs to show.
func runs() []trained {
	if testing.Short() {
		return []trained{
			{"streaming", 9600, 2, 0.85, nil, 9600 * 785, 0.5},
			{"resident", 9600, 2, 0.85, []string{"-resident"}, 0, 0.5},
		}
	}
	return []trained{
		{"streaming all images", 0, 5, 0.975, nil, 60000 * 785, 0.25},
		{"resident", 12800, 2, 0.9, []string{"-resident"}, 0, 0.5},
	}
}

type trained struct {
	name            string
	samples, epochs int     // 0 samples: all
	accuracy        float64 // at least
	args            []string
	upload          int64 // bytes an epoch
	// allocs is the most heap objects a step. Below 1 they are the runtime's own: on a busy machine it makes one for a goroutine that waits in more
	// than every other window, and a short run has too few windows to leave them out.
	allocs float64
}

func TestTheExampleLearnsInsideTheAnnouncedMemory(t *testing.T) {
	for _, c := range runs() {
		t.Run(c.name, func(t *testing.T) {
			r := runtest.Trains(t, example, c.samples, c.epochs, c.args...)
			if r.TestAccuracy == nil || *r.TestAccuracy < c.accuracy || r.AllocsPerStep > c.allocs || r.UploadBytesPerEpoch != c.upload {
				t.Fatalf("results %+v, want accuracy %v and %d bytes an epoch", r, c.accuracy, c.upload)
			}
			t.Logf("%d epochs of %d images: accuracy %v", c.epochs, c.samples, *r.TestAccuracy)
		})
	}
}

// Adafactor keeps a three-hundredth of Adam's state in this net. On four seeds its loss is 1.20 to 1.25 times Adam's.
func TestAdafactorLearnsNearlyAsWellAsAdam(t *testing.T) {
	train := func(optimizer string) (loss float64) {
		return runtest.Trains(t, example, 9600, 2, "-optimizer", optimizer).TrainLoss
	}
	adam, got := train("adam"), train("adafactor")
	if t.Logf("loss %v, with adam %v", got, adam); got > 1.5*adam {
		t.Errorf("loss %v after two epochs, %v with Adam: want at most half as much again", got, adam)
	}
}

func TestTooLittleMemorySaysWhatIsMissingAndWhatFits(t *testing.T) {
	_, err := runtest.Run(example, 6000, "-memory", "9MiB")
	var short *trainer.CapacityError
	if !errors.As(err, &short) || !errors.Is(err, arena.ErrCapacity) {
		t.Fatalf("got %v", err)
	}
	if short.Have != 9<<20 || short.Need <= short.Have || short.Fits < 1 || short.Fits >= 128 || !strings.Contains(err.Error(), "missing") {
		t.Errorf("got %+v", short)
	}
}

func TestWhatFitsMarksWhatToTake(t *testing.T) {
	for memory, want := range map[string]string{"64MiB": "take this  adam       kept       128", "9MiB": "take this  adam       freed      128", "1KiB": "nothing fits"} {
		out, err := runtest.Run(example, 6000, "-what-fits", memory)
		if err != nil || !strings.Contains(out, want) || strings.Contains(out, "epoch") {
			t.Errorf("%s: %v, want %q in\n%s", memory, err, want, out)
		}
	}
}

func TestPlanStopsBeforeTraining(t *testing.T) {
	for ending, want := range map[string]string{"svg": "<svg", "png": "\x89PNG", "html": "mlp/main.go:"} {
		picture := filepath.Join(t.TempDir(), "memory."+ending)
		out, err := runtest.Run(example, 6000, "-plan", "-picture", picture)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out, "epoch") || !strings.Contains(out, "train 128") {
			t.Errorf("output:\n%s", out)
		}
		if b, err := os.ReadFile(picture); err != nil || !bytes.Contains(b, []byte(want)) {
			t.Errorf("%s: %v, no %q in %d bytes", ending, err, want, len(b))
		}
	}
	page := filepath.Join(t.TempDir(), "both.html")
	if _, err := runtest.Run(example, 6000, "-plan", "-guard", "each", "-picture", page, "-compare"); err != nil {
		t.Fatal(err)
	}
	// Gradients that are freed early need no region.
	if b, err := os.ReadFile(page); err != nil || !bytes.Contains(b, []byte(`{"name":"gradients","a":2143488,"b":0}`)) || !bytes.Contains(b, []byte(`"mlp -guard each"`)) {
		t.Errorf("comparison: %v, not of gradients of 2,143,488 bytes and of 0", err)
	}
	out, err := runtest.Run(example, 6000, "-plan", "-memory", "1MiB")
	if err != nil || !strings.Contains(out, "does not fit in -memory") {
		t.Errorf("in 1 MiB: %v\n%s", err, out)
	}
}

func TestAProfileIsTablesAndATrace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.json")
	for _, args := range [][]string{{"-profile"}, {"-trace", file}, {"-trace", file, "-ranks", "2", "-batch", "64"}} {
		out, err := runtest.Run(example, 3000, args...)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"\n20 steps on cpu, ", "\nhidden1 ", "\nmatmul ", "\ntotal "} {
			if strings.Count(out, text) < 1 || strings.Contains(out, "epoch") {
				t.Errorf("%q: no %q in\n%s", args, text, out)
			}
		}
		if args[0] == "-profile" {
			continue
		}
		var trace struct{ TraceEvents []struct{ Name string } }
		if b, err := os.ReadFile(file); err != nil || json.Unmarshal(b, &trace) != nil || len(trace.TraceEvents) < 20*20 {
			t.Errorf("trace: %v, %d events", err, len(trace.TraceEvents))
		}
		if sums := strings.Contains(out, "sums over ranks: "); sums != (len(args) > 2) {
			t.Errorf("%q: sums over ranks: %v", args, sums)
		}
	}
}

func TestQuietPrintsNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	out, err := runtest.Run(example, 640, "-epochs", "1", "-quiet", "-json", file)
	if err != nil || out != "" {
		t.Errorf("%v, output %q", err, out)
	}
	if b, err := os.ReadFile(file); err != nil || !bytes.Contains(b, []byte("test_accuracy")) {
		t.Errorf("results: %v, %s", err, b)
	}
}

func TestCurvesAreDrawn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "curves.svg")
	out, err := runtest.Run(example, 1280, "-epochs", "2", "-curves", file, "-log-loss")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{">mlp<", ">loss<", ">accuracy, %<", ">learning rate<", ">gradient norm<", ">epoch<", ">test<"} {
		if !bytes.Contains(b, []byte(text)) {
			t.Errorf("no %s in the picture", text)
		}
	}
	plain, err := runtest.Run(example, 1280, "-epochs", "2")
	if err != nil || losses(out) != losses(plain) || losses(out) == "" {
		t.Errorf("%v: with curves the losses are %q, else %q", err, losses(out), losses(plain))
	}
}

// losses returns the losses of all epochs in the output of the program.
func losses(out string) (all string) {
	for _, line := range strings.Split(out, "\n") {
		if _, after, ok := strings.Cut(line, "train loss "); ok {
			before, _, _ := strings.Cut(after, " bytes")
			all += before[:strings.LastIndex(before, "  ")] + "\n"
		}
	}
	return all
}

func TestBadFlagsAreErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
		is   error
	}{
		{"memory below zero", []string{"-memory", "-5"}, "-5", trainer.ErrOption},
		{"results without training", []string{"-plan", "-json", "x.json"}, "-json x.json", nil},
		{"memory in words", []string{"-memory", "much"}, "much", nil},
		{"optimizer", []string{"-optimizer", "sgdd"}, "nesterov", optim.ErrOption},
		{"device", []string{"-device", "tpu"}, "cpu", nil},
		{"batch", []string{"-batch", "0"}, "batch 0", trainer.ErrOption},
		{"rate", []string{"-rate", "-1"}, "rate", optim.ErrOption},
		{"epochs", []string{"-epochs", "-1"}, "-epochs", nil},
		{"data", []string{"-data", t.TempDir()}, "train-images-idx3-ubyte", os.ErrNotExist},
		{"argument", []string{"train"}, "train", nil},
		{"picture", []string{"-picture", "digits.jpg"}, ".html, .svg or .png", trainer.ErrOption},
		{"curves", []string{"-curves", "curves.jpg"}, ".svg or .png", trainer.ErrOption},
		{"curves without training", []string{"-plan", "-curves", "x.svg"}, "-curves x.svg", nil},
		{"curves in the file of results", []string{"-json", "./x.svg", "-curves", "x.svg"}, "two names", nil},
		{"logarithmic losses of no curves", []string{"-log-loss"}, "add -curves", nil},
		{"curves nowhere", []string{"-curves", filepath.Join(t.TempDir(), "no", "where.svg")}, "where", os.ErrNotExist},
		{"file of results", []string{"-epochs", "0", "-json", filepath.Join(t.TempDir(), "no", "where")}, "where", os.ErrNotExist},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := runtest.Run(example, 6000, c.args...)
			if err == nil || !strings.Contains(strings.ToLower(err.Error()), c.want) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestAnInterruptEndsTheProgram(t *testing.T) {
	_, said := interrupted(t, func() {
		os.Args = []string{"mlp", "-epochs", "1000"}
		main()
	})
	if !strings.Contains(said, "mlp: interrupted") {
		t.Errorf("said %q", said)
	}
}

func TestAnInterruptWithCheckpointsIsACleanEnd(t *testing.T) {
	dir := os.Getenv("EVENKEEL_EXAMPLE")
	if dir == "" {
		dir = t.TempDir()
		t.Setenv("EVENKEEL_EXAMPLE_FOLDER", dir)
	}
	out, said := interruptedWith(t, 0, func() {
		os.Args = []string{"mlp", "-epochs", "1000", "-checkpoint", os.Getenv("EVENKEEL_EXAMPLE_FOLDER")}
		main()
	})
	if !strings.Contains(out, "stopped after step") || !strings.Contains(out, dir) || !strings.Contains(out, "-resume goes on") || said != "" {
		t.Errorf("printed %q and said %q", out, said)
	}
}

// firstStep is the line that a program of interrupted prints after its first step.
const firstStep = "first step"

// interrupted runs the binary of this test as a program that trains, and interrupts it (Ctrl-C) after its first step. The program
// must end with status 1 within 2 seconds. interrupted returns its standard output after that step, and its standard error.
func interrupted(t *testing.T, program func()) (out, said string) {
	t.Helper()
	return interruptedWith(t, 1, program)
}

// interruptedWith is interrupted of a program that must end with a status.
func interruptedWith(t *testing.T, status int, program func()) (out, said string) {
	t.Helper()
	if os.Getenv("EVENKEEL_EXAMPLE") != "" {
		example.Progress = func(p trainer.Progress) {
			if p.Epoch == 0 && p.Step == 1 {
				fmt.Println(firstStep)
			}
		}
		program()
		os.Exit(0)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "EVENKEEL_EXAMPLE=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(pipe)
	for lines.Scan() && lines.Text() != firstStep {
	}
	start := time.Now()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		out += lines.Text() + "\n"
	}
	if err = cmd.Wait(); cmd.ProcessState.ExitCode() != status {
		t.Errorf("ended with %v, %q", err, stderr.String())
	}
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("took %v", d)
	}
	return out, stderr.String()
}

func TestAnInterruptedRunGoesOnWithTheSameBits(t *testing.T) {
	runtest.Resumes(t, example, 1280)
	for _, together := range [][]string{nil, {"-shard", "state"}, {"-accumulate", "3"}} { // all ranks take checkpoints together
		runtest.Resumes(t, example, 640, append(together, "-ranks", "2", "-batch", "32")...)
	}
}

func TestThePlanNeedsWhatLivesAtOnceAndNoByteMore(t *testing.T) {
	runtest.MeetsTheBound(t, example)
}

func TestAccuracyIsKeptIn16Bits(t *testing.T) {
	runtest.KeepsItsAccuracy(t, example, seed.Cases(12000, 30000), 2)
}

func TestThePagesShowWhatIsPrinted(t *testing.T) { runtest.Shows(t, example, 5) }

// The numbers of docs/memory.md are those of plans, except a few that are not bytes, and the table of 16 bits, which package trainer
// compares.
func TestThePageOfMemoryHasTheNumbersOfPlans(t *testing.T) {
	printed := "1,500 buffers, 10,000 lifetimes, 70,000 digits, 9,600 images, 1,605,632 bytes in hidden1/w, 22,020,096 in a net of internal/nets"
	once := example
	train, test, err := example.Load(example.Flags)
	once.Load = func(run.Flags) (dataloader.Dataset, dataloader.Dataset, error) { return train, test, err }
	for _, device := range []string{"emu", "cpu"} {
		for _, args := range []string{"", "-guard each", "-offload state", "-offload state -guard each", "-offload state,parameters", "-offload state,parameters -guard each", "-resident", "-optimizer momentum", "-optimizer adafactor", "-optimizer sgd", "-optimizer adam16", "-optimizer adam8"} {
			printed += runtest.Printed(t, once, append(strings.Fields(args), "-plan", "-device", device)...)
		}
	}
	known := map[string]bool{}
	for _, n := range page.Numbers(printed) {
		known[n] = true
	}
	before, rest, _ := strings.Cut(page.Read(t, "docs/memory.md"), "## 16 bits")
	_, after, _ := strings.Cut(rest, "## ")
	for _, n := range page.Numbers(before + after) {
		if !known[n] {
			t.Errorf("docs/memory.md says %s, which no plan has", n)
		}
	}
}
