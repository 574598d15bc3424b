package picture

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/evenkeel/evenkeel/trainer/internal/wording"

	"github.com/dustin/go-humanize"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// Coordinates of the picture, in pixels. Offset 0 is at the bottom of both panels.
//
//	|  title                                           |
//	| bar | labels |  map: scratch over instructions   |
//	|  legend: colours of layers                       |
const (
	pictureWidth  = 1280
	panelTop      = 96
	panelBottom   = 596
	panelHeight   = panelBottom - panelTop
	barLeft       = 40
	barRight      = 150
	labelLeft     = 172
	mapLeft       = 470
	mapRight      = 1244
	mapWidth      = mapRight - mapLeft
	legendTop     = 668
	legendRow     = 24
	labelDistance = 36 // least distance between the labels of two regions
)

const (
	ink   = "#24292f"
	faint = "#6e7781"
	alarm = "#cf222e" // the peak
	none  = "none"    // no colour
)

// canvas draws shapes of one kind of file. Coordinates are pixels; y grows downwards. Colours are
// written as #rrggbb, or none.
type canvas interface {
	// rect draws a rectangle. tip is shown under the pointer, if the kind of file can.
	rect(x, y, w, h float64, fill, stroke, tip string)
	// lines draws lines between points, filled or not, dashed or not.
	lines(points []point, fill, stroke string, width float64, dashed bool)
	// text writes s at a point: its start, middle or end.
	text(x, y float64, size int, fill, anchor string, bold bool, s string)
}

// point is a position on a canvas.
type point struct{ x, y float64 }

// drawing is a map of the memory, and its state.
type drawing struct {
	canvas
	palette
	plan *report.Plan
}

// drawMap draws the plan: the arena as a bar of regions, and the scratch of the first program, which
// is that of training, as a map of offsets over instructions. A layer has the same colour in both.
// It returns the height of the picture.
func drawMap(c canvas, p *report.Plan) (height int) {
	d := drawing{canvas: c, plan: p}
	d.addPlan(p)
	d.text(barLeft, 44, 20, ink, "start", true, fmt.Sprintf("One arena of %s", wording.Bytes(p.Total)))
	d.text(barLeft, 68, 13, faint, "start", false, fmt.Sprintf("%s bytes on %s, %s data", humanize.Comma(p.Total), cmp.Or(p.Device, "no device"), cmp.Or(p.Mode, "streaming")))
	d.bar()
	d.scratch()
	return d.legend()
}

// line draws a line.
func (d *drawing) line(x1, y1, x2, y2 float64, stroke string, width float64, dashed bool) {
	d.lines([]point{{x1, y1}, {x2, y2}}, none, stroke, width, dashed)
}

// bar draws the arena and its labels.
func (d *drawing) bar() {
	total := max(d.plan.Total, 1)
	y := func(offset int64) float64 { return panelBottom - panelHeight*float64(offset)/float64(total) }
	var regions []arena.RegionInfo
	for _, r := range d.plan.Regions {
		if r.Size > 0 {
			regions = append(regions, r)
		}
	}
	middles, opened := make([]float64, len(regions)), false
	for i, r := range regions {
		top, bottom := y(r.Offset+r.Size), y(r.Offset)
		middles[i] = (top + bottom) / 2
		if isScratch(r) && !opened { // of a predictor, the first view's
			opened = true
			d.lines([]point{{barRight, top}, {mapLeft, panelTop}, {mapLeft, panelBottom}, {barRight, bottom}}, "#eef1f4", none, 0, false)
		}
		tip := fmt.Sprintf("%s: %s bytes at %s", r.Name, humanize.Comma(r.Size), humanize.Comma(r.Offset))
		fill := shared
		if isScratch(r) {
			fill = "#dfe4ea"
		}
		d.rect(barLeft, top, barRight-barLeft, bottom-top, fill, none, tip)
		for _, part := range r.Parts {
			at := r.Offset + part.Offset
			tip := fmt.Sprintf("%s %s: %s bytes at %s", r.Name, label(part.Owner, part.Name), humanize.Comma(part.Size), humanize.Comma(at))
			d.rect(barLeft, y(at+part.Size), barRight-barLeft, y(at)-y(at+part.Size), d.colours[part.Owner], none, tip)
		}
	}
	for _, r := range regions {
		d.line(barLeft, y(r.Offset+r.Size), barRight, y(r.Offset+r.Size), "#ffffff", 1.5, false)
	}
	d.rect(barLeft, panelTop, barRight-barLeft, panelHeight, none, ink, "")
	for i, at := range spread(middles, labelDistance, panelTop+10, panelBottom-14) {
		r := regions[i]
		d.line(barRight, middles[i], labelLeft-6, at, faint, 0.8, false)
		d.text(labelLeft, at+1, 14, ink, "start", true, wording.Clip(r.Name, 30))
		d.text(labelLeft, at+16, 12, faint, "start", false, fmt.Sprintf("%s · %s", wording.Bytes(r.Size), wording.Share(r.Size, d.plan.Total)))
	}
}

// isScratch reports whether a region is scratch, or that of a view of a predictor.
func isScratch(r arena.RegionInfo) bool {
	return r.Name == "scratch" || strings.HasPrefix(r.Name, "scratch ")
}

// spread moves labels apart. at falls, because the bar grows upwards and y downwards. So does the
// result, in which neighbours have the given distance and all lie between top and bottom; if there
// is no room, the distance is smaller.
func spread(at []float64, distance, top, bottom float64) []float64 {
	if len(at) > 1 {
		distance = min(distance, (bottom-top)/float64(len(at)-1))
	}
	out := make([]float64, len(at))
	limit := bottom
	for i, y := range at {
		out[i] = min(y, limit)
		limit = out[i] - distance
	}
	limit = top
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = max(out[i], limit)
		limit = out[i] + distance
	}
	return out
}

// legend draws the colours of layers and the lines, and returns the height of the picture.
func (d *drawing) legend() int {
	x, y := float64(barLeft), float64(legendTop)
	if len(d.plan.Programs) > 0 {
		d.line(mapLeft, legendTop-24, mapLeft+24, legendTop-24, ink, 1.6, false)
		d.text(mapLeft+32, legendTop-20, 12, faint, "start", false, "live bytes")
	}
	for _, layer := range append(d.layers, "") {
		name := wording.Clip(cmp.Or(layer, "no layer"), 40)
		width := 30 + textWidth(name, 13) + 16
		if x > barLeft && x+width > mapRight {
			x, y = barLeft, y+legendRow
		}
		d.rect(x, y-12, 16, 16, d.colours[layer], none, "")
		d.text(x+24, y+1, 13, ink, "start", false, name)
		x += width
	}
	return int(y) + 32
}

// textWidth estimates the width of s in pixels; the font depends on the viewer.
func textWidth(s string, size int) float64 { return 0.6 * float64(size) * float64(len([]rune(s))) }

// label returns the name of a tensor with its layer.
func label(owner, name string) string { return report.Tensor{Owner: owner, Name: name}.Label() }
