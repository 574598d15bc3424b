package kernels

import (
	"math"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// AdafactorAttrs are the attributes of Adafactor.
type AdafactorAttrs struct {
	UpdateAttrs
	Epsilon  float64 // added to the square of each element of the gradient
	Limit    float64 // of the root mean square of a step before the rate is applied: a larger step is scaled down to it
	Relative bool    // the rate is multiplied by the parameter's root mean square, or by Least if that is larger
	Least    float64
}

// LeastEpsilon is the lower limit of Adafactor's Epsilon: a normal number of float32, so that the
// mean of squares is above 0 even if all gradients are 0.
const LeastEpsilon = 0x1p-126

// Adafactor keeps running means of squared gradients for the rows and the columns of each matrix,
// instead of for each element. A parameter consists of the matrices of its last two dimensions; a
// vector is not factored. controls[2] is the weight of the new squares in the running means, 1 -
// β₂.
//
//	R, C = means of g² + Epsilon over each row and each column, running with weight controls[2]
//	u = g / √(R·C / mean R);  u /= max(1, rms(u) / Limit)
//	param -= rate·(rms(param) or Least if Relative)·u + rate·Decay·param
//
// R and C are limited (numeric.MostSquare), so that the step of a finite gradient is finite. rms is
// over the whole parameter.
// Source: Shazeer and Stern, ICML 2018, algorithms 4 and 5, without momentum, with the decay of
// PyTorch's torch.optim.Adafactor. Operands: see update.go; the states are those of
// AdafactorStates.
var Adafactor = Register(&Op{
	Name: "adafactor", Updates: []int8{0, 4, 5},
	Infer: inferAdafactor, Ref: refAdafactor, Cases: adafactorCase,
	Cost: func(_ any, in, _ []Spec) int64 { return 12 * int64(in[0].Shape.Elems()) },
})

// factorSpecs returns the specs of Adafactor's states: a mean for each row, and one for each column.
func factorSpecs(param Spec) (rows, columns Spec) {
	s, n := param.Shape, len(param.Shape)
	if n < 2 {
		return param, Spec{param.Type, Shape{1}}
	}
	columns = Spec{param.Type, append(append(Shape{}, s[:n-2]...), s[n-1])}
	return Spec{param.Type, append(Shape{}, s[:n-1]...)}, columns
}

// AdafactorStates returns the states of Adafactor for a parameter.
func AdafactorStates(param Spec) []State {
	rows, columns := factorSpecs(param)
	return []State{{"rows", rows}, {"columns", columns}}
}

func inferAdafactor(attrs any, in []Spec) ([]Spec, error) {
	const name = "adafactor"
	a, err := attrsOf[AdafactorAttrs](name, attrs)
	if err != nil {
		return nil, err
	}
	if !(a.Epsilon >= LeastEpsilon && a.Limit > 0 && a.Least > 0) || math.IsInf(a.Epsilon+a.Limit+a.Least, 0) {
		return nil, attrError(name, "epsilon %v, limit %v and least size %v must be finite, the first at least %v, the others above 0", a.Epsilon, a.Limit, a.Least, LeastEpsilon)
	}
	return inferStates(name, a.Common(), in, AdafactorStates)
}

func refAdafactor(attrs any, in, out []Tensor) {
	a := attrs.(AdafactorAttrs)
	scale := copyUpdate(a.Common(), in, out)
	matrices, rows, columns := numeric.Matrices(in[0].Shape)
	param, n := out[0].Data, float64(len(out[0].Data))
	if in[2].Data[0] != 0 || n == 0 {
		return
	}
	rate, fresh, size := in[3].Data[0], in[3].Data[2], 1.0
	if a.Relative {
		size = max(a.Least, math.Sqrt(squareSum(param)/n))
	}
	step := make([]float64, len(param))
	for i, g := range in[1].Data {
		step[i] = a.Common().prepare(g, scale)
	}
	for m := range matrices {
		at := rows * columns
		factorStep(step[m*at:][:at], out[1].Data[m*rows:][:rows], out[2].Data[m*columns:][:columns], a.Epsilon, fresh,
			numeric.MostSquare(out[1].Type))
	}
	by := rate * size / max(1, math.Sqrt(squareSum(step)/n)/a.Limit)
	for i, u := range step {
		param[i] -= by*u + rate*a.Decay*param[i]
	}
}

// factorStep updates the means of a matrix's squares, and divides g by the root of the mean that
// they give for each element.
func factorStep(g, rows, columns []float64, epsilon, fresh, most float64) {
	byRow, byColumn := make([]float64, len(rows)), make([]float64, len(columns))
	for i, v := range g {
		square := v*v + epsilon
		byRow[i/len(columns)] += square
		byColumn[i%len(columns)] += square
	}
	mean := 0.0
	for i, v := range byRow {
		rows[i] = min((1-fresh)*rows[i]+fresh*v/float64(len(columns)), most)
		mean += rows[i] / float64(len(rows))
	}
	for j, v := range byColumn {
		columns[j] = min((1-fresh)*columns[j]+fresh*v/float64(len(rows)), most)
	}
	for i := range g {
		g[i] /= math.Sqrt(rows[i/len(columns)]/mean) * math.Sqrt(columns[i%len(columns)])
	}
}

func squareSum(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return sum
}

// adafactorCase has means of 0.5 and more, so that no step is a quotient of small numbers. The
// squares of some gradients overflow their type.
func adafactorCase(r *rand.Rand, float arena.DType) Case {
	relative := r.IntN(2) == 0
	c := updateCase(r, float, 2, func(r *rand.Rand, u UpdateAttrs) AdafactorAttrs {
		return AdafactorAttrs{u, 1e-30, 0.25 + r.Float64(), relative, 1e-3}
	})
	first, fill, huge := len(c.In)-2, c.Fill, r.IntN(4) == 0
	if r.IntN(4) == 0 { // enough rows for several blocks of a device
		c.In[0].Shape = Shape{1 + r.IntN(300), 1 + r.IntN(80)}
		c.In[1] = c.In[0]
	}
	c.In[first], c.In[first+1] = factorSpecs(c.In[0])
	c.Fill = func(r *rand.Rand, k int, data []float64) {
		fill(r, k, data)
		switch {
		case k == 1 && huge:
			most := math.Sqrt(numeric.MostSquare(float))
			for i := range data {
				data[i] *= math.Pow(most, 1.25*r.Float64())
			}
		case k == 3:
			data[2] = math.Pow(3, -0.8) // update 3
		case k >= first:
			between(r, data, 0.5, 1)
		}
	}
	return c
}
