package weights_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"github.com/evenkeel/evenkeel/weights"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// A device of exactly the planned bytes saves and loads; weights of more than one piece are alike.
func TestWhatIsSavedIsLoadedWithinThePlan(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 8)
		model := net(weights.BufferBytes/16 + 5) // hidden/w takes two pieces
		for _, offload := range offloads(dev) {
			opt := trainer.Options{Batch: 8, Fields: ds.Fields(), Device: dev, Seed: 1, Offload: trainer.Offload{Parameters: offload}}
			plan, err := trainer.Plan(t.Context(), model, opt)
			if err != nil {
				t.Fatal(err)
			}
			opt.Memory = plan.Total
			a := made(t, model, opt)
			opt.Seed = 2
			b := made(t, model, opt)
			fit(t, a, ds)
			fit(t, b, ds)
			before := ledger(dev)
			path := filepath.Join(t.TempDir(), "model.safetensors")
			if err := weights.Save(t.Context(), path, a, weights.SaveOptions{}); err != nil {
				t.Fatal(err)
			}
			if d := differing(values(t, a), values(t, b)); len(d) != len(weightNames) {
				t.Fatalf("only %q differ before", d)
			}
			r, err := weights.Load(t.Context(), path, b, weights.LoadOptions{Exact: true, RequireChecksum: true})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(r.Loaded, weightNames) || r.Missing != nil || r.Excluded != nil || r.LeftOver != nil {
				t.Errorf("report %+v", r)
			}
			if d := differing(values(t, a), values(t, b)); d != nil {
				t.Errorf("%q differ", d)
			}
			if got, want := predictions(t, b, ds), predictions(t, a, ds); got != want {
				t.Error("predictions differ")
			}
			if after := ledger(dev); after != before {
				t.Errorf("the device has made %s, before %s", after, before)
			}
			for _, tr := range []*trainer.Trainer{a, b} {
				if got := tr.Stats().Arena.Reserved; got != plan.Total {
					t.Errorf("%d bytes, planned %d", got, plan.Total)
				}
				if err := tr.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// offloads are the values of an option to offload that a device allows.
func offloads(dev kernels.Device) []bool {
	if dev.Unified() {
		return []bool{false}
	}
	return []bool{false, true}
}

// ledger is what a device that counts has made since it was opened.
func ledger(dev kernels.Device) string {
	d, ok := dev.(*emu.Device)
	if !ok {
		return ""
	}
	l := d.Ledger()
	return fmt.Sprint(l.Allocs.Ever, l.Pins.Ever, l.Streams.Ever, l.DeviceBytes, l.PinnedBytes)
}

func TestWeightsMoveToAnotherDevice(t *testing.T) {
	ds := samples(t, 32)
	from := devices["emu"](t)
	a := made(t, net(8), trainer.Options{Device: from, Seed: 1})
	fit(t, a, ds)
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := weights.Save(t.Context(), path, a, weights.SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	want := values(t, a)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	for name, open := range devices {
		b := made(t, net(8), trainer.Options{Device: open(t), Seed: 2})
		if _, err := weights.Load(t.Context(), path, b, weights.LoadOptions{}); err != nil {
			t.Fatal(err)
		}
		if d := differing(values(t, b), want); d != nil {
			t.Errorf("%s: %q differ", name, d)
		}
		if l := from.(*emu.Device).Ledger(); l.DeviceBytes != 0 || l.PinnedBytes != 0 {
			t.Errorf("%s: %v on the first device", name, l)
		}
	}
}

// childFile is the variable that makes this program a child process, with the path of a file.
const childFile = "EVENKEEL_TEST_WEIGHTS"

// child loads the file into a trainer of its own and prints the hash of its predictions.
func child() bool {
	path := os.Getenv(childFile)
	if path == "" {
		return false
	}
	hash, err := func() (string, error) {
		dev, err := cpu.Open(cpu.Options{Threads: 1})
		if err != nil {
			return "", err
		}
		tb := &testing.B{}
		ds := samples(tb, 32)
		tr, err := trainer.New(context.Background(), net(8), trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Seed: 77})
		if err != nil {
			return "", err
		}
		if _, err := weights.Load(context.Background(), path, tr, weights.LoadOptions{}); err != nil {
			return "", err
		}
		return predictions(tb, tr, ds), errors.Join(tr.Close(), dev.Close())
	}()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(hash)
	return true
}

func TestANewProcessPredictsTheSameBits(t *testing.T) {
	ds := samples(t, 32)
	a := made(t, net(8), trainer.Options{Device: devices["cpu"](t)})
	fit(t, a, ds)
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := weights.Save(t.Context(), path, a, weights.SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), childFile+"="+path)
	out, err := c.CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != predictions(t, a, ds) {
		t.Errorf("got %s, %v; want %s", got, err, predictions(t, a, ds))
	}
}

// The weights of the epoch with the lowest validation loss are kept in a file.
func TestTheBestEpochIsRestoredFromItsFile(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		train, valid := samples(t, 32), samples(t, 24)
		tr := made(t, net(8), trainer.Options{Device: dev, Optimizer: optim.SGD{Rate: 2}})
		path := filepath.Join(t.TempDir(), "best.safetensors")
		best, last := 1e9, 0.0
		for range 8 {
			fit(t, tr, train)
			res, err := tr.Evaluate(t.Context(), valid)
			if err != nil {
				t.Fatal(err)
			}
			if last = res.Loss; last < best {
				best = last
				if err := weights.Save(t.Context(), path, tr, weights.SaveOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if last == best {
			t.Fatal("the last epoch is the best: the test shows nothing")
		}
		if _, err := weights.Load(t.Context(), path, tr, weights.LoadOptions{}); err != nil {
			t.Fatal(err)
		}
		res, err := tr.Evaluate(t.Context(), valid)
		if err != nil || res.Loss != best {
			t.Errorf("loss %v, %v; want %v", res.Loss, err, best)
		}
	})
}

// What is saved while another goroutine trains is the state after one of the steps.
func TestWeightsAreSavedFromOneStepWhileTrainingRuns(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 64)
		tr := made(t, net(8), trainer.Options{Device: dev, Batch: 4})
		path := filepath.Join(t.TempDir(), "model.safetensors")
		ctx, stop := context.WithCancel(t.Context())
		var saved sync.WaitGroup
		var count atomic.Int32
		kept := []map[string]string{}
		saved.Go(func() {
			for ctx.Err() == nil {
				if err := weights.Save(context.Background(), path, tr, weights.SaveOptions{}); err != nil {
					t.Error(err)
					return
				}
				kept = append(kept, fileValues(t, path))
				count.Add(1)
			}
		})
		epochs := 0
		for ; epochs < 3 || count.Load() < 3; epochs++ {
			fit(t, tr, ds)
		}
		stop()
		saved.Wait()
		same := made(t, net(8), trainer.Options{Device: dev, Batch: 4})
		after := map[string]bool{fmt.Sprint(values(t, same)): true}
		for range epochs {
			for _, err := range same.Steps(t.Context(), ds) {
				check(t, err)
				after[fmt.Sprint(values(t, same))] = true
			}
		}
		for i, v := range kept {
			if !after[fmt.Sprint(v)] {
				t.Fatalf("file %d of %d has weights of no step", i, len(kept))
			}
		}
	})
}

