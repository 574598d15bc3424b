package layers

import (
	"cmp"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Sources calls a model function with a new graph, and returns the lines of the program that added
// each node with a method of a [Net], by the name of the node: first the line that called the method,
// then those that called its function, up to the model function. Lines are written as mlp/main.go:31.
// Pictures of plans show them.
//
// The error is that of the model function, or of its net. Without Sources, nets record no lines,
// which costs nothing. Several goroutines may call Sources at once.
func Sources(model func(g *gorgonia.ExprGraph, batch int) (Model, error), batch int) (lines map[string][]string, err error) {
	if model == nil {
		return nil, fmt.Errorf("no model function: %w", ErrNode)
	}
	g := gorgonia.NewGraph()
	op := &lineRecorder{base: base{name: "lines", signature: []hm.Type{tensor.Float32}}, lines: make(map[string][]string)}
	gorgonia.NewUniqueNode(gorgonia.In(g), gorgonia.WithType(tensor.Float32), gorgonia.WithOp(op), gorgonia.WithShape())
	defer func() {
		if r := recover(); r != nil { // as Gorgonia does where a layer has returned no node
			lines, err = nil, cmp.Or(Failed(g), fmt.Errorf("model function panics: %v: %w", r, ErrNode))
		}
	}()
	if _, err := model(g, batch); err != nil {
		return nil, err
	}
	if err := Failed(g); err != nil {
		return nil, err
	}
	return op.lines, nil
}

// lineRecorder is the operation of the first node of a graph whose lines are recorded.  → a scalar that
// nothing reads. Its number is 0, so that those of other operations are as without it.
type lineRecorder struct {
	base
	lines map[string][]string
}

// lineRecorderOf returns the recorder of a graph, nil if it has none.
func lineRecorderOf(g *gorgonia.ExprGraph) *lineRecorder {
	if g == nil {
		return nil
	}
	if nodes := g.AllNodes(); len(nodes) > 0 {
		r, _ := nodes[0].Op().(*lineRecorder)
		return r
	}
	return nil
}

// add records the lines of the caller as those of the node called name. Functions of this package
// and of onnx, which adds layers for a program, are left out.
func (r *lineRecorder) add(name string) {
	if r == nil || r.lines[name] != nil {
		return
	}
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	var lines []string
	for {
		f, more := frames.Next()
		if f.Function == self+"Sources" {
			break
		}
		if !slices.ContainsFunc(inner, func(p string) bool { return strings.HasPrefix(f.Function, p) }) {
			lines = append(lines, fmt.Sprintf("%s:%d", shortPath(f.File), f.Line))
		}
		if !more {
			break
		}
	}
	r.lines[name] = lines
}

// self is the prefix of the functions of this package.
const self = "github.com/evenkeel/evenkeel/trainer/layers."

// inner are the prefixes of functions that are no lines of a program.
var inner = []string{self, "github.com/evenkeel/evenkeel/onnx.", "runtime."}

// shortPath returns the last folder and the name of a file.
func shortPath(file string) string {
	return filepath.ToSlash(filepath.Join(filepath.Base(filepath.Dir(file)), filepath.Base(file)))
}

// Type returns the type of the node, which has no operands.
func (*lineRecorder) Type() hm.Type { return tensor.Float32 }

// InferShape returns the shape of a scalar.
func (*lineRecorder) InferShape(...gorgonia.DimSizer) (tensor.Shape, error) {
	return tensor.ScalarShape(), nil
}

// Do returns an error: nothing computes the node.
func (*lineRecorder) Do(...gorgonia.Value) (gorgonia.Value, error) {
	return nil, fmt.Errorf("a recorder of lines has no value: %w", ErrNode)
}
