package devcheck_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/internal/devcheck"
)

var vector = kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{4}}

func TestSpecsRefusesWhatAnOperationCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		op      *kernels.Op
		in, out []kernels.Spec
		rank    int
		want    error
	}{
		"good":                {kernels.Neg, []kernels.Spec{vector}, []kernels.Spec{vector}, 1, nil},
		"no operation":        {nil, nil, nil, 0, kernels.ErrUnsupported},
		"too many dimensions": {kernels.Neg, []kernels.Spec{{Type: arena.Float32, Shape: kernels.Shape{2, 2}}}, nil, 1, kernels.ErrUnsupported},
		"negative dimension":  {kernels.Neg, []kernels.Spec{{Type: arena.Float32, Shape: kernels.Shape{-1}}}, nil, 0, kernels.ErrShape},
		"operands":            {kernels.Neg, nil, nil, 0, kernels.ErrShape},
		"another result":      {kernels.Neg, []kernels.Spec{vector}, []kernels.Spec{{Type: arena.Float32, Shape: kernels.Shape{2, 2}}}, 0, kernels.ErrShape},
		"no result":           {kernels.Neg, []kernels.Spec{vector}, nil, 0, kernels.ErrShape},
	} {
		if err := devcheck.Specs(c.op, nil, c.in, c.out, c.rank); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

func TestCallRefusesWrongPlaces(t *testing.T) {
	memory := devcheck.Memory{Size: 256, Base: []int64{0, 128}, Pinned: map[arena.Region]int64{2: 64}}
	at := func(r arena.Region, offset int64) []kernels.Operand {
		return []kernels.Operand{{Spec: vector, Ref: arena.Ref{Region: r, Offset: offset, Size: 16}}}
	}
	short := at(0, 0)
	short[0].Ref.Size = 15
	nowhere := []kernels.Operand{{Spec: kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{0}}, Ref: arena.Ref{Region: 9, Offset: -3}}}
	for name, c := range map[string]struct {
		call      kernels.Call
		workspace int64
		says      string // empty: the call is good
	}{
		"good":                     {kernels.Call{Op: kernels.Neg, In: at(0, 0), Out: at(1, 112)}, 0, ""},
		"a transfer":               {kernels.Call{Op: kernels.Prefetch, In: at(2, 48), Out: at(0, 0)}, 0, ""},
		"empty operands":           {kernels.Call{Op: kernels.Neg, In: nowhere, Out: nowhere}, 0, ""},
		"past the end":             {kernels.Call{Op: kernels.Neg, In: at(0, 0), Out: at(1, 116)}, 0, "neg output 0"},
		"before the start":         {kernels.Call{Op: kernels.Neg, In: at(0, -16), Out: at(1, 0)}, 0, "neg input 0"},
		"an overflow":              {kernels.Call{Op: kernels.Neg, In: at(0, 0), Out: at(1, 1<<63-16)}, 0, "neg output 0"},
		"no such region":           {kernels.Call{Op: kernels.Neg, In: at(3, 0), Out: at(1, 0)}, 0, "region 3 of 2"},
		"between elements":         {kernels.Call{Op: kernels.Neg, In: at(0, 2), Out: at(1, 0)}, 0, "multiple of 4"},
		"too small a place":        {kernels.Call{Op: kernels.Neg, In: short, Out: at(1, 0)}, 0, "needs 16 bytes, has 15"},
		"pinned memory":            {kernels.Call{Op: kernels.Neg, In: at(2, 0), Out: at(1, 0)}, 0, "only transfers"},
		"past the end of pinned":   {kernels.Call{Op: kernels.Prefetch, In: at(2, 52), Out: at(0, 0)}, 0, "prefetch input 0"},
		"not on the updated input": {kernels.Call{Op: kernels.Writeback, In: append(at(0, 0), at(2, 0)...), Out: at(2, 16)}, 0, "must lie on input 1"},
		"no workspace":             {kernels.Call{Op: kernels.Neg, In: at(0, 0), Out: at(1, 0)}, 8, "neg workspace"},
	} {
		err := memory.Call(&c.call, c.workspace)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, arena.ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.says)
		}
	}
}
