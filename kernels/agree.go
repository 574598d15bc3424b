package kernels

import (
	encoding "encoding/binary"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
)

// VerdictSpec is the spec of what the ranks of a group agree on: 0, or the worst of their status words.
var VerdictSpec = Spec{arena.Int32, Shape{1}}

// Verdicts on a step, from good to bad.
const (
	VerdictFine      = 0
	VerdictNonFinite = 1 // a check of a rank has found a number that is not finite
	VerdictIndex     = 2 // an index outside a table, or a divisor of 0
)

// AgreeAttrs are the attributes of Agree.
type AgreeAttrs struct {
	Group group.Group // nil: a group of one rank
	Peer  int32       // status of a rank whose own checks were fine, if another one's were not
}

// Agree lets the ranks of a group agree whether the checks so far were fine everywhere.
//
//	guard int32 [4], verdict int32 [1] → guard, verdict
//
// The verdict becomes the worst one of all ranks. If guard[0] is 0 and the verdict is not,
// guard[0] = Peer.
var Agree = Register(&Op{
	Name: "agree", Updates: []int8{0, 1}, OnHost: true,
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[AgreeAttrs]("agree", attrs)
		if err != nil {
			return nil, err
		}
		return a.Infer(in)
	},
	Ref: refHost, Cost: noFlops,
	Cases: func(r *rand.Rand, _ arena.DType) Case {
		code := []float64{0, 5, -3}[r.IntN(3)]
		return Case{Attrs: AgreeAttrs{Peer: 77}, In: []Spec{GuardSpec, VerdictSpec},
			Fill: func(_ *rand.Rand, k int, data []float64) { data[0] = code * float64(1-k) }}
	},
})

// Infer returns the specs of the results.
func (a AgreeAttrs) Infer(in []Spec) ([]Spec, error) {
	if err := count("agree", in, 2); err != nil {
		return nil, err
	}
	if !in[0].Equal(GuardSpec) || !in[1].Equal(VerdictSpec) {
		return nil, shapeError("agree", "takes a guard int32 (4) and a verdict int32 (1), not %v", in)
	}
	return in, nil
}

// Run agrees.
func (a AgreeAttrs) Run(in, out [][]byte) error {
	agree, done, err := a.Prepare(in, out)
	if err != nil {
		return err
	}
	defer done()
	return agree()
}

// Prepare returns a function that agrees, and one that releases what it needs.
func (a AgreeAttrs) Prepare(in, out [][]byte) (agree, done func() error, err error) {
	var op group.Operation
	if !alone(a.Group) {
		op, err = a.Group.Prepare(group.Op{Kind: group.Max, Type: arena.Int32, Data: out[1], Label: "agree"})
		if err != nil {
			return nil, nil, err
		}
	}
	done = func() error {
		if op == nil {
			return nil
		}
		return op.Close()
	}
	le := encoding.LittleEndian
	return func() error {
		copy(out[0], in[0])
		code := int32(le.Uint32(out[0]))
		verdict := uint32(VerdictFine)
		switch {
		case code < 0:
			verdict = VerdictIndex
		case code > 0:
			verdict = VerdictNonFinite
		}
		le.PutUint32(out[1], verdict)
		if op != nil {
			if err := group.Run(op); err != nil {
				return err
			}
		}
		if code == 0 && le.Uint32(out[1]) != VerdictFine {
			le.PutUint32(out[0], uint32(a.Peer))
		}
		return nil
	}, done, nil
}

// String names the operation in plans and errors.
func (a AgreeAttrs) String() string { return "agree" }
