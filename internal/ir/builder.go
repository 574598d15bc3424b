package ir

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// Names of the values that host and program share.
const (
	ControlsName = "controls" // Slot: kernels.ControlsSpec, the step's learning rate and other scalars; see IsControls
	GuardName    = "guard"    // Guard: kernels.GuardSpec, which tensor was not finite, or which index was out of range
	VerdictName  = "verdict"  // Guard: kernels.VerdictSpec, what the ranks of a group agreed on
	IndexField   = "index"    // Slot: sample indices [B], where datasets are resident
)

// IsControls reports whether a home in region Slot is a controls vector. A program may have
// several, such as one for each optimizer: their names begin with ControlsName and "/".
func IsControls(name string) bool {
	return name == ControlsName || strings.HasPrefix(name, ControlsName+"/")
}

// Builder appends instructions to a program. It implements kernels.Graph, to which gradient rules
// append. The front end, the gradient rules of operations and the passes all build through it. Each
// appended instruction copies the present Label, Owner, Mark and Backward.
type Builder struct {
	*Program
	Homes        *Homes                   // of all programs of one model
	Label        string                   // layer and node; empty: the operation's name
	Owner        string                   // layer; empty: inferred from the operands
	Mark         string                   // see Instr.Mark
	Backward     bool                     // the backward pass is being built
	Guard        kernels.Value            // the status word after the last check so far; None: nothing is checked yet
	ControlsHome string                   // name of the controls vector; "": ControlsName
	controls     map[string]kernels.Value // by name; those that an instruction reads
}

// NewBuilder returns a builder that appends to p.
func NewBuilder(p *Program, homes *Homes) *Builder {
	return &Builder{Program: p, Homes: homes, Guard: kernels.None}
}

// BuildError is what a builder panics with where operands do not fit an operation: gradient rules
// build without error returns.
type BuildError struct{ Err error }

func (e BuildError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e BuildError) Unwrap() error { return e.Err }

// Recovered turns the result of recover into an error: nil into nil, a BuildError into its cause,
// and any other panic, as of a user's own rule, into an error that wraps kernels.ErrUnsupported.
//
//	defer func() {
//		if e := ir.Recovered(recover()); e != nil {
//			err = e
//		}
//	}()
func Recovered(p any) error {
	if p == nil {
		return nil
	}
	if err, ok := p.(error); ok {
		var b BuildError
		if errors.As(err, &b) {
			return b.Err
		}
	}
	return fmt.Errorf("panic: %v: %w", p, kernels.ErrUnsupported)
}

// Apply appends a use of op and returns its first output. It panics with a BuildError where the
// operands do not fit. Attributes are not copied.
//
//	b.Label, b.Owner = "hidden/xw", "hidden"
//	xw := b.Apply(kernels.MatMul, kernels.MatMulAttrs{}, x, w)
func (b *Builder) Apply(op *kernels.Op, attrs any, in ...kernels.Value) kernels.Value {
	return b.ApplyAll(op, attrs, in...)[0]
}

// ApplyAll is Apply and returns all outputs.
func (b *Builder) ApplyAll(op *kernels.Op, attrs any, in ...kernels.Value) []kernels.Value {
	specs, err := op.Infer(attrs, b.Specs(in))
	if err != nil {
		panic(BuildError{Err: fmt.Errorf("%s %s: %w", op.Name, b.Label, err)})
	}
	owner := b.Owner
	if owner == "" {
		owner = b.inferOwner(in)
	}
	label := b.Label
	if label == "" {
		label = op.Name
	}
	out := make([]kernels.Value, len(specs))
	for i, s := range specs {
		if err := s.Check(); err != nil {
			panic(BuildError{Err: fmt.Errorf("%s %s: %w", op.Name, b.Label, err)})
		}
		out[i] = b.Add(Value{Name: label, Owner: owner, Spec: s, Of: kernels.None})
	}
	b.Instrs = append(b.Instrs, Instr{Op: op, Attrs: attrs, In: slices.Clone(in), Out: out,
		Label: label, Owner: owner, Mark: b.Mark, Backward: b.Backward})
	return out
}

