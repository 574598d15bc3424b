package loop_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/loop"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var nan = math.NaN()

// line is y = w·x, which the data have for w = 2.
func line(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 1)
	return net.Regressor(x, net.Mul(x, net.Param("line/w", layers.Zeros{}, 1, 1), "out"))
}

func data(t testing.TB, n int) *dataloader.Slices {
	x, y := make([]float32, n), make([]float32, n)
	for i := range x {
		x[i] = float32(i%3) + 1
		y[i] = 2 * x[i]
	}
	ds, err := dataloader.FromSlices(n, dataloader.Column("x", x, 1), dataloader.Column("y", y, 1))
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

// each runs a test with a trainer of line, in batches of 2, on every device.
func each(t *testing.T, opt trainer.Options, test func(t *testing.T, tr *trainer.Trainer)) {
	for name, open := range map[string]func() kernels.Device{
		"cpu": func() kernels.Device { return cputest.OpenChecked(t, cpu.Options{Threads: 1}) },
		"emu": func() kernels.Device { return emutest.OpenChecked(t, emu.Options{Seed: 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			opt.Device, opt.Batch = open(), 2
			tr, err := trainer.New(t.Context(), line, opt)
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			test(t, tr)
		})
	}
}

// numbers returns the numbers of steps, and their error.
func numbers(steps loop.Steps) (all []int64, err error) {
	for s, err := range steps {
		if err != nil {
			return all, err
		}
		all = append(all, s.Number)
	}
	return all, nil
}

func TestEpochsAreOneLoop(t *testing.T) {
	each(t, trainer.Options{}, func(t *testing.T, tr *trainer.Trainer) {
		ds := data(t, 5)
		got, err := numbers(loop.Epochs(t.Context(), tr, ds, 2))
		if err != nil || !slices.Equal(got, []int64{1, 2, 3, 4, 5, 6}) {
			t.Errorf("got %v, %v", got, err)
		}
		for s, err := range loop.Epochs(t.Context(), tr, ds, 9) {
			if err != nil {
				t.Fatal(err)
			}
			if s.Step == 3 {
				break
			}
		}
		if n := tr.Stats().Epochs; n != 3 {
			t.Errorf("%d epochs have begun, want 3", n)
		}
		if got, err := numbers(loop.Epochs(t.Context(), tr, ds, 0)); got != nil || err != nil {
			t.Errorf("no epochs: got %v, %v", got, err)
		}
		done, cancel := context.WithCancel(t.Context())
		cancel()
		if got, err := numbers(loop.Epochs(done, tr, ds, 3)); got != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: got %v, %v", got, err)
		}
	})
}

func TestUntilCountsEpochsThatWereTrainedBefore(t *testing.T) {
	each(t, trainer.Options{Checkpoint: true}, func(t *testing.T, tr *trainer.Trainer) {
		ds := data(t, 5)
		until := loop.Until(t.Context(), tr, ds, 3)
		if _, err := tr.Fit(t.Context(), ds); err != nil {
			t.Fatal(err)
		}
		var state *trainer.State
		for s, err := range until {
			if err != nil {
				t.Fatal(err)
			}
			if s.Number == 5 {
				if state, err = tr.Capture(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := tr.Stats().Steps; n != 9 {
			t.Errorf("%d steps, want 9", n)
		}
		if _, err := tr.Restore(t.Context(), state.Source(), trainer.RestoreOptions{}); err != nil {
			t.Fatal(err)
		}
		state.Release()
		if got, err := numbers(until); err != nil || !slices.Equal(got, []int64{6, 7, 8, 9}) { // ranged over again
			t.Errorf("after a restore: got %v, %v", got, err)
		}
		if got, err := numbers(until); got != nil || err != nil {
			t.Errorf("at the end: got %v, %v", got, err)
		}
		done, cancel := context.WithCancel(t.Context())
		cancel()
		if got, err := numbers(loop.Until(done, tr, ds, 5)); got != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: got %v, %v", got, err)
		}
	})
}

func TestALimitEndsTheLoopWithoutAnError(t *testing.T) {
	each(t, trainer.Options{}, func(t *testing.T, tr *trainer.Trainer) {
		ds := data(t, 6)
		for _, limit := range []time.Duration{0, -time.Second} {
			if got, err := numbers(loop.Within(loop.Epochs(t.Context(), tr, ds, 1), limit)); got != nil || err != nil {
				t.Errorf("limit %v: got %v, %v", limit, got, err)
			}
		}
		if n := tr.Stats().Epochs; n != 0 {
			t.Errorf("%d epochs have begun, want 0", n)
		}
		if got, err := numbers(loop.Within(loop.Epochs(t.Context(), tr, ds, 1), time.Nanosecond)); len(got) != 1 || err != nil {
			t.Errorf("a limit that has passed during the first step: got %v, %v", got, err)
		}
		if got, err := numbers(loop.Within(loop.Epochs(t.Context(), tr, ds, 2), time.Hour)); len(got) != 6 || err != nil {
			t.Errorf("an hour: got %v, %v", got, err)
		}
		if _, err := tr.Fit(t.Context(), ds); err != nil {
			t.Error(err)
		}
	})
}

func TestEvaluationsFollowSteps(t *testing.T) {
	each(t, trainer.Options{Optimizer: optim.SGD{Rate: 0.01}}, func(t *testing.T, tr *trainer.Trainer) {
		ds := data(t, 10)
		before := math.Inf(1)
		run := func(every int) (at []int64) {
			first := tr.Stats().Updates
			for e, err := range loop.Evaluations(t.Context(), tr, loop.Epochs(t.Context(), tr, ds, 1), ds, every) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Result.Samples != 10 || !(e.Result.Loss < before) {
					t.Errorf("after step %d: %+v, loss before %v", e.Step.Number, e.Result, before)
				}
				before = e.Result.Loss
				at = append(at, e.Step.Number-first)
			}
			return at
		}
		if got := run(5); !slices.Equal(got, []int64{5}) {
			t.Errorf("every 5 steps: after %v", got)
		}
		if got := run(0); !slices.Equal(got, []int64{5}) {
			t.Errorf("every 0 steps: after %v", got)
		}
		if got := run(2); !slices.Equal(got, []int64{2, 4, 5}) { // numbers 12, 14 and the last one, 15
			t.Errorf("every 2 steps: after %v", got)
		}
		other, err := dataloader.FromSlices(1, dataloader.Column("z", []float32{1}))
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range loop.Evaluations(t.Context(), tr, loop.Epochs(t.Context(), tr, ds, 1), other, 1) {
			if !errors.Is(err, trainer.ErrData) {
				t.Errorf("got %v, want one error about the data", err)
			}
		}
		if _, err := tr.Fit(t.Context(), ds); err != nil {
			t.Error(err)
		}
	})
}

func TestEarlyStopsAndRestoresTheBest(t *testing.T) {
	each(t, trainer.Options{Optimizer: optim.SGD{Rate: 0.01}}, func(t *testing.T, tr *trainer.Trainer) {
		weights, err := loop.NewWeights(tr)
		if err != nil || weights.Bytes() != 4 || weights.Kept() {
			t.Fatalf("%v; %d bytes, kept %v", err, weights.Bytes(), weights.Kept())
		}
		if err := weights.Restore(); err != nil {
			t.Errorf("nothing kept: %v", err)
		}
		ds := data(t, 6)
		early := loop.Early{Patience: 1, Weights: weights}
		var best float64
		for i, fake := range []float64{3, 2, nan, 2} { // the second one is the best
			if _, err := tr.Fit(t.Context(), ds); err != nil {
				t.Fatal(err)
			}
			res, err := tr.Evaluate(t.Context(), ds)
			if err != nil {
				t.Fatal(err)
			}
			if i == 1 {
				best = res.Loss
			}
			stop, err := early.Add(fake)
			if err != nil || stop != (i == 3) {
				t.Errorf("result %d: stop %v, %v", i, stop, err)
			}
		}
		if v, n := early.Best(); v != 2 || n != 2 {
			t.Errorf("best is %v of result %d", v, n)
		}
		if err := weights.Restore(); err != nil {
			t.Fatal(err)
		}
		if res, err := tr.Evaluate(t.Context(), ds); err != nil || res.Loss != best {
			t.Errorf("the loss is %v, %v; the best was %v", res.Loss, err, best)
		}
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
		if err := weights.Keep(); !errors.Is(err, trainer.ErrClosed) || weights.Kept() {
			t.Errorf("after Close: %v, kept %v", err, weights.Kept())
		}
		if _, err := loop.NewWeights(tr); !errors.Is(err, trainer.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestPatience(t *testing.T) {
	for _, c := range []struct {
		early  loop.Early
		values []float64
		stop   int // index; -1: never
		best   float64
		at     int
	}{
		{loop.Early{}, []float64{2, 1, 1}, 2, 1, 2},
		{loop.Early{}, []float64{nan}, 0, nan, 0},
		{loop.Early{Patience: 1}, []float64{nan, 5, nan, 4, 4, 4}, 5, 4, 4},
		{loop.Early{Patience: -1}, []float64{1, 2, 3, nan}, -1, 1, 1},
		{loop.Early{Larger: true}, []float64{1, 2, 3, 3}, 3, 3, 3},
		{loop.Early{MinDelta: 0.5}, []float64{2, 1.4, 1}, 2, 1.4, 2},
		{loop.Early{}, []float64{math.Inf(1), 3}, -1, 3, 2},
	} {
		e, stopped := c.early, -1
		for i, v := range c.values {
			if stop, err := e.Add(v); err != nil {
				t.Fatal(err)
			} else if stop && stopped < 0 {
				stopped = i
			}
		}
		v, n := e.Best()
		if stopped != c.stop || n != c.at || v != c.best && !(math.IsNaN(v) && math.IsNaN(c.best)) {
			t.Errorf("%+v of %v: stopped at %d, best %v at %d", c.early, c.values, stopped, v, n)
		}
	}
}

func TestTopDropsTheWorst(t *testing.T) {
	top := loop.Top{K: 2}
	for i, c := range []struct {
		value   float64
		name    string
		kept    bool
		dropped string
	}{{3, "a", true, ""}, {nan, "b", false, ""}, {1, "c", true, ""}, {2, "d", true, "a"}, {2, "e", false, ""}, {0, "f", true, "d"}} {
		if kept, dropped := top.Add(c.value, c.name); kept != c.kept || dropped != c.dropped {
			t.Errorf("%d: kept %v, dropped %q", i, kept, dropped)
		}
	}
	if got := top.Ranked(); !slices.Equal(got, []loop.Ranked{{0, "f"}, {1, "c"}}) {
		t.Errorf("got %v", got)
	}
	if kept, _ := (&loop.Top{}).Add(1, "a"); kept {
		t.Error("a list of none keeps one")
	}
}

func TestAPlateauLowersTheRate(t *testing.T) {
	p, err := loop.NewPlateau(loop.Drop{Factor: 0.5, Patience: 1, Floor: 0.2, Then: optim.Step{Every: 1, Factor: 0.1}})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		value, factor float64
		lowered       bool
	}{{5, 1, false}, {nan, 1, false}, {5, 0.5, true}, {6, 0.5, false}, {4, 0.5, false}, {4, 0.5, false}, {4, 0.25, true}, {9, 0.25, false}, {9, 0.2, true}, {9, 0.2, false}, {9, 0.2, false}} {
		if lowered := p.Add(c.value); lowered != c.lowered || p.Factor() != c.factor {
			t.Errorf("result %d: lowered %v, factor %v", i, lowered, p.Factor())
		}
	}
	if r := p.Rate(10, 2); math.Abs(r-0.2) > 1e-15 {
		t.Errorf("rate %v, want 10·0.1·0.2", r)
	}
	_, err = loop.NewPlateau(loop.Drop{Factor: 1, Patience: -1, MinDelta: nan, Floor: 2, Then: optim.Cosine{}})
	for _, want := range []string{"Factor", "Patience", "MinDelta", "Floor", "cosine"} {
		if !errors.Is(err, optim.ErrOption) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A plateau with the state of another one lowers the rate after the same results.
func TestAPlateausStateIsAllThatItsRatesDependOn(t *testing.T) {
	made := func() *loop.Plateau {
		then, err := loop.NewPlateau(loop.Drop{Patience: 2})
		if err != nil {
			t.Fatal(err)
		}
		p, err := loop.NewPlateau(loop.Drop{Factor: 0.5, Patience: 1, MinDelta: 0.1, Then: optim.Warmup{Steps: 1, Then: then}})
		if err != nil {
			t.Fatal(err)
		}
		then.Add(1)
		return p
	}
	values := []float64{math.Inf(1), 5, nan, 4.95, 5, 4, 4.2, 4.1, 3, 4, 4}
	for cut := range values {
		p, q := made(), made()
		for _, v := range values[:cut] {
			p.Add(v)
		}
		state, err := p.State()
		if err != nil {
			t.Fatal(err)
		}
		q.Add(1)
		if err := q.SetState(state); err != nil {
			t.Fatal(err)
		}
		for i, v := range values[cut:] {
			if a, b := p.Add(v), q.Add(v); a != b || p.Rate(1, 3) != q.Rate(1, 3) {
				t.Errorf("cut at %d, result %d: lowered %v and %v, rates %v and %v", cut, i, a, b, p.Rate(1, 3), q.Rate(1, 3))
			}
		}
		state, _ = p.State()
		for _, bad := range []string{"", "{}", "[]", strings.Replace(string(state), `"best":"`, `"best":"x`, 1), strings.Replace(string(state), `"waited":`, `"waited":9`, 1),
			strings.Replace(string(state), `"factor":`, `"factor":-1`, 1), strings.Replace(string(state), `"at":`, `"at":99`, 1),
			strings.Replace(string(state), `"then":[{"factor":`, `"then":[{"factor":-`, 1), strings.Replace(string(state), `"then"`, `"other"`, 1)} {
			if err := q.SetState([]byte(bad)); !errors.Is(err, optim.ErrOption) {
				t.Errorf("state %s: got %v, want ErrOption", bad, err)
			}
			if now, _ := q.State(); string(now) != string(state) {
				t.Errorf("after state %s: %s, want %s", bad, now, state)
			}
		}
	}
}

// A trainer takes the rates of a plateau.
func TestAPlateauIsASchedule(t *testing.T) {
	p, err := loop.NewPlateau(loop.Drop{})
	if err != nil {
		t.Fatal(err)
	}
	each(t, trainer.Options{Optimizer: optim.SGD{Rate: 0.01}, Schedule: p}, func(t *testing.T, tr *trainer.Trainer) {
		p.SetFactor(1)
		for s, err := range tr.Steps(t.Context(), data(t, 6)) {
			if err != nil {
				t.Fatal(err)
			}
			if want := 0.01 * math.Pow(0.1, float64(s.Step-1)); math.Abs(s.Rate-want) > 1e-15 {
				t.Errorf("step %d: rate %v, want %v", s.Step, s.Rate, want)
			}
			p.SetFactor(p.Factor() / 10)
		}
	})
}

func TestNormsOfAWindow(t *testing.T) {
	l := loop.NewNorms(3)
	if !math.IsNaN(l.Quantile(0.5)) {
		t.Error("no norms have a median")
	}
	for _, n := range []float64{9, nan, 1, 4, 3} { // 9 has left the window
		l.Add(trainer.Step{Norm: n})
	}
	if l.Quantile(0) != 1 || l.Quantile(0.5) != 3 || l.Quantile(1) != 4 || l.Count() != 4 || !math.IsNaN(l.Quantile(2)) {
		t.Errorf("quantiles %v %v %v of %d", l.Quantile(0), l.Quantile(0.5), l.Quantile(1), l.Count())
	}
	if n := testing.AllocsPerRun(10, func() { l.Add(trainer.Step{Norm: 2}); l.Quantile(0.5) }); n != 0 {
		t.Errorf("%v heap objects", n)
	}
}

type fails struct{}

func (fails) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestLoggedWritesNorms(t *testing.T) {
	each(t, trainer.Options{GradientNorm: true}, func(t *testing.T, tr *trainer.Trainer) {
		var b bytes.Buffer
		got, err := numbers(loop.Logged(loop.Epochs(t.Context(), tr, data(t, 8), 1), &b, 2))
		if lines := strings.Split(strings.TrimSpace(b.String()), "\n"); err != nil || len(got) != 4 || len(lines) != 2 || !strings.HasPrefix(lines[1], "step 4 loss ") || strings.Contains(b.String(), "NaN") {
			t.Errorf("%v, %v: %s", got, err, b.String())
		}
		if got, err := numbers(loop.Logged(loop.Epochs(t.Context(), tr, data(t, 8), 1), fails{}, 0)); got != nil || !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

func TestARangeTestFindsWhereLossesFall(t *testing.T) {
	dev := cputest.OpenChecked(t, cpu.Options{Threads: 1})
	opt := trainer.Options{Device: dev, Batch: 2, Sequential: true}
	same, err := dataloader.FromSlices(4, dataloader.Column("x", []float32{1, 1, 1, 1}, 1), dataloader.Column("y", []float32{2, 2, 2, 2}, 1))
	if err != nil {
		t.Fatal(err)
	}
	c, err := loop.RangeTest(t.Context(), line, opt, same, loop.Sweep{From: 1e-4, To: 1e6, Steps: 100})
	if err != nil || len(c) < 20 || len(c) == 100 {
		t.Fatalf("%d points, %v: it must diverge", len(c), err)
	}
	if s := c.Steepest(); !(s > 1e-3 && s < 0.5) {
		t.Errorf("steepest at %v", s)
	}
	least := math.Inf(1)
	for _, p := range c {
		if least = min(least, p.Smooth); p.Smooth > 4*least {
			t.Errorf("the curve goes on to %v, the least is %v", p.Smooth, least)
		}
	}
	for i := range c[1:] {
		if ratio := c[i+1].Rate / c[i].Rate; math.Abs(ratio-math.Pow(1e10, 1.0/99)) > 1e-9 {
			t.Errorf("rate %d is %v times the one before", i+1, ratio)
		}
	}
	whole, err := loop.RangeTest(t.Context(), line, opt, data(t, 6), loop.Sweep{From: 1e-6, To: 1e-4, Steps: 7})
	if err != nil || len(whole) != 7 || whole[0].Rate != 1e-6 || math.Abs(whole[6].Rate-1e-4) > 1e-18 {
		t.Errorf("got %v, %v", whole, err)
	}
	if !math.IsNaN(loop.Curve(nil).Steepest()) {
		t.Error("no curve is steepest somewhere")
	}
	for _, s := range []loop.Sweep{{}, {From: 1, To: 1, Steps: 5}, {From: 1, To: nan, Steps: 5}, {From: 1, To: 2, Steps: 1}} {
		if _, err := loop.RangeTest(t.Context(), line, opt, data(t, 6), s); !errors.Is(err, optim.ErrOption) {
			t.Errorf("%+v: got %v", s, err)
		}
	}
}
