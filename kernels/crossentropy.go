package kernels

import (
	"math"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// CrossEntropy is the cross entropy of each row's softmax with its class, computed without
// overflow.
//
//	logits [R, C], labels int [R] → loss [R]
//
// loss = log Σ exp(x - max x) - (x[label] - max x). A label outside 0..C-1 gives NaN.
var CrossEntropy = Register(&Op{
	Name:  "cross_entropy",
	Infer: inferRows("cross_entropy", classRow), Ref: refCrossEntropy, Cost: costRows, Cases: rowCases(classRow),
})

// CrossEntropyGrad is the gradient of CrossEntropy.
//
//	logits [R, C], labels int [R], dy [R] → dlogits [R, C]
//
// dlogits = dy·(softmax - onehot(label)). A label outside 0..C-1 gives a row of NaN.
var CrossEntropyGrad = Register(&Op{
	Name: "cross_entropy_grad", InPlace: []int8{0},
	Infer: inferRows("cross_entropy_grad", classRow|rowGrad), Ref: refCrossEntropyGrad, Cost: costRows,
	Cases: rowCases(classRow | rowGrad),
})

// CrossEntropyDense is cross entropy with a distribution over the classes.
//
//	logits [R, C], target [R, C] → loss [R]
//
// loss = -Σ target·logsoftmax(logits).
var CrossEntropyDense = Register(&Op{
	Name:  "cross_entropy_dense",
	Infer: inferRows("cross_entropy_dense", 0), Ref: refCrossEntropyDense, Cost: costRows, Cases: rowCases(0),
})

// CrossEntropyDenseGrad is the gradient of CrossEntropyDense by its logits.
//
//	logits [R, C], target [R, C], dy [R] → dlogits [R, C]
//
// dlogits = dy·(softmax·Σ target - target).
var CrossEntropyDenseGrad = Register(&Op{
	Name: "cross_entropy_dense_grad", InPlace: []int8{0, 1},
	Infer: inferRows("cross_entropy_dense_grad", rowGrad), Ref: refCrossEntropyDenseGrad, Cost: costRows,
	Cases: rowCases(rowGrad),
})

// Correct is 1 for each row whose largest logit, the first of equal ones, is at the label.
//
//	logits [R, C], labels int [R] → y [R], 1 or 0
var Correct = Register(&Op{
	Name:  "correct",
	Infer: inferRows("correct", classRow), Cost: costRows, Cases: rowCases(classRow),
	Ref: func(_ any, in, out []Tensor) {
		c := in[0].Shape[1]
		for i := range out[0].Data {
			out[0].Data[i] = oneIf(float64(argmax(in[0].Data[i*c:][:c])) == in[1].Data[i])
		}
	},
})

// CorrectDense is 1 for each row whose largest logit is where the target is largest; of equal ones
// the first counts.
//
//	logits [R, C], target [R, C] → y [R], 1 or 0
var CorrectDense = Register(&Op{
	Name:  "correct_dense",
	Infer: inferRows("correct_dense", 0), Cost: costRows, Cases: rowCases(0),
	Ref: func(_ any, in, out []Tensor) {
		c := in[0].Shape[1]
		for i := range out[0].Data {
			out[0].Data[i] = oneIf(argmax(in[0].Data[i*c:][:c]) == argmax(in[1].Data[i*c:][:c]))
		}
	},
})

func init() {
	CrossEntropy.Grad = func(g Graph, n Node, dy []Value) []Value {
		return []Value{g.Apply(CrossEntropyGrad, nil, n.In[0], n.In[1], dy[0]), None}
	}
	CrossEntropyDense.Grad = func(g Graph, n Node, dy []Value) []Value {
		x, target := n.In[0], n.In[1]
		rows := g.Spec(x).Shape[0]
		log := g.Apply(LogSoftmax, SoftmaxAttrs{Axis: 1}, x)
		dt := mul(g, log, reshape(g, neg(g, dy[0]), Shape{rows, 1}))
		return []Value{g.Apply(CrossEntropyDenseGrad, nil, x, target, dy[0]), dt}
	}
	Correct.Grad, CorrectDense.Grad = noGrad, noGrad
}

// rowKind is the kind of operands of an op on rows of logits.
type rowKind int

const (
	classRow rowKind = 1 << iota // the target is a class a row, not a distribution
	rowGrad                      // dy [R] follows, and the result is [R, C]
)

// inferRows checks logits, target and dy.
func inferRows(name string, kind rowKind) func(any, []Spec) ([]Spec, error) {
	return func(attrs any, in []Spec) ([]Spec, error) {
		if err := noAttrs(name, attrs); err != nil {
			return nil, err
		}
		n := 2
		if kind&rowGrad != 0 {
			n = 3
		}
		if err := count(name, in, n); err != nil {
			return nil, err
		}
		x, target := in[0], in[1]
		if !x.Type.Float() || len(x.Shape) != 2 {
			return nil, shapeError(name, "logits must be a float matrix, not %v", x)
		}
		rows := Spec{x.Type, Shape{x.Shape[0]}}
		if kind&classRow != 0 {
			if !integer(target.Type) || !target.Shape.Equal(rows.Shape) {
				return nil, shapeError(name, "labels must be uint8, int32 or int64 %v, not %v", rows.Shape, target)
			}
		} else if !target.Equal(x) {
			return nil, shapeError(name, "target must be %v, not %v", x, target)
		}
		if kind&rowGrad == 0 {
			return []Spec{rows}, nil
		}
		if !in[2].Equal(rows) {
			return nil, shapeError(name, "gradient must be %v, not %v", rows, in[2])
		}
		return []Spec{x}, nil
	}
}

func costRows(_ any, in, _ []Spec) int64 { return 5 * int64(in[0].Shape.Elems()) }

// logSum returns the largest element of x and log Σ exp(x - max x).
func logSum(x []float64) (m, log float64) {
	m = lineMax(x, 0, 1, len(x))
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(v - m)
	}
	return m, math.Log(sum)
}