// ownerRegions hold parameters, or averages that stand for them.
var ownerRegions = [...]arena.Region{Parameters, HostParameters, Averages, HostAverages}

// inferOwner returns the layer of a parameter among the operands, else that of the first operand
// that has one.
func (b *Builder) inferOwner(in []kernels.Value) string {
	owner := ""
	for _, v := range in {
		o := b.Values[v].Owner
		if o != "" && b.Values[v].Home && slices.Contains(ownerRegions[:], b.Values[v].Ref.Region) {
			return o
		}
		if owner == "" {
			owner = o
		}
	}
	return owner
}

// Spec returns the type and shape of v.
func (p *Program) Spec(v kernels.Value) kernels.Spec { return p.Values[v].Spec }

// Home adds a value with a home in region r: the same place for the same name in every program. The
// error wraps ErrHome where another program has a value of another spec there, or where the layout
// is sealed.
func (b *Builder) Home(r arena.Region, owner, name string, spec kernels.Spec) (kernels.Value, error) {
	if err := spec.Check(); err != nil {
		return kernels.None, fmt.Errorf("%q: %w", name, err)
	}
	ref, err := b.Homes.Place(r, owner, name, spec)
	if err != nil {
		return kernels.None, err
	}
	return b.Add(Value{Name: name, Owner: owner, Spec: spec, Ref: ref, Home: true, Of: kernels.None}), nil
}

// Status returns the status word after the last check so far: a check reads it and makes the next
// one.
func (b *Builder) Status() (guard kernels.Value, err error) {
	if b.Guard == kernels.None {
		b.Guard, err = b.Home(Guard, "guard", GuardName, kernels.GuardSpec)
	}
	return b.Guard, err
}

// Controls returns the vector that the host writes before a step.
func (b *Builder) Controls() (kernels.Value, error) {
	if b.ControlsHome == "" {
		return b.ControlsAt(ControlsName)
	}
	return b.ControlsAt(b.ControlsHome)
}

// ControlsAt returns the controls vector with that name.
func (b *Builder) ControlsAt(name string) (kernels.Value, error) {
	if v, ok := b.controls[name]; ok {
		return v, nil
	}
	v, err := b.Home(Slot, "batch", name, kernels.ControlsSpec)
	if err != nil {
		return kernels.None, err
	}
	if b.controls == nil {
		b.controls = make(map[string]kernels.Value)
	}
	b.controls[name] = v
	return v, nil
}

// ControlAt appends a slice of one element, control k.
func (b *Builder) ControlAt(k int) (kernels.Value, error) {
	controls, err := b.Controls()
	if err != nil {
		return kernels.None, err
	}
	return b.Apply(kernels.Slice, kernels.SliceAttrs{Start: []int{k}, End: []int{k + 1}, Step: []int{1}}, controls), nil
}

// Maker returns the instruction that writes v to bytes of its own, which can then be placed
// anywhere. It is nil for homes, and for views and results of updates, whose bytes are an
// operand's. The pointer is good until an instruction is appended.
func (p *Program) Maker(v kernels.Value) *Instr {
	if p.Values[v].Home {
		return nil
	}
	for i := len(p.Instrs) - 1; i >= 0; i-- {
		in := &p.Instrs[i]
		if k := slices.Index(in.Out, v); k >= 0 && in.Op.View == nil && k >= len(in.Op.Updates) {
			return in
		}
	}
	return nil
}

// Within reports whether name is scope, or that of something in a layer or scope of that name: the
// part before one of its slashes. "encoder/dense/w" is within "encoder" and "encoder/dense".
func Within(scope, name string) bool {
	rest, ok := strings.CutPrefix(name, strings.TrimSuffix(scope, "/"))
	return ok && (rest == "" || rest[0] == '/')
}

// Selects reports whether name is within one of names.
func Selects(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return Within(n, name) })
}

// OwnerOf returns the layer that a node belongs to by its name: the part before the last slash, or
// all of it.
func OwnerOf(name string) string {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i]
	}
	return name
}
