package kernels

// unary is an elementwise op of one float operand and no attributes, which may run in place.
// x -> y of the same spec.
func unary(name string, elem func(x float64) float64, cases caseFunc, gorgonia ...string) *Op {
	e := func(_ any, x, _ float64) float64 { return elem(x) }
	return &Op{
		Name: name, Gorgonia: gorgonia, InPlace: []int8{0}, Cases: cases, Elem: e,
		Infer: same(name, 1),
		Ref:   func(attrs any, in, out []Tensor) { refElem(e, attrs, in, out) },
	}
}

// binary is an elementwise op of two float operands that broadcast, and no attributes.
// a, b -> y of the broadcast shape. It may overwrite an operand that has that shape.
func binary(name string, elem func(x, y float64) float64, cases caseFunc, gorgonia ...string) *Op {
	e := func(_ any, x, y float64) float64 { return elem(x, y) }
	return &Op{
		Name: name, Gorgonia: gorgonia, InPlace: []int8{0, 1}, Cases: cases, Elem: e,
		Infer: func(attrs any, in []Spec) ([]Spec, error) {
			if err := noAttrs(name, attrs); err != nil {
				return nil, err
			}
			return inferBroadcast(name, in, 2)
		},
		Ref: func(attrs any, in, out []Tensor) { refElem(e, attrs, in, out) },
	}
}

// inferBroadcast returns the spec of n float operands broadcast to one shape.
func inferBroadcast(name string, in []Spec, n int) ([]Spec, error) {
	if err := floats(name, in, n); err != nil {
		return nil, err
	}
	shapes := make([]Shape, n)
	for i, s := range in {
		shapes[i] = s.Shape
	}
	shape, err := broadcastShapes(shapes...)
	if err != nil {
		return nil, shapeError(name, "shapes %v do not broadcast", shapes)
	}
	return []Spec{{in[0].Type, shape}}, nil
}

// refElem applies elem to every element of one or two operands that broadcast to out.
func refElem(elem func(attrs any, x, y float64) float64, attrs any, in, out []Tensor) {
	y := out[0].Data
	if len(in) == 1 {
		for i, x := range in[0].Data {
			y[i] = elem(attrs, x, 0)
		}
		return
	}
	a, b := in[0].Data, in[1].Data
	if in[0].Shape.Equal(in[1].Shape) {
		for i := range y {
			y[i] = elem(attrs, a[i], b[i])
		}
		return
	}
	shape := out[0].Shape
	st := [][]int{broadcastStrides(in[0].Shape, shape), broadcastStrides(in[1].Shape, shape)}
	forEachIndex(shape, st, func(i int, at []int) { y[i] = elem(attrs, a[at[0]], b[at[1]]) })
}
