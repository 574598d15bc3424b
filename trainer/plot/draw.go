package plot

import (
	"image/color"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode"

	gonum "gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Size of a picture. A pixel is 1/96 inch.
const (
	pixel       = vg.Inch / 96
	width       = 640 * pixel
	height      = 400 * pixel // of one panel
	panelHeight = 200 * pixel // of one of several
)

// Colours of lines, of Okabe and Ito: people who see few colours can tell them apart.
var colours = []color.RGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {230, 159, 0, 255}, {86, 180, 233, 255},
}

// pale returns a colour with much white.
func pale(c color.RGBA) color.RGBA {
	mix := func(v uint8) uint8 { return uint8((int(v) + 2*255) / 3) }
	return color.RGBA{mix(c.R), mix(c.G), mix(c.B), 255}
}

var (
	gridColour = color.Gray{230}
	markColour = color.RGBA{187, 0, 0, 255}
)

// draw draws the figure.
func (f Figure) draw(format Format) io.WriterTo {
	rows := max(1, len(f.Panels))
	high := height
	if rows > 1 {
		high = vg.Length(rows) * panelHeight
	}
	var canvas vg.CanvasSizer
	var out io.WriterTo
	if format == PNG {
		c := vgimg.NewWith(vgimg.UseWH(width, high), vgimg.UseDPI(96))
		canvas, out = c, vgimg.PngCanvas{Canvas: c}
	} else {
		c := vgsvg.New(width, high)
		canvas, out = c, c
	}
	plots := make([][]*gonum.Plot, rows)
	for i := range plots {
		var p Panel
		if i < len(f.Panels) {
			p = f.Panels[i]
		}
		plots[i] = []*gonum.Plot{p.plot()}
	}
	plots[0][0].Title.Text = text(f.Title, longest)
	legends := vg.Length(0) // the legends are right of the panels, which are equally wide
	for _, p := range plots {
		legends = max(legends, p[0].Legend.Rectangle(draw.New(canvas)).Size().X)
	}
	all := draw.New(canvas)
	all.SetColor(color.White)
	all.Fill(all.Rectangle.Path())
	pad := 8 * pixel
	tiles := draw.Tiles{Rows: rows, Cols: 1, PadTop: pad, PadBottom: pad, PadLeft: pad, PadRight: legends + 3*pad, PadY: pad}
	for i, row := range gonum.Align(plots, tiles, all) {
		plots[i][0].Legend.XOffs = legends + pad
		plots[i][0].Draw(row[0])
	}
	return out
}

// plot returns the panel as gonum draws it.
func (p Panel) plot() *gonum.Plot {
	x, y := p.scales()
	g := gonum.New()
	sans := func(size vg.Length) font.Font { return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size} }
	g.Title.TextStyle.Font, g.Legend.TextStyle.Font = sans(12), sans(9)
	for _, a := range []*gonum.Axis{&g.X, &g.Y} {
		a.Label.TextStyle.Font, a.Tick.Label.Font = sans(10), sans(9)
		a.Padding = 0
	}
	g.X.Label.Text, g.Y.Label.Text = text(p.X, longest), text(p.Y, longest)
	x.set(&g.X)
	y.set(&g.Y)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = gridColour, gridColour
	g.Add(grid)
	g.Legend.Top, g.Legend.ThumbnailWidth, g.Legend.Padding = true, 16*pixel, 2*pixel
	var next [2]int // colours that are used, and pale ones
	for _, s := range p.Series {
		n := &next[0]
		if s.Style == Faint || s.Style == Dots {
			n = &next[1]
		}
		s.add(g, x, y, colours[*n%len(colours)])
		*n++
	}
	for _, m := range p.Marks {
		if at, ok := x.shown(m.X); ok && at == m.X {
			l := &plotter.Line{XYs: plotter.XYs{{X: at, Y: y.min}, {X: at, Y: y.max}}}
			l.LineStyle = draw.LineStyle{Color: markColour, Width: pixel, Dashes: []vg.Length{4 * pixel, 3 * pixel}}
			g.Add(l)
			g.Legend.Add(text(m.Name, longestName), l)
		}
	}
	return g
}

// scales returns the scales of both axes.
func (p Panel) scales() (x, y scale) {
	lowX, highX, lowY, highY := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, s := range p.Series {
		for _, pt := range s.Points {
			px, okX := drawable(pt.X, p.LogX)
			py, okY := drawable(pt.Y, p.LogY)
			if okX && okY {
				lowX, highX, lowY, highY = min(lowX, px), max(highX, px), min(lowY, py), max(highY, py)
			}
		}
	}
	lowX, highX = ends(p.First, p.Last, p.LogX, lowX, highX)
	lowY, highY = ends(p.Low, p.High, p.LogY, lowY, highY)
	return newScale(lowX, highX, p.LogX), newScale(lowY, highY, p.LogY)
}

// ends returns the ends that a panel sets, if they can be drawn, and else low and high.
func ends(first, last float64, log bool, low, high float64) (_, _ float64) {
	a, okA := drawable(first, log)
	b, okB := drawable(last, log)
	if okA && okB && a < b {
		return a, b
	}
	return low, high
}

// add adds the series to a plot: lines between gaps, a point between two gaps as a dot.
func (s Series) add(g *gonum.Plot, x, y scale, colour color.RGBA) {
	style := draw.LineStyle{Color: colour, Width: 1.25 * pixel}
	if s.Style == Faint || s.Style == Dots {
		style.Color, style.Width = pale(colour), pixel
	}
	glyph := draw.GlyphStyle{Color: style.Color, Radius: 1.5 * pixel, Shape: draw.CircleGlyph{}}
	if s.Style == Dotted {
		glyph.Radius = 3 * pixel
		style.Width = 2 * pixel
	}
	var run, dots plotter.XYs
	end := func() {
		if len(run) == 1 {
			dots = append(dots, run...)
		} else if len(run) > 1 {
			g.Add(&plotter.Line{XYs: run, LineStyle: style})
		}
		run = nil
	}
	for _, p := range s.Points {
		px, okX := x.shown(p.X)
		py, okY := y.shown(p.Y)
		switch {
		case !okX || !okY:
			end()
		case s.Style == Dots:
			dots = append(dots, plotter.XY{X: px, Y: py})
		default:
			run = append(run, plotter.XY{X: px, Y: py})
			if s.Style == Dotted {
				dots = append(dots, plotter.XY{X: px, Y: py})
			}
		}
	}
	end()
	if len(dots) > 0 {
		g.Add(&plotter.Scatter{XYs: dots, GlyphStyle: glyph})
	}
	if s.Name == "" {
		return
	}
	entry := []gonum.Thumbnailer{&plotter.Line{LineStyle: style}}
	if s.Style == Dots {
		entry = entry[:0]
	}
	if s.Style == Dots || s.Style == Dotted {
		entry = append(entry, &plotter.Scatter{GlyphStyle: glyph})
	}
	g.Legend.Add(text(s.Name, longestName), entry...)
}

// number writes v with few digits.
func number(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

// Characters of titles and names of axes, and of names in legends.
const longest, longestName = 60, 24

// text returns s as one line of at most n characters, without characters that XML has not.
func text(s string, n int) string {
	line := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD")))
	if len(line) > n {
		line = append(line[:n-1], '…')
	}
	return string(line)
}
