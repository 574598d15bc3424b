package onnx

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
	"github.com/evenkeel/evenkeel/trainer"
)

// translate fills the graph, from the results back to the inputs.
func (e *exporter) translate() error {
	e.index()
	e.graph.Name = "evenkeel"
	for _, field := range e.forward.Inputs() {
		e.taken[field] = true
	}
	for v := range e.a.Values { // parameters keep their names whatever else is called so
		if e.stored(kernels.Value(v)) {
			e.taken[e.a.Values[v].Name] = true
		}
	}
	if err := e.inputs(); err != nil {
		return err
	}
	for _, r := range e.a.Results {
		e.value(r.Value)
	}
	if len(e.failed) > 0 {
		return &ExportError{Operations: e.failed}
	}
	if e.err != nil {
		return e.err
	}
	if err := e.outputs(); err != nil {
		return err
	}
	operators := make(map[string]bool)
	for _, n := range e.graph.Nodes {
		operators[n.Op] = true
	}
	e.done.Nodes, e.done.Operators = len(e.graph.Nodes), slices.Sorted(maps.Keys(operators))
	return nil
}

// index finds the maker and the readers of each value.
func (e *exporter) index() {
	n := len(e.a.Values)
	e.makers, e.uses, e.names = slices.Repeat([]int{-1}, n), make([]int, n), make([]string, n)
	for i, in := range e.a.Instrs {
		for _, v := range in.Out {
			e.makers[v] = i
		}
		if in.Op == kernels.CheckIndex { // the checks of a step; a runtime has its own
			continue
		}
		for _, v := range in.In {
			e.uses[v]++
		}
	}
	for _, r := range e.a.Results {
		e.uses[r.Value]++
	}
}

// stored reports whether v is a parameter, a constant or a running statistic.
func (e *exporter) stored(v kernels.Value) bool {
	x := &e.a.Values[v]
	return x.Home && (x.Ref.Region == ir.Parameters || x.Ref.Region == ir.Statistics)
}

// inputs declares the inputs that the program reads.
func (e *exporter) inputs() error {
	for _, field := range e.forward.Inputs() {
		v := kernels.Value(slices.IndexFunc(e.a.Values, func(x ir.Value) bool {
			return x.Home && x.Ref.Region == ir.Slot && x.Name == field
		}))
		if v < 0 || e.uses[v] == 0 {
			continue
		}
		dims, err := e.dims(v)
		if err != nil {
			return err
		}
		e.names[v] = field
		e.graph.Inputs = append(e.graph.Inputs, e.info(field, v, dims))
		e.done.Inputs = append(e.done.Inputs, e.row(field, v))
	}
	return nil
}

// row returns the name and spec of one row of v.
func (e *exporter) row(name string, v kernels.Value) trainer.NamedSpec {
	s := e.a.Spec(v)
	return trainer.NamedSpec{Name: name, Spec: kernels.Spec{Type: s.Type, Shape: slices.Clone(s.Shape[min(1, len(s.Shape)):])}}
}

// info declares a value.
func (e *exporter) info(name string, v kernels.Value, dims []exportDim) proto.ValueInfo {
	info := proto.ValueInfo{Name: name, Type: exportType(e.a.Spec(v).Type), HasShape: true}
	for _, d := range dims {
		switch {
		case d.per == 0:
			info.Dims = append(info.Dims, proto.Dim{HasValue: true, Value: int64(d.plus)})
		case d == exportDim{per: 1}:
			info.Dims = append(info.Dims, proto.Dim{Param: e.opt.BatchName})
		default:
			info.Dims = append(info.Dims, proto.Dim{Param: d.String(e.opt.BatchName)})
		}
	}
	return info
}

// outputs declares the results and gives them their names.
func (e *exporter) outputs() error {
	var errs []error
	for i, r := range e.a.Results {
		dims, err := e.dims(r.Value)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		name := r.Name
		if i > 0 || e.taken[name] { // an input or a parameter may be called "output"
			name = e.fresh(r.Name)
		}
		e.taken[name] = true
		e.label = name
		e.names[r.Value] = e.rename(e.names[r.Value], name)
		e.graph.Outputs = append(e.graph.Outputs, e.info(name, r.Value, dims))
		e.done.Outputs = append(e.done.Outputs, e.row(name, r.Value))
	}
	return errors.Join(errs...)
}

// rename gives a value of the file another name. One that is an input, an initializer or an output
// already gets a copy of that name.
func (e *exporter) rename(from, to string) string {
	isOutput := slices.ContainsFunc(e.graph.Outputs, func(o proto.ValueInfo) bool { return o.Name == from })
	made := slices.ContainsFunc(e.graph.Nodes, func(n proto.Node) bool { return slices.Contains(n.Outputs, from) })
	if isOutput || !made {
		e.graph.Nodes = append(e.graph.Nodes, proto.Node{Name: to, Op: "Identity", Inputs: []string{from}, Outputs: []string{to}})
		return to
	}
	for i := range e.graph.Nodes {
		for _, list := range [][]string{e.graph.Nodes[i].Inputs, e.graph.Nodes[i].Outputs} {
			for k, s := range list {
				if s == from {
					list[k] = to
				}
			}
		}
	}
	return to
}

