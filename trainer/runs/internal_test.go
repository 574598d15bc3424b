package runs

import (
	"io"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/trainer"
)

// Whoever writes slowly loses steps, which are counted: the training never waits.
func TestAFullRingDropsStepsAndCountsThem(t *testing.T) {
	t.Parallel()
	r := &Run{steps: newRing[step](4)}
	r.gate.change = make(chan struct{})
	c := recorder{run: r}
	r.charts, r.recorder.run = newCharts(), r
	for n := range int64(10) {
		r.Progress(trainer.Progress{StepNumber: n + 1})
	}
	if got := r.steps.dropped.Load(); got != 6 {
		t.Errorf("%d steps are dropped, want 6", got)
	}
	c.drain()
	r.Progress(trainer.Progress{StepNumber: 11})
	c.drain()
	var got []float64
	for _, p := range r.charts.series(lossChart, stepSeries).points {
		got = append(got, p.x)
	}
	if len(got) != 5 || got[3] != 4 || got[4] != 11 || r.State().Dropped != 6 {
		t.Errorf("steps %v, %d dropped", got, r.State().Dropped)
	}
}

func TestRecordingAStepAllocatesNothing(t *testing.T) {
	r := &Run{steps: newRing[step](2000)}
	n := int64(0)
	if allocs := testing.AllocsPerRun(1000, func() { n++; r.Progress(trainer.Progress{StepNumber: n, StepNorm: 1}) }); allocs != 0 {
		t.Errorf("Progress makes %v heap objects", allocs)
	}
	if r.steps.dropped.Load() != 0 || r.steps.head.Load() == 0 {
		t.Error("no step was recorded")
	}
}

// A series is bounded, begins with its first point and ends with its latest one.
func TestASeriesIsBounded(t *testing.T) {
	t.Parallel()
	s := newCharts().series(lossChart, stepSeries)
	for n := 1; n <= 10*chartPoints+7; n++ {
		s.add(point{float64(n), 0})
		all := s.all()
		if len(all) > chartPoints+1 || all[0].x != 1 || all[len(all)-1].x != float64(n) {
			t.Fatalf("after %d points: %d, from %v to %v", n, len(all), all[0].x, all[len(all)-1].x)
		}
	}
	s.cut(5000)
	if all := s.all(); all[len(all)-1].x >= 5000 || all[len(all)-1].x < 4980 {
		t.Errorf("cut at 5000 leaves %v", all[len(all)-1].x)
	}
	s.add(point{4000, 1}) // a restored training
	if all := s.all(); all[len(all)-1] != (point{4000, 1}) || all[len(all)-2].x >= 4000 {
		t.Errorf("after a step back: %v", all[len(all)-2:])
	}
}

// An error is logged once, of the pictures as of the numbers.
func TestAnErrorOfTheFilesIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	c := recorder{run: &Run{log: slog.New(slog.NewTextHandler(&log, nil))}}
	c.files.pictures = io.ErrShortWrite
	c.report()
	c.report()
	c.files.err = io.ErrClosedPipe
	c.report()
	c.report()
	if n := strings.Count(log.String(), "level=ERROR"); n != 2 || c.run.state.Error != io.ErrClosedPipe.Error() {
		t.Errorf("%d lines, %q", n, c.run.state.Error)
	}
}

// Rows are read as they were written.
func TestARowIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	c := newCharts()
	r := row{step: 3, epoch: 1, seconds: 1.5, values: []value{{c.series(lossChart, "step"), math.Inf(1)}, {c.series(lossChart, "a \"/\n"), -1e-30},
		{c.series(rateChart, ""), 0}, {c.series(normChart, ""), 1e300}, {c.series(hostChart, "x"), 123456789012}}}
	text := r.append(nil)
	var got row
	if err := got.parse(text, c); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if got.step != 3 || got.epoch != 1 || got.seconds != 1.5 || len(got.values) != len(r.values) {
		t.Errorf("got %+v", got)
	}
	for i, v := range got.values {
		if v != r.values[i] {
			t.Errorf("value %d: got %v, want %v", i, v.v, r.values[i].v)
		}
	}
	for _, bad := range []string{"", "[]", "{", `{"loss":1}`, `{"step":1,"loss":{}}`, `{"step":1`} {
		if err := got.parse([]byte(bad), c); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
