package onnx

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
	"github.com/evenkeel/evenkeel/trainer"
)

// Options are the options of an import. The zero value is right for most models.
type Options struct {
	// Dims are the sizes of symbolic dimensions other than the batch, by name, such as "sequence".
	// Every one must be 1 or more.
	Dims map[string]int
	// Constants are patterns of [path.Match] for the names of initializers, as in the file, that
	// are no parameters: tables of numbers, such as positions, that are to stay as they are.
	// Default: an initializer of floats that an operation reads is a parameter, except scalars,
	// masks with infinite elements, and masks of Where.
	Constants []string
	// FoldElements limits the elements of a value that is computed at import. All of them together
	// may have 16 times as many. Default: 2^20.
	FoldElements int
}

// A Model is an ONNX model that was read and checked. Its methods may be called from several
// goroutines at once. It refers to the bytes of the file, from which parameters get their initial
// values.
type Model struct {
	file     string
	opt      Options
	graph    *proto.Graph
	source   *proto.Model
	opset    int64
	inits    []*initializer
	inputs   []proto.ValueInfo // without initializers
	fixed    int               // the batch that the model was exported for; 0: any
	mu       sync.Mutex
	built    map[int]*inference        // by batch
	contents map[*proto.Tensor]content // of initializers
	results  []trainer.NamedSpec       // outputs
}

// Open reads a model, and the files next to it that have its tensors. It imports every node, for
// some batch: an error that wraps [kernels.ErrUnsupported] lists all nodes that are not supported,
// a [FormatError] says where the file is broken. Memory is that of the files. To know the bytes of
// device memory of a prediction, pass Model.Build to [trainer.PlanPredictor].
func Open(name string, opt Options) (*Model, error) {
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	b, err := readFile(root, filepath.Base(name))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return read(name, b, root, opt)
}

// Parse reads a model from the bytes of a file, which must not change while the model is in use. A
// model whose tensors are in other files needs [Open].
func Parse(b []byte, opt Options) (*Model, error) { return read("", b, nil, opt) }

func read(name string, b []byte, root *os.Root, opt Options) (*Model, error) {
	if err := opt.check(); err != nil {
		return nil, err
	}
	source, err := proto.Parse(b)
	if err != nil {
		var format *FormatError
		if errors.As(err, &format) {
			format.File = name
		}
		return nil, err
	}
	m := &Model{file: name, opt: opt, source: source, graph: source.Graph, built: make(map[int]*inference), contents: make(map[*proto.Tensor]content)}
	if m.opt.FoldElements == 0 {
		m.opt.FoldElements = 1 << 20
	}
	for _, step := range []func() error{m.checkVersion, func() error { return m.loadExternal(root) }, m.checkGraph, m.checkInputs, m.tryOut} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// check returns every mistake in the options.
func (o *Options) check() error {
	var errs []error
	for name, d := range o.Dims {
		if d < 1 || d > math.MaxInt32 {
			errs = append(errs, fmt.Errorf("Options.Dims: %q is %d, must be 1 to %d: %w", name, d, math.MaxInt32, trainer.ErrOption))
		}
	}
	for _, p := range o.Constants {
		if _, err := path.Match(p, ""); err != nil {
			errs = append(errs, fmt.Errorf("Options.Constants: %q: %w: %w", p, err, trainer.ErrOption))
		}
	}
	if o.FoldElements < 0 || o.FoldElements > 1<<28 {
		errs = append(errs, fmt.Errorf("Options.FoldElements is %d, must be 0 to 2^28: %w", o.FoldElements, trainer.ErrOption))
	}
	return errors.Join(errs...)
}

// errorf returns an error that begins with the file.
func (m *Model) errorf(format string, args ...any) error {
	if m.file != "" {
		return fmt.Errorf(m.file+": "+format, args...)
	}
	return fmt.Errorf(format, args...)
}

// broken returns a FormatError of the model.
func (m *Model) broken(format string, args ...any) error {
	return &FormatError{File: m.file, Offset: -1, Reason: fmt.Sprintf(format, args...)}
}

// shapeOf returns the shape of an input for a batch.
func (m *Model) shapeOf(in proto.ValueInfo, batch int) (kernels.Shape, error) {
	if m.fixed != 0 && batch != m.fixed {
		return nil, m.errorf("the model was exported for batches of %d, not %d: export it with dynamic_axes or dynamic_shapes for dimension 0, "+
			"or predict batches of %d only: %w", m.fixed, batch, m.fixed, kernels.ErrShape)
	}
	shape := kernels.Shape{batch}
	for _, d := range in.Dims[1:] {
		size := int(d.Value)
		if !d.HasValue {
			size = m.opt.Dims[d.Param]
		}
		shape = append(shape, size)
	}
	return shape, nil
}

// cure says what to do about a batch that is folded into the file.
func (m *Model) cure() string {
	if m.fixed != 0 {
		return ""
	}
	return "; if the exporter has folded its own batch into the file, export with dynamic_axes or dynamic_shapes"
}

// programFor returns the program of a batch.
func (m *Model) programFor(batch int) (*inference, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.built[batch]; b != nil {
		return b, nil
	}
	b, err := m.infer(batch)
	if err != nil {
		return nil, err
	}
	if len(m.built) >= 32 { // a service that plans many sizes
		clear(m.built)
	}
	m.built[batch] = b
	return b, nil
}

// tryOut imports the model for its batch, or for two: a batch that is folded into the file shows
// then.
func (m *Model) tryOut() error {
	batches := []int{m.fixed}
	if m.fixed == 0 {
		batches = []int{3, 5}
	}
	for i, batch := range batches {
		b, err := m.programFor(batch)
		if err != nil {
			return err
		}
		if i == 0 {
			m.describe(b)
		}
	}
	return nil
}

// describe fills the list of outputs.
func (m *Model) describe(b *inference) {
	for i, o := range m.graph.Outputs {
		s := b.program.Spec(b.program.outputs[i].at)
		m.results = append(m.results, trainer.NamedSpec{Name: o.Name, Spec: kernels.Spec{Type: s.Type, Shape: slices.Clone(s.Shape[1:])}})
	}
}

// Inputs returns the inputs in the order of the file: names, and types and shapes of one row.
func (m *Model) Inputs() []trainer.NamedSpec {
	var list []trainer.NamedSpec
	for _, in := range m.inputs {
		shape, _ := m.shapeOf(in, max(m.fixed, 1))
		list = append(list, trainer.NamedSpec{Name: in.Name, Spec: kernels.Spec{Type: storage(in.Type), Shape: shape[1:]}})
	}
	return list
}

// Outputs returns the outputs in the order of the file: names, and types and shapes of one row.
func (m *Model) Outputs() []trainer.NamedSpec { return slices.Clone(m.results) }

// Batch returns the batch that the model was exported for, 0 if it computes any.
func (m *Model) Batch() int { return m.fixed }

// Opset returns the version of ONNX's operators that the model was written for.
func (m *Model) Opset() int { return int(m.opset) }
