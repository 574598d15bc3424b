package plot

import (
	"math"

	"github.com/evenkeel/evenkeel/trainer/loop"
)

// Options are options of the curves of a training. The zero value is a good default.
type Options struct {
	Title   string // default: none
	LogLoss bool   // losses on a logarithmic axis. Default: linear
}

// Training returns the curves of a training over the number of its step, with a panel for each kind of
// number that h has: losses, accuracies in percent, learning rates, and norms of gradients on a
// logarithmic axis. Losses and accuracies of steps are pale; those of epochs and evaluations have dots.
func Training(h *loop.History, opt Options) Figure {
	loss := panel(h, "loss", func(r loop.Record) float64 { return r.Loss }, true)
	loss.LogY = opt.LogLoss
	f := Figure{Title: opt.Title, Panels: []Panel{loss}}
	norm := panel(h, "gradient norm", func(r loop.Record) float64 { return r.Norm }, false)
	norm.LogY = true
	for _, p := range []Panel{
		panel(h, "accuracy, %", func(r loop.Record) float64 { return 100 * r.Accuracy }, true),
		panel(h, "learning rate", func(r loop.Record) float64 { return r.Rate }, false),
		norm,
	} {
		if len(p.Series) > 0 {
			f.Panels = append(f.Panels, p)
		}
	}
	f.ShareX("step")
	return f
}

// panel returns the series of one kind of number; of steps alone, or with means over epochs and
// evaluations. A series without a value is left out.
func panel(h *loop.History, y string, value func(loop.Record) float64, means bool) Panel {
	p := Panel{Y: y}
	add := func(tracks []loop.Track, name string, style Style) {
		for _, t := range tracks {
			s := Series{Name: t.Name, Style: style}
			if name != "" {
				s.Name = name
				if t.Name != "" {
					s.Name = t.Name + ", " + name
				}
			}
			some := false
			for _, r := range t.Records {
				v := value(r)
				some = some || !math.IsNaN(v)
				s.Points = append(s.Points, Point{float64(r.Step), v})
			}
			if some {
				p.Series = append(p.Series, s)
			}
		}
	}
	if !means {
		add(h.Steps(), "", Line)
		return p
	}
	add(h.Steps(), "step", Faint)
	add(h.Epochs(), "epoch", Dotted)
	add(h.Evaluations(), "", Dotted)
	return p
}