// fileValues returns the bytes of all tensors of a file.
func fileValues(t testing.TB, path string) map[string]string {
	t.Helper()
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string]string{}
	for _, x := range f.Tensors() {
		b := make([]byte, x.Bytes())
		if err := f.Read(x.Name, b); err != nil {
			t.Fatal(err)
		}
		all[x.Name] = string(b)
	}
	return all
}

func TestLoadingIsRefusedWhileAPassRunsAndWorksInTheBodyOfSteps(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 32)
		path := filepath.Join(t.TempDir(), "model.safetensors")
		var tr *trainer.Trainer
		var during error
		tr = made(t, net(8), trainer.Options{Device: dev, Progress: func(trainer.Progress) {
			_, during = weights.Load(context.Background(), path, tr, weights.LoadOptions{})
		}})
		if err := weights.Save(t.Context(), path, tr, weights.SaveOptions{}); err != nil {
			t.Fatal(err)
		}
		want := values(t, tr)
		fit(t, tr, ds)
		if !errors.Is(during, trainer.ErrBusy) {
			t.Errorf("in Progress: got %v, want ErrBusy", during)
		}
		for step, err := range tr.Steps(t.Context(), ds) {
			if err != nil {
				t.Fatal(err)
			}
			if step.Step != 2 {
				continue
			}
			if _, err := weights.Load(context.Background(), path, tr, weights.LoadOptions{}); err != nil {
				t.Fatal(err)
			}
			if d := differing(values(t, tr), want); d != nil {
				t.Errorf("in the body: %q differ", d)
			}
		}
		if d := differing(values(t, tr), want); len(d) != len(want) {
			t.Errorf("later steps changed only %q", d)
		}
	})
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func TestMistakesOfCallersAreErrors(t *testing.T) {
	dev := devices["cpu"](t)
	tr := made(t, net(8), trainer.Options{Device: dev})
	dir := t.TempDir()
	path := filepath.Join(dir, "model.safetensors")
	check(t, weights.Save(t.Context(), path, tr, weights.SaveOptions{}))
	before := values(t, tr)
	load := func(path string, to weights.Target, opt weights.LoadOptions) error {
		_, err := weights.Load(t.Context(), path, to, opt)
		return err
	}
	closed := made(t, net(8), trainer.Options{Device: dev})
	check(t, closed.Close())
	done, cancel := context.WithCancel(t.Context())
	cancel()
	_, cancelled := weights.Load(done, path, tr, weights.LoadOptions{})
	var none *trainer.Trainer
	for what, c := range map[string]struct{ got, want error }{
		"no file":          {load(path+"x", tr, weights.LoadOptions{}), fs.ErrNotExist},
		"no safetensors":   {load(os.Args[0], tr, weights.LoadOptions{}), safetensors.ErrFormat},
		"a bad only":       {load(path, tr, weights.LoadOptions{Only: []string{"hidden", "hiddem"}}), trainer.ErrOption},
		"a bad except":     {load(path, tr, weights.LoadOptions{Except: []string{"nothing/*"}}), trainer.ErrOption},
		"nil target":       {load(path, nil, weights.LoadOptions{}), trainer.ErrOption},
		"nil trainer":      {load(path, none, weights.LoadOptions{}), trainer.ErrClosed},
		"closed":           {load(path, closed, weights.LoadOptions{}), trainer.ErrClosed},
		"cancelled":        {cancelled, context.Canceled},
		"save closed":      {weights.Save(t.Context(), path, closed, weights.SaveOptions{}), trainer.ErrClosed},
		"save nil":         {weights.Save(t.Context(), path, nil, weights.SaveOptions{}), trainer.ErrOption},
		"save cancelled":   {weights.Save(done, path, tr, weights.SaveOptions{}), context.Canceled},
		"save as integers": {weights.Save(t.Context(), path, tr, weights.SaveOptions{DType: safetensors.Int32}), trainer.ErrOption},
		"save bad shards":  {weights.Save(t.Context(), path, tr, weights.SaveOptions{ShardBytes: -1}), trainer.ErrOption},
		"save bad pattern": {weights.Save(t.Context(), path, tr, weights.SaveOptions{Only: []string{"x"}}), trainer.ErrOption},
		"save no folder":   {weights.Save(t.Context(), filepath.Join(dir, "none", "x"), tr, weights.SaveOptions{}), fs.ErrNotExist},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: got %v, want %v", what, c.got, c.want)
		}
	}
	if d := differing(before, values(t, tr)); d != nil {
		t.Errorf("%q changed", d)
	}
	if d := differing(maps.Collect(maps.All(fileValues(t, path))), before); d != nil {
		t.Errorf("%q changed in the file", d)
	}
}
