package runs

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/evenkeel/evenkeel/trainer/plot"
)

// Names of charts, and the first part of the names of values in metrics.jsonl and TensorBoard.
const (
	lossChart     = "loss"
	accuracyChart = "accuracy"
	rateChart     = "rate"
	normChart     = "norm"
	layersChart   = "layer norm"
	speedChart    = "samples per second"
	timeChart     = "time"
	deviceChart   = "device memory"
	hostChart     = "host memory"
	metricChart   = "metric"
)

// chartPoints bounds the points of a series in memory. A series that is full drops every second
// point, and from then on keeps every second one.
const chartPoints = 2048

// chart is a group of series over one axis.
type chart struct {
	ID      string    `json:"id"`
	Title   string    `json:"title"`
	Unit    string    `json:"unit,omitempty"` // "%", "bytes" or ""
	Axis    string    `json:"axis"`           // of x: step or seconds
	Log     bool      `json:"log,omitempty"`
	Stacked bool      `json:"stacked,omitempty"`
	Series  []*series `json:"series"`

	byName map[string]*series
}

// newCharts returns the charts of a run, in the order of the page.
func newCharts() charts {
	all := charts{
		{ID: lossChart, Title: "Loss", Axis: stepKey},
		{ID: accuracyChart, Title: "Accuracy", Unit: "%", Axis: stepKey},
		{ID: metricChart, Title: "Metrics", Axis: stepKey},
		{ID: rateChart, Title: "Learning rate", Axis: stepKey},
		{ID: normChart, Title: "Gradient norm", Axis: stepKey, Log: true},
		{ID: layersChart, Title: "Gradient norm by layer", Axis: stepKey, Log: true},
		{ID: speedChart, Title: "Samples per second", Axis: secondsKey},
		{ID: timeChart, Title: "Where the time goes", Unit: "%", Axis: secondsKey, Stacked: true},
		{ID: deviceChart, Title: "Device memory", Unit: "bytes", Axis: secondsKey},
		{ID: hostChart, Title: "Host memory", Unit: "bytes", Axis: secondsKey},
	}
	for _, c := range all {
		c.Series = []*series{} // [] in JSON
	}
	return all
}

// charts are the charts of a run.
type charts []*chart

// series returns the series of a name, and makes it if there is none; nil for an unknown chart.
func (c charts) series(id, name string) *series {
	for _, c := range c {
		if c.ID == id {
			return c.find(name)
		}
	}
	return nil
}

// tagged returns the series whose values have a tag; nil if there is no such chart.
func (c charts) tagged(tag string) *series {
	id, name, _ := strings.Cut(tag, "/")
	return c.series(id, name)
}

// cut removes the points of steps that are not before the given one. Charts over seconds keep theirs.
func (c charts) cut(step int64) {
	for _, c := range c {
		if c.Axis != stepKey {
			continue
		}
		for _, s := range c.Series {
			s.cut(float64(step))
		}
	}
}

// find returns the series of a name, and makes it if there is none.
func (c *chart) find(name string) *series {
	if s := c.byName[name]; s != nil {
		return s
	}
	tag := c.ID
	if name != "" {
		tag += "/" + name
	}
	quoted, _ := json.Marshal(tag) // a string always has a form
	s := &series{chart: c, Name: name, Style: c.style(name), tag: tag, quoted: quoted, stride: 1}
	if c.byName == nil {
		c.byName = make(map[string]*series)
	}
	c.byName[name] = s
	c.Series = append(c.Series, s)
	return s
}

// style returns how a series is drawn: single steps are pale, and means over epochs and evaluations
// have dots.
func (c *chart) style(name string) style {
	switch {
	case c.ID == metricChart:
		return dotted
	case c.ID == normChart:
		return faint
	case c.ID != lossChart && c.ID != accuracyChart:
		return line
	case name == stepSeries || strings.HasSuffix(name, " "+stepSeries):
		return faint
	}
	return dotted
}

