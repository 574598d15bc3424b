package cpu

import (
	"math"

	"github.com/evenkeel/evenkeel/kernels"
)

// A chain of float32 whose ops are all among the codes is run in assembly a tile at a time, with what a step makes kept in
// registers for the next one: the accumulator.

// Codes of a chain's steps, in the order of the generator's chainCodes. A program begins with a load and ends with what
// stores its result.
const (
	codeEnd = iota
	codeLoad
	codeStore
	codeFirst // of an op
)

// chainCode is an op's code, and the one with the accumulator as its second operand, 0 where there is none.
type chainCode struct{ code, reversed uint32 }

var chainCodes = newChainCodes()

func newChainCodes() map[*kernels.Op]chainCode {
	codes := map[*kernels.Op]chainCode{}
	next := uint32(codeFirst)
	for _, op := range []*kernels.Op{
		kernels.Neg, kernels.Abs, kernels.Sign, kernels.Square, kernels.Cube, kernels.Inverse, kernels.Sqrt, kernels.InverseSqrt,
		kernels.Ceil, kernels.Floor, kernels.Relu, kernels.Affine, kernels.LeakyRelu,
		kernels.Exp, kernels.Expm1, kernels.Log, kernels.Log2, kernels.Log1p, kernels.Sigmoid, kernels.Tanh, kernels.Softplus,
		kernels.Add, kernels.Sub, kernels.Mul, kernels.Div, kernels.Less, kernels.LessEqual, kernels.Equal, kernels.NotEqual,
		kernels.ReluGrad, kernels.LeakyReluGrad, kernels.SigmoidGrad, kernels.TanhGrad,
	} {
		codes[op] = chainCode{code: next}
		next++
	}
	for _, op := range []*kernels.Op{kernels.Sub, kernels.Div, kernels.Less, kernels.LessEqual,
		kernels.ReluGrad, kernels.LeakyReluGrad, kernels.SigmoidGrad, kernels.TanhGrad} {
		codes[op] = chainCode{codes[op].code, next}
		next++
	}
	for _, op := range []*kernels.Op{kernels.Add, kernels.Mul, kernels.Equal, kernels.NotEqual} {
		codes[op] = chainCode{codes[op].code, codes[op].code}
	}
	codes[kernels.Greater] = chainCode{codes[kernels.Less].reversed, codes[kernels.Less].code}
	codes[kernels.GreaterEqual] = chainCode{codes[kernels.LessEqual].reversed, codes[kernels.LessEqual].code}
	return codes
}

// slotBytes is what a slice takes in the list of slots.
const slotBytes = 24

// chainProgram returns the words of a chain's program, or nil where a step has no code. Sources are its slots.
func chainProgram(r *recipe, inputs int) []uint32 {
	steps := 0
	for _, s := range r.stages {
		if _, ok := chainCodes[s.op]; !ok && s.op != kernels.Fill {
			return nil
		} else if ok {
			steps++
		}
	}
	last := len(r.stages) - 1
	if steps < 2 || r.stages[last].op == kernels.Fill {
		return nil
	}
	read := make([]bool, inputs+len(r.stages)) // from memory
	emitSteps(r, inputs, func(_ uint32, k int, _ stage) {
		if k >= 0 {
			read[k] = true
		}
	}, func(int) {})
	var program []uint32
	emitSteps(r, inputs, func(code uint32, k int, s stage) {
		p, q := chainNumbers(s)
		program = append(program, code, uint32(max(k, 0)*slotBytes), math.Float32bits(p), math.Float32bits(q))
	}, func(k int) {
		switch {
		case k == inputs+last:
			program = append(program, codeEnd, uint32(k*slotBytes), 0, 0)
		case read[k]:
			program = append(program, codeStore, uint32(k*slotBytes), 0, 0)
		}
	})
	return program
}

// emitSteps calls step for each code with the operand that it reads from memory, -1 for none, and made after each stage
// with the source that is then the accumulator.
func emitSteps(r *recipe, inputs int, step func(code uint32, k int, s stage), made func(k int)) {
	held := -1
	for i, s := range r.stages {
		if s.op == kernels.Fill {
			continue // its tile is filled once
		}
		c := chainCodes[s.op]
		if s.b >= 0 && s.a != s.b && held == s.b && c.reversed != 0 {
			step(c.reversed, s.a, s)
		} else {
			if held != s.a {
				step(codeLoad, s.a, s)
			}
			step(c.code, s.b, s)
		}
		held = inputs + i
		made(held)
	}
}

// chainNumbers are the numbers that a step takes.
func chainNumbers(s stage) (p, q float32) {
	switch a := s.attrs.(type) {
	case kernels.AffineAttrs:
		return float32(a.Scale), float32(a.Shift)
	case kernels.LeakyReluAttrs:
		return float32(a.Slope), 0
	}
	return 0, 0
}