// value returns the name of v in the file, and translates what computes it the first time.
func (e *exporter) value(v kernels.Value) string {
	if e.names[v] != "" {
		return e.names[v]
	}
	if e.makers[v] < 0 {
		e.names[v] = e.home(v)
		return e.names[v]
	}
	i := e.makers[v]
	a, b := &e.a.Instrs[i], &e.b.Instrs[i]
	rule := exportRules[a.Op]
	was := e.label
	e.label = a.Label
	defer func() { e.label = was }()
	name, err := "", error(nil)
	switch {
	case a.Op == kernels.Host:
		err = fmt.Errorf("it is computed by Gorgonia's own code, %v", a.Attrs)
	case rule == nil:
		err = errors.New("ONNX has no such operator")
	case len(a.Out) > 1 && a.Out[0] != v && a.Op != kernels.TopK:
		err = fmt.Errorf("result %d is not exported", slices.Index(a.Out, v))
	default:
		name, err = rule(e, &exportInstr{a: a, b: b, out: slices.Index(a.Out, v)})
	}
	if err != nil {
		e.failed = append(e.failed, ExportRefusal{Operation: a.Op.Name, Node: a.Label, Reason: err.Error()})
		name = "?"
		e.operands(a.In) // others may be refused, too
	}
	e.names[v] = name
	return name
}

// operands returns the names of the operands of an instruction.
func (e *exporter) operands(in []kernels.Value) []string {
	var names []string
	for _, v := range in {
		names = append(names, e.value(v))
	}
	return names
}

// fresh returns name, or name with a number where it is taken.
func (e *exporter) fresh(name string) string {
	base := name
	for i := 1; e.taken[name]; i++ {
		name = base + "_" + strconv.Itoa(i)
	}
	e.taken[name] = true
	return name
}

// node appends a node of one output, and returns the name of it.
func (e *exporter) node(op string, in []string, attrs ...proto.Attribute) string {
	name := e.fresh(e.nameOf(op))
	e.graph.Nodes = append(e.graph.Nodes, proto.Node{Name: name, Op: op, Inputs: slices.Clone(in), Outputs: []string{name}, Attributes: attrs})
	return name
}

// nameOf returns a name for a value that op computes: that of the node in the model's graph, or the
// operator where Gorgonia has named the node, by a formula.
func (e *exporter) nameOf(op string) string {
	if e.label == "" || strings.ContainsAny(e.label, " (){}%") {
		return op
	}
	if op == "constant" {
		return e.label + "/constant"
	}
	return e.label
}

// home returns the name of the initializer of a parameter, a constant or a running statistic.
func (e *exporter) home(v kernels.Value) string {
	x := &e.a.Values[v]
	if !e.stored(v) {
		e.failed = append(e.failed, ExportRefusal{Operation: "read", Node: x.Name, Reason: "it is neither an input nor a parameter"})
		return "?"
	}
	data := make([]byte, x.Spec.Bytes())
	constant := slices.IndexFunc(e.a.Constants, func(c ir.Constant) bool { return c.Value == v })
	given, err := e.given(x, data)
	switch {
	case given:
	case constant >= 0:
		return e.constant(v, constant)
	case e.opt.Weights != nil || e.opt.Values != nil:
		err = fmt.Errorf("the weights have no %q: use the model that they are of: %w", x.Name, trainer.ErrData)
	default:
		err = e.forward.Initial(*x, data)
	}
	if err != nil {
		e.err = errors.Join(e.err, err)
		return "?"
	}
	e.graph.Initializers = append(e.graph.Initializers, initializerOf(x.Name, x.Spec, data))
	e.done.Weights = append(e.done.Weights, trainer.NamedSpec{Name: x.Name, Spec: x.Spec})
	return x.Name
}

// given writes the value that the options give for x to data, and reports whether they do.
func (e *exporter) given(x *ir.Value, data []byte) (bool, error) {
	if p, ok := e.values[x.Name]; ok {
		if !p.Spec.Equal(x.Spec) {
			return true, fmt.Errorf("%q is %v in the weights and %v in the model: use the model that the weights are of: %w",
				x.Name, p.Spec, x.Spec, trainer.ErrData)
		}
		return true, p.Read(data)
	}
	if e.opt.Values == nil {
		return false, nil
	}
	xs := e.opt.Values(x.Name)
	if xs == nil {
		return false, nil
	}
	if len(xs) != x.Spec.Shape.Elems() || !x.Spec.Type.Float() {
		return true, fmt.Errorf("%q has %d values of float32, the model needs %v: %w", x.Name, len(xs), x.Spec, trainer.ErrData)
	}
	wide := make([]float64, len(xs))
	for i, v := range xs {
		wide[i] = float64(v)
	}
	kernels.Store(data, x.Spec.Type, wide)
	return true, nil
}

// initializerOf returns an initializer.
func initializerOf(name string, s kernels.Spec, data []byte) proto.Tensor {
	t := proto.Tensor{Name: name, Type: exportType(s.Type), Raw: data, HasRaw: true}
	for _, d := range s.Shape {
		t.Dims = append(t.Dims, int64(d))
	}
	return t
}

// exportType returns the ONNX type of t.
func exportType(t arena.DType) proto.DataType {
	switch t {
	case arena.Float32:
		return proto.Float
	case arena.Float64:
		return proto.Double
	case arena.Uint8:
		return proto.Uint8
	case arena.Int32:
		return proto.Int32
	case arena.Int64:
		return proto.Int64
	case arena.BFloat16:
		return proto.BFloat16
	case arena.Float16:
		return proto.Float16
	}
	return proto.Undefined
}
