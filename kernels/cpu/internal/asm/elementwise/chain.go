package elementwise

import "github.com/evenkeel/evenkeel/kernels"

// Codes of a chain's program besides those of ops. A program is a list of instructions of four
// words: code, byte offset of the operand in the list of slots, and two numbers as float32 bits. It
// keeps one value, the accumulator, in registers.
const (
	CodeEnd   = iota // stores the accumulator and ends
	CodeLoad         // loads the accumulator
	CodeStore        // stores the accumulator
	codeFirst        // the first op
)

// ChainCode is an op's code with the accumulator as its first operand, and with the accumulator as
// its second one: 0 where there is none.
type ChainCode struct{ Code, Reversed uint32 }

// ChainCodes holds the ops that a program can run.
var ChainCodes = newChainCodes()

// newChainCodes numbers the ops in the order of chainCodes in internal/gen/elementwise.
func newChainCodes() map[*kernels.Op]ChainCode {
	codes := map[*kernels.Op]ChainCode{}
	next := uint32(codeFirst)
	for _, op := range []*kernels.Op{
		kernels.Neg, kernels.Abs, kernels.Sign, kernels.Square, kernels.Cube, kernels.Inverse, kernels.Sqrt, kernels.InverseSqrt,
		kernels.Ceil, kernels.Floor, kernels.ReLU, kernels.Affine, kernels.LeakyReLU,
		kernels.Exp, kernels.Expm1, kernels.Log, kernels.Log2, kernels.Log1p, kernels.Sigmoid, kernels.Tanh, kernels.Softplus, kernels.Erf,
		kernels.Add, kernels.Sub, kernels.Mul, kernels.Div, kernels.Less, kernels.LessEqual, kernels.Equal, kernels.NotEqual,
		kernels.ReLUGrad, kernels.LeakyReLUGrad, kernels.SigmoidGrad, kernels.TanhGrad,
		kernels.Maximum, kernels.Minimum,
	} {
		codes[op] = ChainCode{Code: next}
		next++
	}
	for _, op := range []*kernels.Op{kernels.Sub, kernels.Div, kernels.Less, kernels.LessEqual,
		kernels.ReLUGrad, kernels.LeakyReLUGrad, kernels.SigmoidGrad, kernels.TanhGrad,
		kernels.Maximum, kernels.Minimum} {
		codes[op] = ChainCode{codes[op].Code, next}
		next++
	}
	for _, op := range []*kernels.Op{kernels.Add, kernels.Mul, kernels.Equal, kernels.NotEqual} {
		codes[op] = ChainCode{codes[op].Code, codes[op].Code}
	}
	codes[kernels.Greater] = ChainCode{codes[kernels.Less].Reversed, codes[kernels.Less].Code}
	codes[kernels.GreaterEqual] = ChainCode{codes[kernels.LessEqual].Reversed, codes[kernels.LessEqual].Code}
	return codes
}

// SlotBytes is the size of a slot, a slice header.
const SlotBytes = 24
