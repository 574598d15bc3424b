package plot

import (
	"math"

	"github.com/evenkeel/evenkeel/trainer/loop"
)

// RangeTest returns the picture of a range test: losses as dots and their smoothed values as a line,
// over the rate on a logarithmic axis, and a mark at [loop.Curve.Steepest]. Losses outside the
// smoothed ones are drawn at the edge.
func RangeTest(c loop.Curve) Figure {
	losses, smooth := Series{Name: "loss", Style: Dots}, Series{Name: "smoothed", Style: Line}
	p := Panel{X: "learning rate", Y: "loss", LogX: true, Low: math.Inf(1), High: math.Inf(-1)}
	for _, at := range c {
		losses.Points = append(losses.Points, Point{at.Rate, at.Loss})
		smooth.Points = append(smooth.Points, Point{at.Rate, at.Smooth})
		p.Low, p.High = min(p.Low, at.Smooth), max(p.High, at.Smooth)
	}
	p.Series = []Series{losses, smooth}
	if s := c.Steepest(); !math.IsNaN(s) {
		p.Marks = []Mark{{s, "steepest at " + number(s)}}
	}
	return Figure{Title: "Learning-rate range test", Panels: []Panel{p}}
}
