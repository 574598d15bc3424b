package main

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/group"
)

// slow is a link whose times are easy to add: 1 ms a message, 1 MB/s.
var slow = link{"slow", 1e-3, 1e6}

func TestSumsTakeTheTimeOfTheirMessages(t *testing.T) {
	for _, c := range []struct {
		a     algorithm
		ranks int
		want  float64 // ms, of 8,000 bytes
	}{
		{ring, 1, 0}, {tree, 1, 0},
		{ring, 2, 2*1 + 8}, {ring, 4, 6*1 + 12}, {ring, 8, 14*1 + 14},
		{tree, 2, 2*1 + 16}, {tree, 5, 6*1 + 16}, {tree, 8, 6*1 + 16},
	} {
		if got := 1e3 * c.a.seconds(slow, c.ranks, 8000); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s of %d ranks: %v ms, want %v", c.a, c.ranks, got, c.want)
		}
	}
}

func TestSumsOverlapTheBackwardPass(t *testing.T) {
	s := step{Compute: 0.1, Backward: 0.09, Buckets: []bucket{{8000, 0.05}, {8000, 0.055}, {48000, 0.088}}}
	agree := 2*1e-3 + 4e-6
	for name, c := range map[string]struct {
		m              machine
		ranks          int
		total, exposed float64
	}{
		// 50 to 60 ms, 60 to 70 ms, 88 to 138 ms; agreement; update of 10 ms.
		"overlapped": {machine{alone: true}, 2, 0.138 + agree + 0.01, 0.048 + agree},
		// Sums of 10, 10 and 50 ms, on the cores that compute.
		"not overlapped": {machine{}, 2, 0.17 + agree, 0.07 + agree},
		"enough cores":   {machine{cores: 2}, 2, 0.17 + agree, 0.07 + agree},
		// 4 ranks on 2 cores: all takes twice as long; sums of 6 + 12, 6 + 12 and 6 + 72 ms.
		"shared": {machine{cores: 2}, 4, 2 * (0.1 + 0.114 + 6e-3 + 6e-6), 2 * (0.114 + 6e-3 + 6e-6)},
	} {
		total, exposed := s.predict(slow, ring, c.ranks, c.m)
		if math.Abs(total-c.total) > 1e-9 || math.Abs(exposed-c.exposed) > 1e-9 {
			t.Errorf("%s: %v s, %v exposed; want %v, %v", name, total, exposed, c.total, c.exposed)
		}
	}
	e := even(0.3, 10e6, 2e6)
	if len(e.Buckets) != 5 || e.bytes() != 10e6 || math.Abs(e.Buckets[4].Ready-0.3) > 1e-9 || math.Abs(e.Buckets[0].Ready-0.14) > 1e-9 {
		t.Errorf("even buckets: %+v", e)
	}
}

// delayed is a lone rank on a link: its sums take as long as those of a number of ranks on it, one after the other, beside compute.
type delayed struct {
	*lone
	link link
	free time.Time // the end of the last sum
}

func (d *delayed) Prepare(op group.Op) (group.Operation, error) {
	o, err := d.lone.Prepare(op)
	return &delayedOp{o, d, op, time.Time{}}, err
}

// delayedOp is a sum of a delayed rank.
type delayedOp struct {
	group.Operation
	d    *delayed
	op   group.Op
	ends time.Time
}

func (o *delayedOp) Start() error {
	now := time.Now()
	if now.Before(o.d.free) {
		now = o.d.free
	}
	o.ends = now.Add(time.Duration(1e9 * ring.seconds(o.d.link, o.d.size, float64(len(o.op.Data)))))
	o.d.free = o.ends
	return o.Operation.Start()
}

func (o *delayedOp) Wait() error {
	time.Sleep(time.Until(o.ends))
	return o.Operation.Wait()
}

// A step over a link of known speed takes the time that is predicted from a step without communication: never less, and a fast one
// not much more.
func TestAStepOverASlowLinkTakesThePredictedTime(t *testing.T) {
	f := small
	f.ranks, f.epochs = 4, 1
	l := link{"slow", 0.5e-3, 100e6}
	s, err := f.profile(context.Background(), "w1")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Buckets) != 2 || s.Buckets[1].Bytes < 4*parameters || s.Buckets[1].Bytes > 4.1*parameters { // results, and one bucket
		t.Fatalf("buckets %+v", s.Buckets)
	}
	want, exposed := s.predict(l, ring, f.ranks, machine{alone: true})
	r, err := f.train(context.Background(), "w1", 1, &delayed{lone: &lone{size: f.ranks, sums: map[string]*loneSum{}}, link: l})
	if err != nil {
		t.Fatal(err)
	}
	if r.Step < 0.95*exposed || r.Step > 3*want { // other programs make steps slower
		t.Errorf("a step takes %v s, predicted %v, of which %v are communication", r.Step, want, exposed)
	}
}

func TestPredictionsAreTables(t *testing.T) {
	f := small
	f.predict, f.links, f.compute, f.bytes = true, "a=1ms/1e9,b=1µs/1e10", 100*time.Millisecond, 40e6
	f.mpirun, _ = program(t, `case "$*" in *-predict*) echo '{"name": "some MPI", "latency": 1e-6, "bandwidth": 1e9}' ;; *) echo '{"rate": 10, "step": 0.001}' ;; esac`)
	var out strings.Builder
	if err := f.run(t.Context(), &out, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"local, 2 ranks: a message of ", "some MPI, 2 ranks: a message of 1 µs, 1 GB/s\n", "| w1 | 2 | local | ", "| w1 | 2 | some MPI | ", " | 1 ms | ",
		"Each rank computes 100 ms a step, and sums 40 MB in 10 buckets.\n", "| ranks | a, ring | a, tree | b, ring | b, tree |\n|---:|---:|---:|---:|---:|\n| 8 | ", "\n| 1024 | ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	for _, links := range []string{"", "a", "a=1ms", "a=1ms/", "a=0s/1", "a=1ms/0", "a=1/1"} {
		if _, err := parseLinks(links); err == nil {
			t.Errorf("links %q: no error", links)
		}
	}
}
