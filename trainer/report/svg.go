package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
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
	ink    = "#24292f"
	faint  = "#6e7781"
	shared = "#c4cad1" // memory that belongs to no layer
	alarm  = "#cf222e" // the peak
)

// palette is Tableau 10 without its red, which marks the peak, and its grey.
var palette = []string{"#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#76b7b2", "#edc948", "#ff9da7", "#9c755f"}

// SVG writes a picture of the plan: the arena as a bar of regions, and the scratch of the first
// program, which is that of training, as a map of offsets over instructions. A layer has the same
// colour in both.
func (p Plan) SVG(w io.Writer) error {
	d := drawing{plan: p, colours: map[string]string{"": shared}}
	for _, l := range p.Layers() {
		d.colour(l.Name)
	}
	if len(p.Programs) > 0 {
		for _, b := range p.Programs[0].Buffers {
			d.colour(b.Owner)
		}
	}
	d.text(barLeft, 44, 20, ink, "start", true, fmt.Sprintf("One arena of %s", human(p.Total)))
	d.text(barLeft, 68, 13, faint, "start", false, fmt.Sprintf("%s bytes on %s, %s data", comma(p.Total), or(p.Device, "no device"), or(p.Mode, "streaming")))
	d.bar()
	d.scratch()
	height := d.legend()
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" font-family="system-ui, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif">
<title>memory plan: %s bytes</title>
<rect width="%d" height="%d" rx="10" fill="#ffffff"/>
%s</svg>
`, pictureWidth, height, pictureWidth, height, comma(p.Total), pictureWidth, height, d.out.String())
	return err
}

// drawing is a picture and its state.
type drawing struct {
	plan    Plan
	colours map[string]string
	layers  []string // in the order of the legend
	out     bytes.Buffer
}

// colour returns the colour of a layer: from the palette, then from the colour wheel.
func (d *drawing) colour(layer string) string {
	if c, ok := d.colours[layer]; ok {
		return c
	}
	n := len(d.layers)
	c := ""
	if n < len(palette) {
		c = palette[n]
	} else {
		// Steps of the golden angle never repeat a hue.
		c = fmt.Sprintf("hsl(%d, 45%%, %d%%)", int(math.Mod(float64(n)*137.508, 360)), 45+10*(n%3))
	}
	d.colours[layer] = c
	d.layers = append(d.layers, layer)
	return c
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
	middles := make([]float64, len(regions))
	for i, r := range regions {
		top, bottom := y(r.Offset+r.Size), y(r.Offset)
		middles[i] = (top + bottom) / 2
		if r.Name == "scratch" {
			d.add(`<path d="M%d %.1fL%d %dV%dL%d %.1fZ" fill="#eef1f4"/>`, barRight, top, mapLeft, panelTop, panelBottom, barRight, bottom)
		}
		tip := fmt.Sprintf("%s: %s bytes at %s", r.Name, comma(r.Size), comma(r.Offset))
		fill := shared
		if r.Name == "scratch" {
			fill = "#dfe4ea"
		}
		d.rect(barLeft, top, barRight-barLeft, bottom-top, fill, "none", tip)
		for _, part := range r.Parts {
			at := r.Offset + part.Offset
			tip := fmt.Sprintf("%s %s: %s bytes at %s", r.Name, label(part.Owner, part.Name), comma(part.Size), comma(at))
			d.rect(barLeft, y(at+part.Size), barRight-barLeft, y(at)-y(at+part.Size), d.colours[part.Owner], "none", tip)
		}
	}
	for _, r := range regions {
		d.line(barLeft, y(r.Offset+r.Size), barRight, y(r.Offset+r.Size), "#ffffff", 1.5, "")
	}
	d.add(`<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="%s" rx="2"/>`, barLeft, panelTop, barRight-barLeft, panelHeight, ink)
	for i, at := range spread(middles, labelDistance, panelTop+10, panelBottom-14) {
		r := regions[i]
		d.line(barRight, middles[i], labelLeft-6, at, faint, 0.8, "")
		d.text(labelLeft, at+1, 14, ink, "start", true, clip(r.Name, 30))
		d.text(labelLeft, at+16, 12, faint, "start", false, fmt.Sprintf("%s · %s", human(r.Size), share(r.Size, d.plan.Total)))
	}
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
		d.line(mapLeft, legendTop-24, mapLeft+24, legendTop-24, ink, 1.6, "")
		d.text(mapLeft+32, legendTop-20, 12, faint, "start", false, "live bytes")
	}
	for _, layer := range append(d.layers, "") {
		name := clip(or(layer, "no layer"), 40)
		width := 30 + textWidth(name, 13) + 16
		if x > barLeft && x+width > mapRight {
			x, y = barLeft, y+legendRow
		}
		d.rect(x, y-12, 16, 16, d.colours[layer], "none", "")
		d.text(x+24, y+1, 13, ink, "start", false, name)
		x += width
	}
	return int(y) + 32
}

// add writes one line of the picture.
func (d *drawing) add(format string, args ...any) { fmt.Fprintf(&d.out, format+"\n", args...) }

// rect draws a rectangle. tip is shown under the pointer.
func (d *drawing) rect(x, y, w, h float64, fill, stroke, tip string) {
	if w <= 0 || h <= 0 {
		return
	}
	end := "/>"
	if tip != "" {
		end = "><title>" + escape(tip) + "</title></rect>"
	}
	d.add(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s" stroke="%s" stroke-width="0.6"%s`, x, y, w, h, fill, stroke, end)
}

// line draws a line, dashed if dash is not empty.
func (d *drawing) line(x1, y1, x2, y2 float64, stroke string, width float64, dash string) {
	if dash != "" {
		dash = ` stroke-dasharray="` + dash + `"`
	}
	d.add(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%.1f"%s/>`, x1, y1, x2, y2, stroke, width, dash)
}

// text writes s at a point.
func (d *drawing) text(x, y float64, size int, fill, anchor string, bold bool, s string) {
	weight := ""
	if bold {
		weight = ` font-weight="600"`
	}
	d.add(`<text x="%.1f" y="%.1f" font-size="%d" fill="%s" text-anchor="%s"%s>%s</text>`, x, y, size, fill, anchor, weight, escape(s))
}

// escape escapes s for XML. Characters that XML does not allow become U+FFFD.
func escape(s string) string {
	var b strings.Builder
	// A strings.Builder returns no error.
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}

// textWidth estimates the width of s in pixels; the font depends on the viewer.
func textWidth(s string, size int) float64 { return 0.6 * float64(size) * float64(len([]rune(s))) }

// clip shortens s to n characters.
func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:max(n-1, 0)]) + "…"
	}
	return s
}
