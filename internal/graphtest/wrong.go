package graphtest

import (
	"math"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Wrong is a graph that a tape machine computes or differentiates wrongly, or not at all, although
// the graph itself is right.
type Wrong struct {
	Name string
	// Build returns a loss of float64, and the same loss in plain Go, of the elements of all
	// inputs.
	Build func(d *Draft) (loss *gorgonia.Node, want func(x []float64) float64)
}

// Wrongs are such graphs.
var Wrongs = []Wrong{
	{"log2", func(d *Draft) (*gorgonia.Node, func([]float64) float64) {
		return d.Must(gorgonia.Sum(d.Must(gorgonia.Log2(d.Of(d.Positive, 3))))), func(x []float64) (s float64) {
			for _, v := range x {
				s += math.Log2(v)
			}
			return s
		}
	}},
	{"inverse square root", func(d *Draft) (*gorgonia.Node, func([]float64) float64) {
		return d.Must(gorgonia.Sum(d.Must(gorgonia.InverseSqrt(d.Of(d.Positive, 3))))), func(x []float64) (s float64) {
			for _, v := range x {
				s += 1 / math.Sqrt(v)
			}
			return s
		}
	}},
	{"outer product", func(d *Draft) (*gorgonia.Node, func([]float64) float64) {
		return d.Must(gorgonia.Sum(d.Must(gorgonia.Tanh(d.Must(gorgonia.OuterProd(d.In(3), d.In(3))))))), func(x []float64) (s float64) {
			for _, a := range x[:3] {
				for _, b := range x[3:] {
					s += math.Tanh(a * b)
				}
			}
			return s
		}
	}},
	{"outer product of vectors of different lengths", func(d *Draft) (*gorgonia.Node, func([]float64) float64) {
		return d.Must(gorgonia.Sum(d.Must(gorgonia.Tanh(d.Must(gorgonia.OuterProd(d.In(2), d.In(5))))))), func(x []float64) (s float64) {
			for _, a := range x[:2] {
				for _, b := range x[2:] {
					s += math.Tanh(a * b)
				}
			}
			return s
		}
	}},
	{"global average pooling", func(d *Draft) (*gorgonia.Node, func([]float64) float64) {
		y := d.Must(gorgonia.GlobalAveragePool2D(d.In(2, 3, 2, 2)))
		return d.Must(gorgonia.Sum(d.Must(gorgonia.Square(y)))), func(x []float64) (s float64) {
			for i := 0; i < len(x); i += 4 {
				m := (x[i] + x[i+1] + x[i+2] + x[i+3]) / 4
				s += m * m
			}
			return s
		}
	}},
	{"sum along the third of four axes", func(d *Draft) (*gorgonia.Node, func([]float64) float64) {
		return alongThird(d, gorgonia.Sum, func(a, b, c float64) float64 { return a + b + c })
	}},
	{"mean along the third of four axes", func(d *Draft) (*gorgonia.Node, func([]float64) float64) {
		return alongThird(d, gorgonia.Mean, func(a, b, c float64) float64 { return (a + b + c) / 3 })
	}},
	{"maximum along the third of four axes", func(d *Draft) (*gorgonia.Node, func([]float64) float64) {
		return alongThird(d, gorgonia.Max, func(a, b, c float64) float64 { return max(a, b, c) })
	}},
	{"logarithm of a sum of exponentials along an axis", func(d *Draft) (*gorgonia.Node, func([]float64) float64) {
		sums := d.Must(gorgonia.Sum(d.Must(gorgonia.Exp(d.In(2, 3))), 1))
		return d.Must(gorgonia.Sum(d.Must(gorgonia.Log(sums)))), func(x []float64) float64 {
			return math.Log(math.Exp(x[0])+math.Exp(x[1])+math.Exp(x[2])) + math.Log(math.Exp(x[3])+math.Exp(x[4])+math.Exp(x[5]))
		}
	}},
	{"sparsemax of a vector", func(d *Draft) (*gorgonia.Node, func([]float64) float64) { return sparsemax(d, -1, 6) }},
	{"sparsemax of a vector along 0", func(d *Draft) (*gorgonia.Node, func([]float64) float64) { return sparsemax(d, 0, 6) }},
	{"sparsemax of rows", func(d *Draft) (*gorgonia.Node, func([]float64) float64) { return sparsemax(d, -1, 3, 5) }},
	{"sparsemax of columns", func(d *Draft) (*gorgonia.Node, func([]float64) float64) { return sparsemax(d, 0, 4, 3) }},
	{"sparsemax along the middle", func(d *Draft) (*gorgonia.Node, func([]float64) float64) { return sparsemax(d, 1, 2, 4, 3) }},
	{"sparsemax along the last of 3", func(d *Draft) (*gorgonia.Node, func([]float64) float64) { return sparsemax(d, 2, 2, 3, 4) }},
	{"CTC loss, sum", func(d *Draft) (*gorgonia.Node, func([]float64) float64) {
		return ctc(d, gorgonia.ReductionSum, false)
	}},
	{"CTC loss, mean", func(d *Draft) (*gorgonia.Node, func([]float64) float64) {
		return ctc(d, gorgonia.ReductionMean, false)
	}},
	{"CTC loss, mean, targets in one row", func(d *Draft) (*gorgonia.Node, func([]float64) float64) {
		return ctc(d, gorgonia.ReductionMean, true)
	}},
	{"an element at coordinates", func(d *Draft) (*gorgonia.Node, func([]float64) float64) {
		return d.Must(gorgonia.Square(d.Must(gorgonia.At(d.In(2, 3), 1, 2)))), func(x []float64) float64 { return x[5] * x[5] }
	}},
	{"mean of log(p ⊙ y)", func(d *Draft) (*gorgonia.Node, func([]float64) float64) {
		p := d.Must(gorgonia.SoftMax(d.In(2, 3)))
		y := gorgonia.NewConstant(tensor.New(tensor.WithShape(2, 3), tensor.WithBacking([]float64{.2, .3, .5, .1, .8, .1})), gorgonia.WithName("y"))
		return d.Must(gorgonia.Neg(d.Must(gorgonia.Mean(d.Must(gorgonia.Log(d.Must(gorgonia.HadamardProd(p, y)))))))), func(x []float64) (s float64) {
			for i, y := range []float64{.2, .3, .5, .1, .8, .1} {
				row := x[i/3*3:][:3]
				s -= math.Log(math.Exp(x[i])/(math.Exp(row[0])+math.Exp(row[1])+math.Exp(row[2]))*y) / 6
			}
			return s
		}
	}},
	{"a large constant of one element", func(d *Draft) (*gorgonia.Node, func([]float64) float64) {
		k := make([]float64, 2500)
		k[1234] = 3
		x := d.In(50, 50)
		return d.Must(gorgonia.Sum(d.Must(gorgonia.HadamardProd(x, gorgonia.NewConstant(tensor.New(tensor.WithShape(50, 50), tensor.WithBacking(k))))))),
			func(x []float64) float64 { return 3 * x[1234] }
	}},
	{"pieces longer than 255", func(d *Draft) (*gorgonia.Node, func([]float64) float64) {
		x := d.In(600)
		a := d.Must(gorgonia.Slice(x, gorgonia.S(10, 20)))
		return d.Must(gorgonia.Sum(d.Must(gorgonia.Square(d.Must(gorgonia.Concat(0, x, a)))))), func(x []float64) (s float64) {
			for i, v := range x {
				if s += v * v; i >= 10 && i < 20 {
					s += v * v
				}
			}
			return s
		}
	}},
	{"a value that is reshaped and used", func(d *Draft) (*gorgonia.Node, func([]float64) float64) {
		e := d.Must(gorgonia.Tanh(d.In(2, 3)))
		r := d.Must(gorgonia.Reshape(e, tensor.Shape{3, 2}))
		a, b := d.Must(gorgonia.Sum(d.Must(gorgonia.Square(r)))), d.Must(gorgonia.Sum(d.Must(gorgonia.Exp(e))))
		return d.Must(gorgonia.Add(a, b)), func(x []float64) (s float64) {
			for _, v := range x {
				s += math.Tanh(v)*math.Tanh(v) + math.Exp(math.Tanh(v))
			}
			return s
		}
	}},
}

// Slopes returns the gradient of f at x by central differences, which err by the third derivative
// times 1e-10.
func Slopes(f func(x []float64) float64, x []float64) []float64 {
	const step = 1e-5
	slopes := make([]float64, len(x))
	for i, was := range x {
		x[i] = was + step
		up := f(x)
		x[i] = was - step
		down := f(x)
		x[i] = was
		slopes[i] = (up - down) / (2 * step)
	}
	return slopes
}

// alongThird returns a loss of the reduction f of an input [4, 2, 3, 2] along its axis of 3, and
// the same loss by g of three elements.
func alongThird(d *Draft, f func(a *gorgonia.Node, along ...int) (*gorgonia.Node, error),
	g func(a, b, c float64) float64) (*gorgonia.Node, func(x []float64) float64) {
	y := d.Must(gorgonia.Tanh(d.Must(f(d.In(4, 2, 3, 2), 2))))
	return d.Must(gorgonia.Sum(y)), func(x []float64) (s float64) {
		for i := range 16 {
			lane := x[i/2*6+i%2:]
			s += math.Tanh(g(lane[0], lane[2], lane[4]))
		}
		return s
	}
}

// sparsemax returns a loss of the sparsemax of an input along an axis, -1 for the last, and the
// same loss by bisection for the threshold of each lane.
func sparsemax(d *Draft, axis int, dims ...int) (*gorgonia.Node, func(x []float64) float64) {
	var along []int
	if axis >= 0 {
		along = append(along, axis)
	} else {
		axis = len(dims) - 1
	}
	p := d.Must(gorgonia.Sparsemax(d.In(dims...), along...))
	weights := make([]float64, tensor.Shape(dims).TotalSize())
	for i := range weights {
		weights[i] = float64(i%7) + 1
	}
	w := gorgonia.NewConstant(tensor.New(tensor.WithShape(dims...), tensor.WithBacking(weights)), gorgonia.WithName("weights"))
	loss := d.Must(gorgonia.Sum(d.Must(gorgonia.HadamardProd(w, d.Must(gorgonia.Square(p))))))
	n, inner := dims[axis], tensor.Shape(dims[axis+1:]).TotalSize()
	return loss, func(x []float64) (s float64) {
		for start := range len(x) {
			if start/inner%n != 0 {
				continue
			}
			mass := func(tau float64) (m float64) {
				for i := range n {
					m += max(x[start+i*inner]-tau, 0)
				}
				return m
			}
			lo, hi := -20.0, 20.0
			for range 200 {
				if mid := (lo + hi) / 2; mass(mid) > 1 {
					lo = mid
				} else {
					hi = mid
				}
			}
			for i := range n {
				at := start + i*inner
				y := max(x[at]-lo, 0)
				s += weights[at] * y * y
			}
		}
		return s
	}
}

// ctc returns a CTC loss of 3 samples, and the same loss by enumeration of all sequences of labels.
// One target is empty, one repeats a label, and one sample is shorter than the others.
func ctc(d *Draft, reduction gorgonia.Reduction, flat bool) (*gorgonia.Node, func(x []float64) float64) {
	const steps, samples, labels = 4, 3, 3
	targets, lengths := [][]int{{1, 1}, {}, {2, 1}}, []int{4, 4, 3}
	ints := func(name string, x []int, dims ...int) *gorgonia.Node {
		return gorgonia.NewConstant(tensor.New(tensor.WithShape(dims...), tensor.WithBacking(x)), gorgonia.WithName(name))
	}
	t := ints("targets", []int{1, 1, 0, 0, 2, 1}, 3, 2)
	if flat {
		t = ints("targets", []int{1, 1, 2, 1}, 4)
	}
	loss := d.Must(gorgonia.CTCLoss(d.In(steps, samples, labels), t, ints("steps", lengths, 3), ints("lengths", []int{2, 0, 2}, 3), reduction))
	return loss, func(x []float64) (total float64) {
		for b, target := range targets {
			p := 0.0
			for code := range int(math.Pow(labels, float64(lengths[b]))) {
				sum, last, found := 0.0, 0, []int(nil)
				for i := range lengths[b] {
					label := code % labels
					code /= labels
					if sum += x[(i*samples+b)*labels+label]; label != last && label != 0 {
						found = append(found, label)
					}
					last = label
				}
				if slices.Equal(found, target) {
					p += math.Exp(sum)
				}
			}
			if loss := -math.Log(p); reduction == gorgonia.ReductionMean {
				total += loss / float64(max(len(target), 1)) / samples
			} else {
				total += loss
			}
		}
		return total
	}
}
