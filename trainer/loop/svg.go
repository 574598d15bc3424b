package loop

import (
	"fmt"
	"math"
	"strings"
)

// SVG draws the curve: smoothed losses over the rate, on a logarithmic axis, losses as dots, and a line
// at [Curve.Steepest]. Without points it is an empty picture.
func (c Curve) SVG() string {
	const width, height, margin = 640, 400, 48
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	if len(c) > 0 {
		low, high := math.Inf(1), math.Inf(-1)
		for _, p := range c {
			low, high = min(low, p.Smooth), max(high, p.Smooth)
		}
		if high == low {
			high = low + 1
		}
		first, last := math.Log10(c[0].Rate), math.Log10(c[len(c)-1].Rate)
		if last == first {
			last = first + 1
		}
		x := func(rate float64) float64 {
			return margin + (math.Log10(rate)-first)/(last-first)*(width-2*margin)
		}
		y := func(loss float64) float64 {
			return height - margin - (min(max(loss, low), high)-low)/(high-low)*(height-2*margin)
		}
		for d := math.Ceil(first); d <= math.Floor(last); d++ {
			at := x(math.Pow(10, d))
			fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#ddd"/>`+"\n", at, margin, at, height-margin)
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">1e%.0f</text>`+"\n", at, height-margin+16, d)
		}
		for _, v := range []float64{low, high} {
			fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="end">%.3g</text>`+"\n", margin-4, y(v)+4, v)
		}
		for _, p := range c {
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="1.5" fill="#bbb"/>`+"\n", x(p.Rate), y(p.Loss))
		}
		b.WriteString(`<polyline fill="none" stroke="#06c" stroke-width="2" points="`)
		for _, p := range c {
			fmt.Fprintf(&b, "%.1f,%.1f ", x(p.Rate), y(p.Smooth))
		}
		b.WriteString("\"/>\n")
		if s := c.Steepest(); !math.IsNaN(s) {
			fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#c00"/>`+"\n", x(s), margin, x(s), height-margin)
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" fill="#c00">steepest %.2g</text>`+"\n", x(s)+4, margin-8, s)
		}
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">learning rate</text>`+"\n", width/2, height-8)
	b.WriteString("</svg>\n")
	return b.String()
}
