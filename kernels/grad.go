package kernels

// Helpers for gradient rules. The Grad of an op refers to other ops, whose Grad may refer to it:
// init functions set the rules, once all ops exist.

// sumTo sums v over the dimensions along which shape was broadcast to it, and returns a value of
// shape.
func sumTo(g Graph, v Value, shape Shape) Value {
	from := g.Spec(v).Shape
	if from.Equal(shape) {
		return v
	}
	lead := len(from) - len(shape)
	var axes []int
	for i, d := range from {
		if i < lead || shape[i-lead] == 1 && d != 1 {
			axes = append(axes, i)
		}
	}
	if len(axes) > 0 {
		v = g.Apply(Sum, ReduceAttrs{Axes: axes}, v)
	}
	return reshape(g, v, shape)
}

// unaryGrad is the Grad of an op of one operand: dx from x, y and dy.
func unaryGrad(rule func(g Graph, x, y, dy Value) Value) func(Graph, Node, []Value) []Value {
	return func(g Graph, n Node, dy []Value) []Value {
		return []Value{rule(g, n.In[0], n.Out[0], dy[0])}
	}
}

// binaryGrad is the Grad of an op of two operands that broadcast: each gradient is summed to its
// operand's shape.
func binaryGrad(rule func(g Graph, a, b, y, dy Value) (da, db Value)) func(Graph, Node, []Value) []Value {
	return func(g Graph, n Node, dy []Value) []Value {
		a, b := n.In[0], n.In[1]
		da, db := rule(g, a, b, n.Out[0], dy[0])
		return []Value{sumTo(g, da, g.Spec(a).Shape), sumTo(g, db, g.Spec(b).Shape)}
	}
}

// noGrad is the Grad of an op whose gradient is 0 everywhere.
func noGrad(_ Graph, n Node, _ []Value) []Value {
	d := make([]Value, len(n.In))
	for i := range d {
		d[i] = None
	}
	return d
}

func mul(g Graph, a, b Value) Value { return g.Apply(Mul, nil, a, b) }
func div(g Graph, a, b Value) Value { return g.Apply(Div, nil, a, b) }
func neg(g Graph, x Value) Value    { return g.Apply(Neg, nil, x) }

func affine(g Graph, x Value, scale, shift float64) Value {
	return g.Apply(Affine, AffineAttrs{Scale: scale, Shift: shift}, x)
}

func reshape(g Graph, x Value, shape Shape) Value {
	if g.Spec(x).Shape.Equal(shape) {
		return x
	}
	return g.Apply(Reshape, ReshapeAttrs{Shape: shape}, x)
}

// expand broadcasts v, which was reduced along axes, to shape. The axes of v are 1 or missing.
func expand(g Graph, v Value, axes []int, shape Shape) Value {
	v = reshape(g, v, reducedShape(shape, axes, true))
	if g.Spec(v).Shape.Equal(shape) {
		return v
	}
	return g.Apply(Broadcast, BroadcastAttrs{Shape: shape}, v)
}
