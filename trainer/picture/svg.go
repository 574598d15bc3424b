package picture

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/evenkeel/evenkeel/trainer/report"
)

// writeSVG writes the map of the memory of a plan.
func writeSVG(w io.Writer, p *report.Plan) error {
	var c svgCanvas
	height := drawMap(&c, p)
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" font-family="system-ui, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif">
<title>memory plan: %s bytes</title>
<rect width="%d" height="%d" rx="10" fill="#ffffff"/>
%s</svg>
`, pictureWidth, height, pictureWidth, height, humanize.Comma(p.Total), pictureWidth, height, c.out.String())
	return err
}

// svgCanvas holds the elements of an SVG.
type svgCanvas struct{ out bytes.Buffer }

// add writes one line of the picture.
func (c *svgCanvas) add(format string, args ...any) { fmt.Fprintf(&c.out, format+"\n", args...) }

func (c *svgCanvas) rect(x, y, w, h float64, fill, stroke, tip string) {
	if w <= 0 || h <= 0 {
		return
	}
	end := "/>"
	if tip != "" {
		end = "><title>" + escape(tip) + "</title></rect>"
	}
	c.add(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s" stroke="%s" stroke-width="0.6"%s`, x, y, w, h, fill, stroke, end)
}

func (c *svgCanvas) lines(points []point, fill, stroke string, width float64, dashed bool) {
	var path strings.Builder
	for i, p := range points {
		command := "L"
		if i == 0 {
			command = "M"
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", command, p.x, p.y)
	}
	dash := ""
	if dashed {
		dash = ` stroke-dasharray="5 3"`
	}
	c.add(`<path d="%s" fill="%s" stroke="%s" stroke-width="%.1f"%s/>`, path.String(), fill, stroke, width, dash)
}

func (c *svgCanvas) text(x, y float64, size int, fill, anchor string, bold bool, s string) {
	weight := ""
	if bold {
		weight = ` font-weight="600"`
	}
	c.add(`<text x="%.1f" y="%.1f" font-size="%d" fill="%s" text-anchor="%s"%s>%s</text>`, x, y, size, fill, anchor, weight, escape(s))
}

// escape escapes s for XML. Characters that XML does not allow become U+FFFD.
func escape(s string) string {
	var b strings.Builder
	// A strings.Builder returns no error.
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}
