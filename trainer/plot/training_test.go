package plot_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/loop"
	"github.com/evenkeel/evenkeel/trainer/plot"
)

// trained is the history of 3 epochs of 100 steps.
func trained(objective string, accuracy, norm float64) *loop.History {
	h := loop.NewHistory(0)
	for n := range 300 {
		loss := 2*math.Exp(-float64(n)/60) + 0.1 + 0.05*math.Sin(float64(5*n))
		h.Add(trainer.Step{Objective: objective, Number: int64(n + 1), Epoch: n / 100, Step: n%100 + 1, Steps: 100, Weight: 1,
			Loss: loss, Accuracy: accuracy * (1 - loss/3), Rate: 1e-3 * float64(300-n) / 300, Norm: norm * loss})
		if n%100 == 99 {
			h.Evaluated("test", trainer.Result{Loss: loss * 1.1, Accuracy: accuracy * (1 - loss/2.8)})
		}
	}
	return h
}

func TestATrainingHasAPanelForEachKindOfNumber(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		h    *loop.History
		want []string
	}{
		"all":           {trained("", 1, 3), []string{"loss: step epoch test", "accuracy, %: step epoch test", "learning rate: ", "gradient norm: "}},
		"loss and rate": {trained("", nan, nan), []string{"loss: step epoch test", "learning rate: "}},
		"an objective":  {trained("critic", nan, 2), []string{"loss: critic, step critic, epoch test", "learning rate: critic", "gradient norm: critic"}},
		"nothing":       {loop.NewHistory(0), []string{"loss: "}},
	} {
		f := plot.Training(c.h, plot.Options{LogLoss: true})
		var got []string
		for _, p := range f.Panels {
			var names []string
			for _, s := range p.Series {
				names = append(names, s.Name)
			}
			got = append(got, fmt.Sprintf("%s: %s", p.Y, strings.Join(names, " ")))
			if p.LogY != (p.Y == "loss" || p.Y == "gradient norm") {
				t.Errorf("%s: a logarithmic axis: %v", p.Y, p.LogY)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		svg(t, f)
	}
	if plot.Training(trained("", 1, 1), plot.Options{}).Panels[0].LogY {
		t.Error("losses on a logarithmic axis that nobody asked for")
	}
}

func TestATrainingHasTheValuesOfItsHistory(t *testing.T) {
	h := trained("", 1, 3)
	f := plot.Training(h, plot.Options{})
	records, tests := h.Steps()[0].Records, h.Evaluations()[0].Records
	for i, r := range records {
		for k, want := range []float64{r.Loss, 100 * r.Accuracy, r.Rate, r.Norm} {
			if got := f.Panels[k].Series[0].Points[i]; got.X != float64(r.Step) || got.Y != want {
				t.Fatalf("panel %d: point %+v of %+v", k, got, r)
			}
		}
	}
	for i, r := range tests {
		if got := f.Panels[0].Series[2].Points[i]; got.X != float64(r.Step) || got.Y != r.Loss {
			t.Errorf("point %+v of %+v", got, r)
		}
	}
}

func TestPaleSeriesOfTwoObjectivesDiffer(t *testing.T) {
	s := func(y float64) plot.Series {
		return plot.Series{Style: plot.Faint, Points: []plot.Point{{X: 0, Y: y}, {X: 1, Y: y}}}
	}
	picture, _ := svg(t, plot.Figure{Panels: []plot.Panel{{Series: []plot.Series{s(1), s(2)}}}})
	if strings.Count(picture, "stroke:#AAD0E5") != 1 {
		t.Errorf("not one line in the first pale colour:\n%s", picture)
	}
}
