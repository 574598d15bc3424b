package onnx

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
	"github.com/evenkeel/evenkeel/trainer"
)

// What Export writes.
const (
	exportOpset = 20
	exportIR    = 9
	producer    = "evenkeel"
)

// Weights are the source of a model's parameters and running statistics: a *trainer.Trainer, or its
// Averaged.
type Weights interface {
	Params() ([]trainer.Param, error)
}

// ExportOptions are the options of Export. The zero value is a good default.
type ExportOptions struct {
	// Weights are the values to write. Default: Values; without these the initial values that Seed
	// draws.
	Weights Weights
	// Values returns the elements of a parameter or running statistic, row-major, by its name, as
	// Predictor.LoadWeights takes them. They are rounded or widened to their type.
	Values func(name string) []float32
	// Batch fixes the number of rows. Default: 0, any number: the first dimension of inputs and
	// outputs is called BatchName. The model function is then called for batches of 2 and 3.
	Batch int
	// BatchName is the name of the first dimension. Default: "batch".
	BatchName string
	// Fields describes how the inputs are stored, as PredictorOptions.Fields does: the file then
	// decodes and scales them. Default: each input is stored as its node is in the graph.
	Fields []dataloader.Field
	// Seed draws initial values, as Options.Seed does.
	Seed uint64
	// AllowMerged is that of trainer.Options.
	AllowMerged bool
	// External writes the elements of tensors to a second file, next to the first, of its name and
	// ".data". Default: one file; a model of 2 GB and more needs two. Only ExportFile can write it.
	External bool
}

// Exported describes what Export has written.
type Exported struct {
	Inputs, Outputs []trainer.NamedSpec // of one row
	Weights         []trainer.NamedSpec // parameters and running statistics, under the names of the model
	Nodes           int
	Operators       []string // distinct, sorted
	Bytes           int64    // of the file, or of both
}

