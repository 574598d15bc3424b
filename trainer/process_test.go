package trainer_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

// rounds names the number of trainers that TestChild makes.
const rounds = "EVENKEEL_TEST_ROUNDS"

// arenaBytes is the size of an arena of TestChild on each device.
var arenaBytes = map[string]int64{"cpu": 278 << 20, "emu": 64 << 20, "machine": 64 << 20}

// big is a model that trains fast, in a large arena if EvalBatch is large: evaluation then needs
// 4096 bytes a sample for activations.
func big(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 4)
	h := net.Dense(x, "hidden", 1024, layers.Sigmoid)
	return net.Classifier(x, net.Dense(h, "out", 3, nil))
}

// trainOnce makes, trains and closes a trainer.
func trainOnce(t *testing.T, dev kernels.Device, bytes int64) {
	ds := samples(t, 8, 4, 3)
	opt := trainer.Options{Device: dev, Batch: 4, EvalBatch: int(bytes / 4096 * 98 / 100), Fields: ds.Fields()}
	tr, err := trainer.New(context.Background(), big, opt)
	if err != nil {
		t.Fatal(err)
	}
	if got := tr.Stats().Arena.Reserved; got < bytes*95/100 || got > bytes {
		t.Fatalf("an arena of %d bytes, want up to %d", got, bytes)
	}
	fit(t, tr, ds)
	before := rss()
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	if fell := before - rss(); fell < bytes*9/10 {
		t.Errorf("Close: the resident set fell by %d bytes, the arena had %d", fell, bytes)
	}
	if _, err := tr.Params(); err == nil { // and the trainer is there until here
		t.Error("no error from Params after Close")
	}
}

// runOnce makes, runs and closes a machine.
func runOnce(t *testing.T, dev kernels.Device, bytes int64) {
	g := gorgonia.NewGraph()
	input := func(name string, shape ...int) *gorgonia.Node {
		return gorgonia.NewMatrix(g, gorgonia.Float32, gorgonia.WithShape(shape...), gorgonia.WithName(name), gorgonia.WithInit(gorgonia.Ones()))
	}
	x := gorgonia.Must(gorgonia.Mul(input("x", int(bytes/4096), 1), input("w", 1, 1024))) // as large as the arena
	y := gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.Tanh(x))))
	m, err := vm.New(g, vm.Options{Device: dev})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.RunAll(); err != nil {
		t.Fatal(err)
	}
	before := rss()
	if err := m.Close(); err != nil || y.Value() == nil {
		t.Fatal(err, y.Value())
	}
	if fell := before - rss(); fell < bytes*9/10 {
		t.Errorf("Close: the resident set fell by %d bytes, the arena had %d", fell, bytes)
	}
	runtime.KeepAlive(m)
}

// TestChild is not a test of its own: TestTheResidentSet runs it in a process of its own. It makes,
// trains and closes some trainers, one after another, and prints the status of the process.
func TestChild(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv(rounds))
	if err != nil {
		t.Skip("needs " + rounds)
	}
	for _, d := range targets[:2] { // a GPU has memory of its own
		t.Run(d.name, func(t *testing.T) {
			dev := d.open(t, 0)
			for range n {
				trainOnce(t, dev, arenaBytes[d.name])
			}
		})
	}
	t.Run("machine", func(t *testing.T) {
		dev := targets[0].open(t, 0)
		for range n {
			runOnce(t, dev, arenaBytes["machine"])
		}
	})
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(b)) // its line VmHWM is read by peakOf
}

// peakOf returns the peak of the resident set of a process that makes and closes n trainers on a device.
func peakOf(t *testing.T, device string, n int) (kb int64) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$/^"+device+"$")
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%d", rounds, n))
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := fmt.Sscanf(string(out[max(0, bytes.Index(out, []byte("VmHWM:"))):]), "VmHWM: %d kB", &kb); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return kb
}

func TestTrainersInTurnNeedTheMemoryOfOne(t *testing.T) {
	switch {
	case rss() == 0:
		t.Skip("no /proc/self/status")
	case cputest.Race:
		t.Skip("the race detector keeps memory beside the arena's: run without -race")
	}
	t.Parallel()
	for device := range arenaBytes {
		t.Run(device, func(t *testing.T) {
			once, thrice := peakOf(t, device, 1), peakOf(t, device, 3)
			if once < arenaBytes[device]>>10 || thrice > once*12/10 {
				t.Errorf("%s: a peak of %d kB for one arena of %d kB, %d kB for three in turn: want at most 1.2 times",
					device, once, arenaBytes[device]>>10, thrice)
			}
		})
	}
}