func refCrossEntropy(_ any, in, out []Tensor) {
	c := in[0].Shape[1]
	for i, label := range in[1].Data {
		out[0].Data[i] = math.NaN()
		if label >= 0 && label < float64(c) {
			x := in[0].Data[i*c:][:c]
			m, log := logSum(x)
			out[0].Data[i] = log - (x[int(label)] - m)
		}
	}
}

func refCrossEntropyGrad(_ any, in, out []Tensor) {
	c := in[0].Shape[1]
	for i, label := range in[1].Data {
		x, dx := in[0].Data[i*c:][:c], out[0].Data[i*c:][:c]
		if !(label >= 0 && label < float64(c)) {
			each(dx, func(float64) float64 { return math.NaN() })
			continue
		}
		m, log := logSum(x)
		for j := range x {
			dx[j] = in[2].Data[i] * (math.Exp(x[j]-m-log) - oneIf(j == int(label)))
		}
	}
}

func refCrossEntropyDense(_ any, in, out []Tensor) {
	c := in[0].Shape[1]
	for i := range out[0].Data {
		x, target := in[0].Data[i*c:][:c], in[1].Data[i*c:][:c]
		m, log := logSum(x)
		sum := 0.0
		for j := range x {
			sum -= target[j] * (x[j] - m - log)
		}
		out[0].Data[i] = sum
	}
}

func refCrossEntropyDenseGrad(_ any, in, out []Tensor) {
	c := in[0].Shape[1]
	for i, dy := range in[2].Data {
		x, target, dx := in[0].Data[i*c:][:c], in[1].Data[i*c:][:c], out[0].Data[i*c:][:c]
		m, log := logSum(x)
		sum := 0.0
		for _, t := range target {
			sum += t
		}
		for j := range x {
			dx[j] = dy * (math.Exp(x[j]-m-log)*sum - target[j])
		}
	}
}

// argmax returns the first index of the largest element. NaN is never larger than another.
func argmax(x []float64) int {
	best := 0
	for j, v := range x {
		if v > x[best] {
			best = j
		}
	}
	return best
}

// rowCases are cases of logits, targets and dy. One in eight has a label that is no class.
func rowCases(kind rowKind) caseFunc {
	return func(r *rand.Rand, float arena.DType) Case {
		s := randomShape(r, 2)
		x := Spec{float, s}
		c := Case{In: []Spec{x, x}, Tolerance: sumTolerance(s[1])}
		if kind&classRow != 0 {
			c.In[1] = Spec{randomInteger(r), s[:1]}
		}
		if kind&rowGrad != 0 {
			c.In = append(c.In, Spec{float, s[:1]})
		}
		bad := r.IntN(8) == 0
		c.Fill = func(r *rand.Rand, k int, data []float64) {
			switch {
			case k == 1 && kind&classRow != 0:
				labels(r, data, s[1])
				if bad {
					data[r.IntN(len(data))] = float64(s[1])
				}
			case k == 1:
				between(r, data, 0, 2/float64(s[1]))
			default:
				normal(r, data)
			}
		}
		return c
	}
}