// Export writes what a model computes to predict, Model.Output and Model.Outputs, as an ONNX model
// of opset 20: nodes, and the weights under their names in the model. The output is called
// "output", the others have the names of their nodes. Dropout is left out, batch normalization uses
// the running statistics. The elements are those that Predictor computes, to some roundings of
// float32.
//
// All operations that ONNX lacks are one *ExportError, and nothing is written. The host holds a
// copy of the weights, and no device memory is allocated. While opt.Weights trains, the error wraps
// ErrBusy. Cancelling ctx stops the work before w is written.
func Export(ctx context.Context, w io.Writer, model trainer.ModelFunc, opt ExportOptions) (Exported, error) {
	if opt.External {
		return Exported{}, fmt.Errorf("two files for one writer: use ExportFile, or leave out External: %w", trainer.ErrOption)
	}
	e, err := newExporter(ctx, model, opt)
	if err != nil {
		return Exported{}, fmt.Errorf("onnx export: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return Exported{}, fmt.Errorf("onnx export: %w", err)
	}
	done := e.done
	if done.Bytes, err = proto.Write(w, e.model()); err != nil {
		return Exported{}, fmt.Errorf("onnx export: %w", err)
	}
	return done, nil
}

// An ExportError lists the operations of a model that an ONNX file cannot hold. It wraps
// kernels.ErrUnsupported.
type ExportError struct {
	Operations []ExportRefusal
}

// ExportRefusal is an operation that has no equivalent in ONNX.
type ExportRefusal struct {
	Operation string // as the plan calls it
	Node      string // name of the node in the graph
	Reason    string
}

// Error lists all operations.
func (e *ExportError) Error() string {
	var parts []string
	for _, r := range e.Operations {
		parts = append(parts, fmt.Sprintf("%s of %q: %s", r.Operation, r.Node, r.Reason))
	}
	return fmt.Sprintf("%d operations have no equivalent in ONNX: %s: %v", len(parts), strings.Join(parts, "; "), kernels.ErrUnsupported)
}

// Unwrap returns kernels.ErrUnsupported.
func (e *ExportError) Unwrap() error { return kernels.ErrUnsupported }

// exporter translates the forward program of a model. It holds the program at one or two batch
// sizes: a dimension that differs between them is a multiple of the batch.
type exporter struct {
	opt     ExportOptions
	forward *trainer.Forward
	a, b    *ir.Program // b is a where the batch is fixed
	graph   proto.Graph
	done    Exported
	makers  []int    // by value: index of its instruction, or -1
	uses    []int    // by value: readers, results counted
	names   []string // by value: its name in the file; "": not yet translated
	bools   map[kernels.Value]string
	taken   map[string]bool   // names in the file
	consts  map[string]string // names of initializers by their contents
	rows    string            // name of a vector of one element, the number of rows; "": not yet needed
	label   string            // of the instruction that is translated
	failed  []ExportRefusal
	values  map[string]trainer.Param // of opt.Weights, by name
	err     error                    // of reading a weight
}

// newExporter translates a model.
func newExporter(ctx context.Context, model trainer.ModelFunc, opt ExportOptions) (*exporter, error) {
	if ctx == nil {
		return nil, fmt.Errorf("nil context: %w", trainer.ErrOption)
	}
	if opt.Batch < 0 {
		return nil, fmt.Errorf("batch %d: must be positive, or 0 for any number of rows: %w", opt.Batch, trainer.ErrOption)
	}
	if opt.Weights != nil && opt.Values != nil {
		return nil, fmt.Errorf("both Weights and Values: set one of them: %w", trainer.ErrOption)
	}
	if opt.BatchName == "" {
		opt.BatchName = "batch"
	}
	e := &exporter{opt: opt, bools: make(map[kernels.Value]string), taken: map[string]bool{"": true}, consts: make(map[string]string),
		values: make(map[string]trainer.Param)}
	if err := e.lower(ctx, model); err != nil {
		return nil, err
	}
	if opt.Weights != nil {
		params, err := opt.Weights.Params()
		if err != nil {
			return nil, err
		}
		for _, p := range params {
			e.values[p.Name] = p
		}
	}
	return e, e.translate()
}

// lower makes the programs.
func (e *exporter) lower(ctx context.Context, model trainer.ModelFunc) (err error) {
	low := trainer.PredictorOptions{Fields: e.opt.Fields, Seed: e.opt.Seed, AllowMerged: e.opt.AllowMerged}
	sizes := [2]int{e.opt.Batch, e.opt.Batch}
	if e.opt.Batch == 0 {
		sizes = [2]int{2, 3}
	}
	hint := func(err error) error {
		if e.opt.Batch == 0 {
			err = fmt.Errorf("%w; if the model is for batches of one size only, set ExportOptions.Batch to that", err)
		}
		return err
	}
	if e.forward, err = trainer.NewForward(ctx, model, sizes[0], low); err != nil {
		return hint(err)
	}
	e.a, e.b = e.forward.Program, e.forward.Program
	if sizes[0] != sizes[1] {
		f, err := trainer.NewForward(ctx, model, sizes[1], low)
		if err != nil {
			return hint(err)
		}
		e.b = f.Program
	}
	same := len(e.a.Constants) == len(e.b.Constants) && len(e.a.Instrs) == len(e.b.Instrs) && len(e.a.Values) == len(e.b.Values) && slices.EqualFunc(e.a.Instrs, e.b.Instrs,
		func(a, b ir.Instr) bool {
			return a.Op == b.Op && slices.Equal(a.In, b.In) && slices.Equal(a.Out, b.Out)
		})
	if !same {
		return fmt.Errorf("the model has other operations for %d rows than for %d: set ExportOptions.Batch to the number of rows "+
			"to export for: %w", sizes[1], sizes[0], trainer.ErrModel)
	}
	return nil
}

// model returns the message.
func (e *exporter) model() *proto.Model {
	return &proto.Model{IRVersion: exportIR, Producer: producer, Opsets: []proto.Opset{{Version: exportOpset}}, Graph: &e.graph}
}
