package flight_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/flat"
	"github.com/evenkeel/evenkeel/trainer/flight"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

var _ flat.Dumper = (*flight.Recorder)(nil)

// watched returns a trainer whose steps rec records, and its data: 8 batches.
func watched(t testing.TB, rec *flight.Recorder, x []float32) (*trainer.Trainer, dataloader.Dataset) {
	t.Helper()
	dev, err := cpu.Open(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	ds, err := dataloader.FromSlices(64, dataloader.Column("x", x, 4), dataloader.Column("y", make([]uint8, 64)))
	if err != nil {
		t.Fatal(err)
	}
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 4)
		return net.Classifier(x, net.Dense(x, "out", 3, nil))
	}
	tr, err := trainer.New(t.Context(), model, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Progress: rec.Progress,
		Sequential: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(tr.Close(), dev.Close()); err != nil {
			t.Error(err)
		}
	})
	rec.Watch(tr)
	return tr, ds
}

func TestARecorderKeepsTheLastSteps(t *testing.T) {
	rec := flight.New(5)
	tr, ds := watched(t, rec, make([]float32, 64*4))
	if all := rec.Records(); len(all) != 0 {
		t.Errorf("%d records before the first step", len(all))
	}
	var losses []float64
	for s, err := range tr.Steps(t.Context(), ds) {
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, s.Loss)
	}
	all, stats := rec.Records(), tr.Stats()
	if len(all) != 5 {
		t.Fatalf("%d records, want 5", len(all))
	}
	for i, r := range all {
		if want := int64(4 + i); r.Number != want || r.Step != int(want) || r.Loss != losses[want-1] || !math.IsNaN(r.Norm) ||
			r.Arena != stats.Arena.InUse || r.Arena == 0 || r.Uploaded == 0 || i > 0 && (r.At < all[i-1].At || r.Uploaded <= all[i-1].Uploaded) {
			t.Errorf("record %d: %+v, want that of step %d", i, r, want)
		}
	}
}

func TestARecorderIsBounded(t *testing.T) {
	rec := flight.New(math.MaxInt)
	for i := range 3 {
		rec.Progress(trainer.Progress{Step: i + 1})
	}
	if n := len(rec.Records()); n != 3 {
		t.Errorf("%d records, want 3", n)
	}
}

func TestWatchingNothingEndsWatching(t *testing.T) {
	rec := flight.New(0)
	watched(t, rec, make([]float32, 64*4))
	rec.Progress(trainer.Progress{})
	rec.Watch(nil)
	rec.Progress(trainer.Progress{})
	if all := rec.Records(); all[0].Arena == 0 || all[1].Arena != 0 {
		t.Errorf("%d bytes before and %d after", all[0].Arena, all[1].Arena)
	}
	var b strings.Builder
	if err := rec.Dump(&b, "because"); err != nil || strings.Contains(b.String(), "owners") {
		t.Errorf("%v, %s", err, &b)
	}
}

func TestATextIsOneLineOfADump(t *testing.T) {
	rec := flight.New(0)
	rec.Progress(trainer.Progress{Objective: "a\nb"})
	var b strings.Builder
	if err := rec.Dump(&b, errors.Join(errors.New("first"), errors.New("second")).Error()+"\r\nthird\n"); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); strings.Count(text, "\n") != 4 || !strings.HasPrefix(text, "flight recorder: first; second; third\n") || !strings.HasSuffix(text, "  a; b\n") {
		t.Errorf("got\n%s", text)
	}
}

func TestARecordAllocatesNothing(t *testing.T) {
	rec := flight.New(0)
	watched(t, rec, make([]float32, 64*4))
	if n := testing.AllocsPerRun(600, func() { rec.Progress(trainer.Progress{Objective: "a", StepNumber: 1}) }); n != 0 {
		t.Errorf("%v heap objects a step", n)
	}
	if n := len(rec.Records()); n != 256 {
		t.Errorf("%d records, want 256", n)
	}
}

// dump returns what is dumped of a training whose fifth batch is not finite.
func dump(t *testing.T, write func(rec *flight.Recorder, b *bytes.Buffer, err error) error) string {
	t.Helper()
	x := make([]float32, 64*4)
	x[4*8*4] = float32(math.NaN())
	rec := flight.New(0)
	tr, ds := watched(t, rec, x)
	_, err := tr.Fit(t.Context(), ds)
	if !errors.Is(err, trainer.ErrNonFinite) {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := write(rec, &b, err); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestADumpHasStepsAndOwners(t *testing.T) {
	text := dump(t, func(rec *flight.Recorder, b *bytes.Buffer, err error) error { return rec.Dump(b, err.Error()) })
	for _, want := range []string{"flight recorder: train epoch 0: step 4", "\n4 steps, the last 4:\n", "owners of device memory", "  out\n", "  (no layer)\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "\n"); n < 3+4+3 {
		t.Errorf("%d lines:\n%s", n, text)
	}
}

func TestADumpIsJSON(t *testing.T) {
	text := dump(t, func(rec *flight.Recorder, b *bytes.Buffer, err error) error { return rec.JSON(b, "because") })
	var d struct {
		Cause   string
		Steps   int
		Records []map[string]any
		Owners  []struct {
			Layer string
			Bytes int64
		}
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	if d.Cause != "because" || d.Steps != 4 || len(d.Records) != 4 || len(d.Owners) < 2 || d.Owners[len(d.Owners)-1].Bytes <= 0 {
		t.Errorf("got %+v", d)
	}
	for i, r := range d.Records {
		if norm, ok := r["norm"]; r["number"] != float64(i+1) || norm != nil || !ok || r["loss"] == nil || r["arena_bytes"] == 0.0 {
			t.Errorf("record %v", r)
		}
	}
}

func TestAPanicIsDumpedAndGoesOn(t *testing.T) {
	rec := flight.New(0)
	tr, ds := watched(t, rec, make([]float32, 64*4))
	var b bytes.Buffer
	cause := errors.New("out of ideas")
	var got any
	func() {
		defer func() { got = recover() }()
		func() {
			defer rec.Guard(&b)
			for range tr.Steps(context.Background(), ds) {
				panic(cause)
			}
		}()
	}()
	if got != cause || !strings.Contains(b.String(), "flight recorder: panic: out of ideas\n1 steps, the last 1:") {
		t.Errorf("panic with %v, dumped\n%s", got, &b)
	}
	b.Reset()
	func() { defer rec.Guard(&b) }()
	if b.Len() > 0 {
		t.Errorf("dumped without a panic: %s", &b)
	}
}

func ExampleRecorder_Dump() {
	rec := flight.New(2)
	for i := range 3 {
		rec.Progress(trainer.Progress{Step: i + 1, StepNumber: int64(i + 1), StepLoss: 1 / float64(i+1), StepNorm: 2, StepRate: 0.1})
	}
	for _, r := range rec.Records() {
		fmt.Println(r.Number, r.Loss)
	}
	// Output:
	// 2 0.5
	// 3 0.3333333333333333
}