// style is how a series is drawn.
type style string

const (
	line   style = "line"
	dotted style = "dotted"
	faint  style = "faint"
)

// series is a bounded list of points.
type series struct {
	Name  string `json:"name"`
	Style style  `json:"style"`

	chart  *chart
	tag    string // in metrics.jsonl and TensorBoard
	quoted []byte // the tag in JSON
	points []point
	stride int   // every stride-th point is kept
	until  int   // points that are still dropped before the next one is kept
	last   point // the latest one, kept or not
	added  int   // of points, those that subscribers have not had
}

// point is a value at a step or a second.
type point struct{ x, y float64 }

// MarshalJSON returns [x, y], with null for a value that is not finite.
func (p point) MarshalJSON() ([]byte, error) {
	b := appendNumber([]byte{'['}, p.x)
	b = append(b, ',')
	if math.IsNaN(p.y) || math.IsInf(p.y, 0) {
		return append(b, "null]"...), nil
	}
	return append(appendNumber(b, p.y), ']'), nil
}

// add keeps every stride-th point. One of a step that is not after the latest replaces that, as a
// restored training does.
func (s *series) add(p point) {
	if s.chart.Axis == stepKey && len(s.points) > 0 && p.x <= s.last.x {
		s.cut(p.x)
	}
	s.last = p
	if s.until > 0 {
		s.until--
		return
	}
	if len(s.points) == chartPoints {
		for i := range chartPoints / 2 {
			s.points[i] = s.points[2*i]
		}
		s.points = s.points[:chartPoints/2]
		s.added = min(s.added, len(s.points))
		s.stride *= 2
	}
	s.points = append(s.points, p)
	s.until = s.stride - 1
	s.added++
}

// cut removes the points from x on.
func (s *series) cut(x float64) {
	n := len(s.points)
	for n > 0 && s.points[n-1].x >= x {
		n--
	}
	if len(s.points) > 0 && s.last.x >= x {
		s.points, s.until, s.added, s.last = s.points[:n], 0, 0, point{}
		if n > 0 {
			s.last = s.points[n-1]
		}
	}
}

// all returns the points with the latest one at the end, although it may be one that is not kept.
func (s *series) all() []point {
	if n := len(s.points); n > 0 && s.points[n-1] != s.last && s.last.x >= s.points[n-1].x {
		return append(s.points[:n:n], s.last)
	}
	return s.points
}

// MarshalJSON returns the name, the style and the points.
func (s *series) MarshalJSON() ([]byte, error) {
	type plain series
	points := s.all()
	if points == nil {
		points = []point{}
	}
	return json.Marshal(struct {
		*plain
		Points []point `json:"points"`
	}{(*plain)(s), points})
}

// figure returns the charts over an axis as panels for files.
func (c charts) figure(title, axis string) plot.Figure {
	f := plot.Figure{Title: title}
	for _, c := range c {
		if c.Axis == axis && len(c.Series) > 0 {
			f.Panels = append(f.Panels, c.panel())
		}
	}
	f.ShareX(axis)
	return f
}

// panel returns the chart as a panel. Bytes are in MiB.
func (c *chart) panel() plot.Panel {
	p := plot.Panel{Y: strings.ToLower(c.Title), LogY: c.Log}
	factor := 1.0
	switch c.Unit {
	case "bytes":
		p.Y, factor = p.Y+", MiB", 1.0/(1<<20)
	case "%":
		p.Y, factor = p.Y+", %", 100
	}
	styles := map[style]plot.Style{line: plot.Line, dotted: plot.Dotted, faint: plot.Faint}
	for _, s := range c.Series {
		out := plot.Series{Name: s.Name, Style: styles[s.Style]}
		for _, v := range s.all() {
			out.Points = append(out.Points, plot.Point{X: v.x, Y: v.y * factor})
		}
		p.Series = append(p.Series, out)
	}
	return p
}
