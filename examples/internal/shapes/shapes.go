// Package shapes draws a data set of images that a convolutional network can learn and a linear
// classifier cannot.
package shapes

import (
	"math"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/dataloader"
)

// Images have three channels of Side×Side pixels.
const (
	Side    = 32
	Classes = 10
)

// outlines are the shapes: each reports whether a point of [-1, 1]² is inside.
var outlines = [Classes / 2]func(u, v float64) bool{
	func(u, v float64) bool { return u*u+v*v <= 1 },                               // disc
	func(u, v float64) bool { return math.Max(math.Abs(u), math.Abs(v)) <= 0.85 }, // square
	func(u, v float64) bool { return v <= 0.85 && math.Abs(u) <= (v+1)*0.57 },     // triangle
	func(u, v float64) bool { return u*u+v*v <= 1 && u*u+v*v >= 0.3 },             // ring
	func(u, v float64) bool {
		return math.Min(math.Abs(u), math.Abs(v)) <= 0.3 && math.Max(math.Abs(u), math.Abs(v)) <= 1
	}, // cross
}

// Sets draws a training and a test set of striped shapes with noise, which depend only on the
// seed. The class is one of five shapes and the direction of its stripes, horizontal or vertical.
//
// Place, size, colours, and the width and phase of the stripes are random, shapes and stripes are
// rotated by up to 15 degrees, and each pixel has noise. A single pixel therefore carries little
// information: a linear classifier stays near chance, 10 %, and a convolutional network must
// combine edges.
func Sets(seed uint64, train, test int) (dataloader.Dataset, dataloader.Dataset, error) {
	a, err := drawSet(seed, 0, train)
	if err != nil {
		return nil, nil, err
	}
	b, err := drawSet(seed, 1<<32, test)
	return a, b, err
}

// drawSet draws n images, numbered from first. Image i does not depend on n.
func drawSet(seed uint64, first uint64, n int) (dataloader.Dataset, error) {
	pixels, labels := make([]uint8, n*3*Side*Side), make([]uint8, n)
	for i := range labels {
		r := rand.New(rand.NewPCG(seed, first+uint64(i)))
		labels[i] = uint8(r.IntN(Classes))
		Draw(r, int(labels[i]), pixels[i*3*Side*Side:][:3*Side*Side])
	}
	x := dataloader.Column("x", pixels, 3, Side, Side).Scaled(1.0/255, 0)
	return dataloader.FromSlices(n, x, dataloader.Column("y", labels))
}

// Draw draws an image [3, 32, 32] of a class.
func Draw(r *rand.Rand, class int, dst []uint8) {
	inside := outlines[class/2]
	radius := 8 + 4*r.Float64()
	cx, cy := radius+(Side-2*radius)*r.Float64(), radius+(Side-2*radius)*r.Float64()
	sin, cos := math.Sincos((2*r.Float64() - 1) * math.Pi / 12)
	period, phase := 4+2*r.Float64(), 2*math.Pi*r.Float64()
	ground, stripe := colour(r), [2][3]float64{colour(r), colour(r)}
	for distance(stripe[0], stripe[1]) < 120 {
		stripe[1] = colour(r)
	}
	noise := 10 + 15*r.Float64()
	for y := range Side {
		for x := range Side {
			dx, dy := float64(x)-cx, float64(y)-cy
			u, v := (cos*dx+sin*dy)/radius, (cos*dy-sin*dx)/radius
			pixel := ground
			if inside(u, v) {
				across := v
				if class%2 == 1 {
					across = u
				}
				pixel = stripe[0]
				if math.Sin(2*math.Pi*across*radius/period+phase) > 0 {
					pixel = stripe[1]
				}
			}
			for c := range 3 {
				dst[(c*Side+y)*Side+x] = uint8(min(max(pixel[c]+noise*r.NormFloat64(), 0), 255))
			}
		}
	}
}

// colour draws a colour.
func colour(r *rand.Rand) [3]float64 {
	return [3]float64{255 * r.Float64(), 255 * r.Float64(), 255 * r.Float64()}
}

// distance returns the distance of two colours.
func distance(a, b [3]float64) float64 {
	return math.Sqrt((a[0]-b[0])*(a[0]-b[0]) + (a[1]-b[1])*(a[1]-b[1]) + (a[2]-b[2])*(a[2]-b[2]))
}
