package plot

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/evenkeel/evenkeel/trainer"
)

// Figure is a picture of panels, one below the other, whose left edges are aligned. The zero value is
// an empty picture. Long names are shortened. Figures may be drawn at once by several goroutines.
type Figure struct {
	Title  string
	Panels []Panel
}

// ShareX gives all panels the range of x that their series span together, and the last one the name of
// the axis.
func (f *Figure) ShareX(name string) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range f.Panels {
		for _, s := range p.Series {
			if n := len(s.Points); n > 0 {
				low, high = min(low, s.Points[0].X), max(high, s.Points[n-1].X)
			}
		}
	}
	for i := range f.Panels {
		f.Panels[i].First, f.Panels[i].Last = low, high
	}
	if n := len(f.Panels); n > 0 {
		f.Panels[n-1].X = name
	}
}

// Panel is a plot with two axes, and a legend right of it. Its axes span the points of all series, unless their ends are set.
type Panel struct {
	X, Y       string // names of the axes, with units
	LogX, LogY bool   // logarithmic axes
	// Low and High are the ends of the y-axis, if Low < High. Points outside are drawn at the edge.
	// Default: all points are inside.
	Low, High float64
	// First and Last are the ends of the x-axis, in the same way.
	First, Last float64
	Series      []Series
	Marks       []Mark
}

// Series is a list of points in the order of their X. A value that is not finite is a gap; on a
// logarithmic axis one that is not above 0 is a gap, too.
type Series struct {
	Name   string // in the legend; "" for none
	Style  Style
	Points []Point
}

// Point is a point of a series, in the units of the axes.
type Point struct{ X, Y float64 }

// Style is how a series is drawn.
type Style int

// Styles.
const (
	Line   Style = iota // a line in a colour of its own
	Dotted              // a line in a colour of its own, with a dot on each point
	Faint               // a thin line in a pale colour, for noisy values behind others
	Dots                // pale dots
)

// Mark is a vertical line at X with a name in the legend.
type Mark struct {
	X    float64
	Name string
}

// Format is the kind of file of a picture.
type Format int

// Formats.
const (
	SVG Format = iota
	PNG        // 96 dots per inch
)

// FormatOf returns the format for the ending of a file name, .svg or .png in any case. Another name is an
// error that wraps trainer.ErrOption.
func FormatOf(name string) (Format, error) {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".svg":
		return SVG, nil
	case ".png":
		return PNG, nil
	}
	return 0, fmt.Errorf("picture %q: use a name that ends in .svg or .png: %w", name, trainer.ErrOption)
}

// Save writes the figure to a file in the format of its name, as FormatOf returns it. The figure is drawn
// before the file is opened; an existing file is replaced.
func (f Figure) Save(name string) error {
	format, err := FormatOf(name)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := f.Write(&b, format); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}

// Write draws the figure to w: 640 pixels wide, and 400 high or, with several panels, 200 each. Equal
// figures have equal bytes. An unknown format is an error that wraps trainer.ErrOption.
func (f Figure) Write(w io.Writer, format Format) error {
	if format != SVG && format != PNG {
		return fmt.Errorf("picture format %d: use SVG or PNG: %w", format, trainer.ErrOption)
	}
	_, err := f.draw(format).WriteTo(w)
	return err
}
