package picture

import (
	"fmt"
	"image/color"
	"io"
	"sync"

	"golang.org/x/image/font"
	gonum "gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/evenkeel/evenkeel/trainer/report"
)

// dotsPerInch of a PNG: two dots for each of the 96 pixels of an inch, for sharp screens.
const dotsPerInch = 2 * 96

// pixel is the length of a pixel of the map.
const pixel = vg.Inch / 96

// fonts returns the fonts of letters, parsed once.
var fonts = sync.OnceValue(func() *gonum.Cache { return gonum.NewCache(liberation.Collection()) })

// writePNG writes the map of the memory of a plan. It draws twice: the first time finds the height.
func writePNG(w io.Writer, p *report.Plan) error {
	height := drawMap(&svgCanvas{}, p)
	c := pngCanvas{vgimg.NewWith(vgimg.UseWH(pictureWidth*pixel, vg.Length(height)*pixel), vgimg.UseDPI(dotsPerInch)), float64(height)}
	drawMap(&c, p)
	_, err := vgimg.PngCanvas{Canvas: c.Canvas}.WriteTo(w)
	return err
}

// pngCanvas draws on an image, whose y grows upwards.
type pngCanvas struct {
	*vgimg.Canvas
	height float64 // pixels
}

// at converts a point.
func (c *pngCanvas) at(x, y float64) vg.Point {
	return vg.Point{X: vg.Length(x) * pixel, Y: vg.Length(c.height-y) * pixel}
}

func (c *pngCanvas) rect(x, y, w, h float64, fill, stroke, _ string) {
	if w <= 0 || h <= 0 {
		return
	}
	c.lines([]point{{x, y}, {x + w, y}, {x + w, y + h}, {x, y + h}, {x, y}}, fill, stroke, 0.6, false)
}

func (c *pngCanvas) lines(points []point, fill, stroke string, width float64, dashed bool) {
	var path vg.Path
	for i, p := range points {
		if i == 0 {
			path.Move(c.at(p.x, p.y))
		} else {
			path.Line(c.at(p.x, p.y))
		}
	}
	if fill != none {
		closed := append(path[:len(path):len(path)], vg.PathComp{Type: vg.CloseComp})
		c.SetColor(rgb(fill))
		c.Fill(closed)
	}
	if stroke != none {
		c.SetLineDash(nil, 0)
		if dashed {
			c.SetLineDash([]vg.Length{5 * pixel, 3 * pixel}, 0)
		}
		c.SetColor(rgb(stroke))
		c.SetLineWidth(vg.Length(width) * pixel)
		c.Stroke(path)
	}
}

func (c *pngCanvas) text(x, y float64, size int, fill, anchor string, bold bool, s string) {
	f := gonum.Font{Typeface: "Liberation", Variant: "Sans"}
	if bold {
		f.Weight = font.WeightBold
	}
	face := fonts().Lookup(f, vg.Length(size)*pixel)
	at := c.at(x, y)
	switch width := face.Width(s); anchor {
	case "middle":
		at.X -= width / 2
	case "end":
		at.X -= width
	}
	c.SetColor(rgb(fill))
	c.FillString(face, at, s)
}

// rgb parses a colour of the map, black if it is none.
func rgb(s string) color.RGBA {
	var c color.RGBA
	if _, err := fmt.Sscanf(s, "#%02x%02x%02x", &c.R, &c.G, &c.B); err != nil {
		return color.RGBA{A: 255}
	}
	c.A = 255
	return c
}
