package plot

import (
	"math"

	gonum "gonum.org/v1/plot"
)

// largest bounds the values that are drawn, so that the length of an axis is finite.
const largest = 1e300

// smallest is the least value on a logarithmic axis, the smallest normal float64.
const smallest = 0x1p-1022

// scale is the range of an axis, which always has min < max.
type scale struct {
	min, max float64
	log      bool // min > 0
}

// newScale returns the scale of an axis that spans low to high. If there are no values, low > high.
func newScale(low, high float64, log bool) scale {
	if low > high {
		low, high = 0, 1
		if log {
			low = 0.1
		}
	}
	s := scale{min: low, max: high, log: log}
	switch {
	case log && high < 1.1*low: // a tenth of a decade on both sides
		s.min, s.max = max(smallest, low/1.25), min(largest, high*1.25)
	case !log && high-low <= 1e-6*max(math.Abs(low), math.Abs(high), 1e-290):
		// A range that digits of a label do not show.
		margin := max(0.05*math.Abs(low), 1e-290)
		if low == 0 {
			margin = 1
		}
		s.min, s.max = low-margin, high+margin
	}
	return s
}

// shown returns v as the axis can show it; ok is false for a gap.
func (s scale) shown(v float64) (_ float64, ok bool) {
	v, ok = drawable(v, s.log)
	return min(max(v, s.min), s.max), ok
}

// drawable returns v within the values that any axis can show; ok is false for a gap.
func drawable(v float64, log bool) (_ float64, ok bool) {
	if math.IsNaN(v) || math.IsInf(v, 0) || log && v <= 0 {
		return 0, false
	}
	if log {
		v = max(v, smallest)
	}
	return min(max(v, -largest), largest), true
}

// set sets the range of an axis, its ticks and its scale.
func (s scale) set(a *gonum.Axis) {
	a.Min, a.Max = s.min, s.max
	if s.log {
		a.Scale = gonum.LogScale{}
		a.Tick.Marker = gonum.TickerFunc(logTicks)
	}
}

// logTicks returns the ticks of a logarithmic axis: labels at powers of 10, or at 1, 2 and 5 times these
// if there are few of them. gonum's own LogTicks has labels at powers of 10 only, also where the
// axis has none.
func logTicks(low, high float64) []gonum.Tick {
	first, last := int(math.Floor(math.Log10(low))), int(math.Ceil(math.Log10(high)))
	every := max(1, (last-first)/8) // decades between labels
	decades := math.Log10(high) - math.Log10(low)
	var ticks []gonum.Tick
	for d := first; d <= last; d++ {
		for i := 1; i < 10; i++ {
			t := gonum.Tick{Value: float64(i) * math.Pow10(d)}
			if t.Value < low || t.Value > high || every > 1 && i > 1 {
				continue
			}
			major := i == 1 && (d-first)%every == 0
			middle := decades < 2.5 && (i == 2 || i == 5)
			if major || middle || decades < 0.7 {
				t.Label = number(t.Value)
			}
			ticks = append(ticks, t)
		}
	}
	if decades < 0.2 { // perhaps no tick is in the range
		return []gonum.Tick{{Value: low, Label: number(low)}, {Value: high, Label: number(high)}}
	}
	return ticks
}
