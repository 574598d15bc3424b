package kernels

import (
	"math/rand/v2"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
)

// HostAttrs are the attributes of Host: a Go function on the bytes of operands.
type HostAttrs interface {
	// Infer returns the specs of the outputs, or an error that wraps ErrShape.
	Infer(in []Spec) ([]Spec, error)
	// Run computes outputs from inputs. It writes to out only, and keeps no slice after it returns.
	Run(in, out [][]byte) error
	// String names the function in plans and errors.
	String() string
}

// Host calls a Go function, which may allocate: the fallback for operations without a kernel.
//
//	n tensors → m tensors
var Host = Register(&Op{
	Name: "host", OnHost: true,
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		h, err := attrsOf[HostAttrs]("host", attrs)
		if err != nil {
			return nil, err
		}
		return h.Infer(in)
	},
	Ref:  refHost,
	Cost: noFlops,
	Cases: func(r *rand.Rand, float arena.DType) Case {
		s := Spec{randomType(r, float), randomShape(r, randomRank(r))}
		return Case{Attrs: hostReverse{}, In: []Spec{s}, Fill: fillAny}
	},
})

// refHost runs the function on encoded operands, and panics with its error. [Run] passes it the
// operands' own bytes and returns its error.
func refHost(attrs any, in, out []Tensor) {
	x, y := make([][]byte, len(in)), make([][]byte, len(out))
	for i, t := range in {
		x[i] = make([]byte, t.Bytes())
		Store(x[i], t.Type, t.Data)
	}
	for i, t := range out {
		y[i] = make([]byte, t.Bytes())
	}
	if err := attrs.(HostAttrs).Run(x, y); err != nil {
		panic(err)
	}
	for i, t := range out {
		Load(t.Data, t.Type, y[i])
	}
}

// hostReverse is the function that tests Host: it reverses the bytes of its operand.
type hostReverse struct{}

func (hostReverse) Infer(in []Spec) ([]Spec, error) {
	if err := count("reverse", in, 1); err != nil {
		return nil, err
	}
	return []Spec{{arena.Uint8, Shape{int(in[0].Bytes())}}}, nil
}

func (hostReverse) Run(in, out [][]byte) error {
	copy(out[0], in[0])
	slices.Reverse(out[0])
	return nil
}

func (hostReverse) String() string { return "reverse" }
