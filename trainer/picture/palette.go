package picture

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/trainer/report"
)

// shared is the colour of memory that belongs to no layer.
const shared = "#c4cad1"

// tableau is Tableau 10 without its red, which marks the peak, and its grey.
var tableau = []string{"#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#76b7b2", "#edc948", "#ff9da7", "#9c755f"}

// palette gives each layer a colour. The zero value is ready to use.
type palette struct {
	colours map[string]string
	layers  []string // those that have a colour of their own, in order
}

// addPlan gives colours to the layers of a plan, and to those of the scratch of its first program.
func (p *palette) addPlan(plan *report.Plan) {
	p.add("")
	for _, l := range plan.Layers() {
		p.add(l.Name)
	}
	for _, q := range plan.Programs[:min(1, len(plan.Programs))] {
		for _, b := range q.Buffers {
			p.add(b.Owner)
		}
	}
}

// add gives a layer the next colour: of tableau, then of the colour wheel.
func (p *palette) add(layer string) {
	if p.colours == nil {
		p.colours = map[string]string{"": shared}
	}
	if _, ok := p.colours[layer]; ok {
		return
	}
	n := len(p.layers)
	if n < len(tableau) {
		p.colours[layer] = tableau[n]
	} else {
		// Steps of the golden angle never repeat a hue.
		p.colours[layer] = hsl(math.Mod(float64(n)*137.508, 360), 0.45, 0.45+0.1*float64(n%3))
	}
	p.layers = append(p.layers, layer)
}

// hsl returns a colour of a hue in degrees; saturation and lightness are 0 to 1.
func hsl(hue, saturation, lightness float64) string {
	channel := func(n float64) uint8 {
		k := math.Mod(n+hue/30, 12)
		a := saturation * min(lightness, 1-lightness)
		return uint8(math.Round(255 * (lightness - a*max(-1, min(k-3, 9-k, 1)))))
	}
	return fmt.Sprintf("#%02x%02x%02x", channel(0), channel(8), channel(4))
}

// lettersOn returns the colour of letters on a box: dark where the box is bright.
func lettersOn(fill string) string {
	if c := rgb(fill); 0.299*float64(c.R)+0.587*float64(c.G)+0.114*float64(c.B) > 150 {
		return ink
	}
	return "#ffffff"
}
