package loop_test

import (
	"math"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/loop"
)

// numbersOf returns the steps of a track.
func numbersOf(records []loop.Record) (steps []int64) {
	for _, r := range records {
		steps = append(steps, r.Step)
	}
	return steps
}

func TestAFullHistoryDropsEverySecondRecord(t *testing.T) {
	for points, want := range map[int][][]int64{ // by number of steps, 1, 4, 5, 9 and 17
		4: {{1}, {1, 2, 3, 4}, {1, 3, 5}, {1, 5, 9}, {1, 9, 17}},
		3: {{1}, {1, 3, 4}, {1, 3, 5}, {1, 5, 9}, {1, 9, 17}},
	} {
		h := loop.NewHistory(points)
		for n := int64(1); n <= 17; n++ {
			h.Add(trainer.Step{Number: n, Step: int(n), Steps: 100, Weight: 1, Loss: float64(n)})
			if i := slices.Index([]int64{1, 4, 5, 9, 17}, n); i >= 0 {
				if got := numbersOf(h.Steps()[0].Records); !slices.Equal(got, want[i]) {
					t.Errorf("%d points after %d steps: steps %v, want %v", points, n, got, want[i])
				}
			}
		}
	}
	h := loop.NewHistory(64)
	for n := int64(1); n <= 10000; n++ {
		h.Add(trainer.Step{Number: n, Step: 1, Steps: 1, Weight: 1})
		h.Evaluated("test", trainer.Result{})
		steps, epochs, tests := h.Steps()[0].Records, h.Epochs()[0].Records, h.Evaluations()[0].Records
		if len(steps) > 65 || len(epochs) > 65 || len(tests) > 65 || steps[0].Step != 1 || steps[len(steps)-1].Step != n || tests[len(tests)-1].Step != n {
			t.Fatalf("step %d: %d, %d and %d records, %d to %d", n, len(steps), len(epochs), len(tests), steps[0].Step, steps[len(steps)-1].Step)
		}
	}
	n := int64(10000)
	if allocs := testing.AllocsPerRun(1000, func() { n++; h.Add(trainer.Step{Number: n, Step: 1, Steps: 1, Weight: 1}) }); allocs != 0 {
		t.Errorf("Add of a full history makes %v heap objects", allocs)
	}
	if allocs := testing.AllocsPerRun(1000, func() { n++; h.Progress(trainer.Progress{StepNumber: n, Step: 1, Steps: 1}) }); allocs != 0 {
		t.Errorf("Progress of a full history makes %v heap objects", allocs)
	}
}

// Add and Progress of the same training give the same records, which are those of the steps and results.
func TestAHistoryHasTheNumbersOfStepsAndResults(t *testing.T) {
	each(t, trainer.Options{GradientNorm: true, Accumulate: 2}, func(t *testing.T, tr *trainer.Trainer) {
		h := loop.NewHistory(0)
		var steps []trainer.Step
		for s, err := range loop.Epochs(t.Context(), tr, data(t, 8), 2) {
			if err != nil {
				t.Fatal(err)
			}
			h.Add(s)
			steps = append(steps, s)
		}
		r, err := tr.Evaluate(t.Context(), data(t, 8))
		if err != nil {
			t.Fatal(err)
		}
		h.Evaluated("test", r)
		norm := math.NaN()
		got := h.Steps()[0].Records
		if len(got) != len(steps) {
			t.Fatalf("%d records of %d steps", len(got), len(steps))
		}
		for i, s := range steps {
			if s.Updated {
				norm = s.Norm
			}
			if g := got[i]; g.Step != s.Number || g.Loss != s.Loss || g.Rate != s.Rate || !same(g.Norm, norm) || !same(g.Accuracy, s.Accuracy) {
				t.Errorf("%+v of step %+v", g, s)
			}
		}
		epochs := h.Epochs()[0].Records
		var sum, weight float64
		for _, s := range steps[:len(steps)/2] {
			sum, weight = sum+s.Loss*s.Weight, weight+s.Weight
		}
		if len(epochs) != 2 || epochs[0].Step != int64(len(steps)/2) || math.Abs(epochs[0].Loss-sum/weight) > 1e-12 {
			t.Errorf("epochs %+v, want a mean of %v first", epochs, sum/weight)
		}
		if e := h.Evaluations(); len(e) != 1 || e[0].Name != "test" || e[0].Records[0].Step != int64(len(steps)) || e[0].Records[0].Loss != r.Loss {
			t.Errorf("evaluations %+v, want %+v", e, r)
		}
	})
}

func TestProgressIsRecorded(t *testing.T) {
	h := loop.NewHistory(0)
	each(t, trainer.Options{GradientNorm: true, Progress: func(p trainer.Progress) { h.Progress(p) }}, func(t *testing.T, tr *trainer.Trainer) {
		h = loop.NewHistory(0)
		added := loop.NewHistory(0)
		for s, err := range tr.Steps(t.Context(), data(t, 8)) {
			if err != nil {
				t.Fatal(err)
			}
			added.Add(s)
		}
		if _, err := tr.Evaluate(t.Context(), data(t, 8)); err != nil {
			t.Fatal(err)
		}
		for i, pair := range [][2][]loop.Track{{h.Steps(), added.Steps()}, {h.Epochs(), added.Epochs()}} {
			if len(pair[0]) != 1 || len(pair[1]) != 1 || !slices.EqualFunc(pair[0][0].Records, pair[1][0].Records, func(a, b loop.Record) bool {
				return a.Step == b.Step && math.Abs(a.Loss-b.Loss) < 1e-12 && same(a.Accuracy, b.Accuracy) && a.Rate == b.Rate && same(a.Norm, b.Norm)
			}) {
				t.Errorf("%d: Progress %+v, Add %+v", i, pair[0], pair[1])
			}
		}
	})
}

// same reports whether a and b are equal or both NaN.
func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

func TestStepsAfterARestoreReplaceThoseBefore(t *testing.T) {
	h := loop.NewHistory(8)
	for _, n := range []int64{1, 2, 3, 4, 5, 6, 3, 4} {
		h.Add(trainer.Step{Number: n, Step: 1, Steps: 1, Weight: 1})
		h.Evaluated("test", trainer.Result{})
	}
	want := []int64{1, 2, 3, 4}
	for _, all := range [][]loop.Track{h.Steps(), h.Epochs(), h.Evaluations()} {
		if got := numbersOf(all[0].Records); !slices.Equal(got, want) {
			t.Errorf("steps %v, want %v", got, want)
		}
	}
}
