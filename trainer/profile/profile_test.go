package profile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/evenkeel/evenkeel/trainer/profile"
)

const ms = time.Millisecond

// event returns an event from begin to end, in milliseconds.
func event(kind profile.Kind, track, layer, op string, begin, end time.Duration, flops, bytes int64) profile.Event {
	return profile.Event{Kind: kind, Process: "device", Track: track, Name: op + " of " + layer, Layer: layer, Op: op, Step: 1,
		Flops: flops, Bytes: bytes, Begin: begin * ms, End: end * ms}
}

// measured is a profile of a device whose peak is 1 GFLOP/s, 1 GB/s in memory and 0.1 GB/s on the bus:
//
//	compute │ matmul 0-10 ├ relu 12-14 ┤ await 20-24 ┤ sgd 24-30
//	copy    │     upload 5-13 ┤                download 28-32
//	sums    │                 a 13-23
//	        │                     b 15-22
func measured() *profile.Profile {
	return profile.New("cpu", 2, profile.Peak{Flops: 1e9, Bytes: 1e9, Bus: 1e8}, []profile.Event{
		event(profile.Sum, "sums", "dense", "all_reduce", 15, 22, 0, 100),
		event(profile.Compute, "compute", "dense", "sgd", 24, 30, 0, 3e6),
		event(profile.Copy, "copy", "other", "download", 28, 32, 0, 1e5),
		event(profile.Compute, "compute", "dense", "matmul", 0, 10, 5e6, 1e6),
		event(profile.Compute, "compute", "act", "relu", 12, 14, 1e6, 2e6),
		event(profile.Wait, "compute", "dense", "await", 20, 24, 0, 0),
		event(profile.Copy, "copy", "batch", "upload", 5, 13, 0, 8e5),
		event(profile.Sum, "sums", "dense", "all_reduce", 13, 23, 0, 100),
		event(profile.Worker, "worker 1", "dense", "matmul", 0, 9, 0, 0),
		event(profile.Fetch, "loader 0", "", "rows", 0, 50, 0, 0),
	})
}

func TestOverlapIsThatOfIntervals(t *testing.T) {
	p := measured()
	for _, c := range []struct {
		what      string
		got, want time.Duration
	}{
		{"compute", p.Compute, 18}, {"busy", p.Busy, 14 + 12}, {"elapsed", p.Elapsed, 32},
		{"copies", p.Copies.Total, 12}, {"hidden copies", p.Copies.Hidden, 5 + 1 + 2},
		{"sums", p.Sums.Total, 10}, {"hidden sums", p.Sums.Hidden, 1},
	} {
		if c.got != c.want*ms {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want*ms)
		}
	}
	if p.Sums.Share() != 0.1 || (profile.Overlap{}).Share() != 0 {
		t.Errorf("share of hidden sums is %v, want 0.1", p.Sums.Share())
	}
}

func TestRowsAreTheTimeOfTheDevice(t *testing.T) {
	p := measured()
	want := []profile.Cost{
		{Name: "dense", Calls: 3, Time: 20 * ms, Ideal: 8 * ms, Flops: 5e6, Bytes: 4e6},
		{Name: "batch", Calls: 1, Time: 8 * ms, Ideal: 8 * ms, Bytes: 8e5},
		{Name: "other", Calls: 1, Time: 4 * ms, Ideal: 1 * ms, Bytes: 1e5},
		{Name: "act", Calls: 1, Time: 2 * ms, Ideal: 2 * ms, Flops: 1e6, Bytes: 2e6},
	}
	if !slices.Equal(p.Layers, want) {
		t.Errorf("layers\n%+v, want\n%+v", p.Layers, want)
	}
	var sum time.Duration
	for _, c := range p.Operations {
		sum += c.Time
	}
	if len(p.Operations) != 6 || sum != p.Total.Time || sum != 34*ms {
		t.Errorf("%d operations of %v, the total is %v", len(p.Operations), sum, p.Total.Time)
	}
	dense := p.Layers[0]
	if dense.FlopRate() != 2.5e8 || dense.ByteRate() != 2e8 || dense.Roofline() != 0.4 {
		t.Errorf("rates %v, %v, %v", dense.FlopRate(), dense.ByteRate(), dense.Roofline())
	}
}

func TestTheTextHas80Columns(t *testing.T) {
	p := measured()
	p.Layers[0].Name = "a layer with a very long name/and more of it"
	text := p.String()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{
		"2 steps on cpu, 16.000 ms a step; the device is idle for 18.8 % of it\n",
		"copies: 6.000 ms a step, 67 % of it hidden behind compute\n",
		"sums over ranks: 5.000 ms a step, 10 % of it hidden behind compute\n",
		"\n…y long name/and more of it ",
		"total                          3.00    17.000 100.0 %      0.18    0.20   55.9 %\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// traced is the parts of Chrome's format that the check needs.
type traced struct {
	DisplayTimeUnit string
	TraceEvents     []struct {
		Name, Cat, Ph string
		ID, Pid, Tid  int
		Ts            *float64
		Dur           float64
		Args          map[string]any
	}
}

// A trace is what the "Trace Event Format" demands, and nothing is lost.
func TestATraceIsInChromesFormat(t *testing.T) {
	p := measured()
	var b bytes.Buffer
	if err := p.WriteTrace(&b); err != nil {
		t.Fatal(err)
	}
	var tr traced
	d := json.NewDecoder(&b)
	d.DisallowUnknownFields()
	if err := d.Decode(&tr); err != nil {
		t.Fatal(err)
	}
	named, open, ends, complete := map[[2]int]string{}, map[int]float64{}, map[[2]int]float64{}, 0
	for _, e := range tr.TraceEvents {
		place := [2]int{e.Pid, e.Tid}
		if e.Ph == "M" {
			named[place], _ = e.Args["name"].(string)
			continue
		}
		if e.Name == "" || e.Cat == "" || e.Ts == nil || named[place] == "" || named[[2]int{e.Pid, 0}] != "device cpu" {
			t.Errorf("event %+v of track %q", e, named[place])
			continue
		}
		switch e.Ph {
		case "X":
			complete++
			if *e.Ts < ends[place] || e.Dur <= 0 {
				t.Errorf("%q begins at %v, when another event of its track is in progress until %v", e.Name, *e.Ts, ends[place])
			}
			ends[place] = *e.Ts + e.Dur
		case "b":
			open[e.ID] = *e.Ts
		case "e":
			if begin, ok := open[e.ID]; !ok || *e.Ts < begin {
				t.Errorf("%q ends and has not begun", e.Name)
			}
			delete(open, e.ID)
		default:
			t.Errorf("phase %q", e.Ph)
		}
		if e.Name == "matmul of dense" && e.Cat == "compute" && (e.Args["GFLOP/s"] != 0.5 || e.Args["roofline %"] != 50.0 || e.Dur != 10000) {
			t.Errorf("arguments %v of %v µs", e.Args, e.Dur)
		}
	}
	if complete != len(p.Events)-2 || len(open) != 0 {
		t.Errorf("%d complete events and %d sums that do not end, want %d and 0", complete, len(open), len(p.Events)-2)
	}
}

// full is a writer that fails after some bytes.
type full struct{ left int }

var errFull = errors.New("disk full")

func (f *full) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestAnErrorOfTheWriterIsThatOfTheTrace(t *testing.T) {
	p := measured()
	for range 200 {
		p.Events = append(p.Events, p.Events[0])
	}
	for _, left := range []int{0, 5000} {
		if err := p.WriteTrace(&full{left}); !errors.Is(err, errFull) {
			t.Errorf("after %d bytes: %v", left, err)
		}
	}
}
