package cuda

import (
	"fmt"

	"github.com/evenkeel/evenkeel/kernels"
)

// elementRule writes one elementwise operation on registers and returns the register of the result.
type elementRule func(w *writer, n floatKind, attrs any, x, y string) string

// elementRules hold a rule for every operation with Elem.
var elementRules = map[*kernels.Op]elementRule{
	kernels.Neg:         plain("neg.%s"),
	kernels.Abs:         plain("abs.%s"),
	kernels.Sqrt:        plain("sqrt.rn.%s"),
	kernels.Inverse:     plain("rcp.rn.%s"),
	kernels.Ceil:        plain("cvt.rpi.%[1]s.%[1]s"),
	kernels.Floor:       plain("cvt.rmi.%[1]s.%[1]s"),
	kernels.Add:         plain2("add.rn.%s"),
	kernels.Sub:         plain2("sub.rn.%s"),
	kernels.Mul:         plain2("mul.rn.%s"),
	kernels.Div:         plain2("div.rn.%s"),
	kernels.Square:      func(w *writer, n floatKind, _ any, x, _ string) string { return w.mul(n, x, x) },
	kernels.Cube:        func(w *writer, n floatKind, _ any, x, _ string) string { return w.mul(n, w.mul(n, x, x), x) },
	kernels.InverseSqrt: inverseSqrt,
	kernels.Sign:        writeSign,

	kernels.Exp:      function("exp"),
	kernels.Expm1:    function("expm1"),
	kernels.Log:      function("log"),
	kernels.Log2:     function("log2"),
	kernels.Log1p:    function("log1p"),
	kernels.Sin:      function("sin"),
	kernels.Cos:      function("cos"),
	kernels.Tanh:     function("tanh"),
	kernels.Sigmoid:  function("sigmoid"),
	kernels.Softplus: function("softplus"),
	kernels.Erf:      function("erf"),
	kernels.Pow: func(w *writer, n floatKind, _ any, x, y string) string {
		return w.call(n, "pow", x, y)
	},
	kernels.Maximum: extreme("gt"),
	kernels.Minimum: extreme("lt"),

	kernels.Less:         comparison("lt"),
	kernels.LessEqual:    comparison("le"),
	kernels.Greater:      comparison("gt"),
	kernels.GreaterEqual: comparison("ge"),
	kernels.Equal:        comparison("eq"),
	kernels.NotEqual:     comparison("neu"),

	kernels.Affine: func(w *writer, n floatKind, attrs any, x, _ string) string {
		a := attrs.(kernels.AffineAttrs)
		return w.affine(n, x, a.Scale, a.Shift)
	},
	kernels.Decode: func(w *writer, n floatKind, attrs any, x, _ string) string {
		a := attrs.(kernels.DecodeAttrs)
		return w.affine(n, x, a.Scale, a.Shift)
	},

	// NaN is not at most 0, so it stays.
	kernels.ReLU: func(w *writer, n floatKind, _ any, x, _ string) string {
		return w.choose(n, "le", x, n.literal(0), n.literal(0), x)
	},
	kernels.LeakyReLU: func(w *writer, n floatKind, attrs any, x, _ string) string {
		return w.choose(n, "gt", x, n.literal(0), x, w.mul(n, x, n.literal(attrs.(kernels.LeakyReLUAttrs).Slope)))
	},
	kernels.ReLUGrad: func(w *writer, n floatKind, _ any, y, dy string) string {
		return w.choose(n, "gt", y, n.literal(0), dy, n.literal(0))
	},
	kernels.LeakyReLUGrad: func(w *writer, n floatKind, attrs any, y, dy string) string {
		return w.choose(n, "gt", y, n.literal(0), dy, w.mul(n, dy, n.literal(attrs.(kernels.LeakyReLUAttrs).Slope)))
	},
	kernels.SigmoidGrad: func(w *writer, n floatKind, _ any, y, dy string) string {
		return w.mul(n, w.mul(n, dy, y), w.two(n, "sub.rn", n.literal(1), y))
	},
	kernels.TanhGrad: func(w *writer, n floatKind, _ any, y, dy string) string {
		return w.mul(n, dy, w.two(n, "sub.rn", n.literal(1), w.mul(n, y, y)))
	},
}

// plain is the rule of an instruction of one operand.
func plain(instruction string) elementRule {
	return func(w *writer, n floatKind, _ any, x, _ string) string {
		out := w.register(n.kind)
		w.line("%s %s, %s;", fmt.Sprintf(instruction, n.ptx), out, x)
		return out
	}
}

// plain2 is the rule of an instruction of two operands.
func plain2(instruction string) elementRule {
	return func(w *writer, n floatKind, _ any, x, y string) string {
		out := w.register(n.kind)
		w.line("%s %s, %s, %s;", fmt.Sprintf(instruction, n.ptx), out, x, y)
		return out
	}
}

// function is the rule of a function of the library.
func function(name string) elementRule {
	return func(w *writer, n floatKind, _ any, x, _ string) string { return w.call(n, name, x) }
}

// comparison is the rule of a comparison: 1 if it holds, else 0.
func comparison(how string) elementRule {
	return func(w *writer, n floatKind, _ any, x, y string) string {
		return w.choose(n, how, x, y, n.literal(1), n.literal(0))
	}
}

// extreme is the rule of the larger or smaller operand: y where they are equal, NaN where one is.
func extreme(how string) elementRule {
	return func(w *writer, n floatKind, _ any, x, y string) string {
		return w.choose(n, "nan", x, x, x, w.choose(n, how, x, y, x, y))
	}
}

func inverseSqrt(w *writer, n floatKind, _ any, x, _ string) string {
	root, out := w.register(n.kind), w.register(n.kind)
	w.line("sqrt.rn.%s %s, %s;", n.ptx, root, x)
	w.line("rcp.rn.%s %s, %s;", n.ptx, out, root)
	return out
}

func writeSign(w *writer, n floatKind, _ any, x, _ string) string {
	negative := w.choose(n, "lt", x, n.literal(0), n.literal(-1), x)
	return w.choose(n, "gt", x, n.literal(0), n.literal(1), negative)
}

// two writes an instruction of two operands.
func (w *writer) two(n floatKind, instruction, x, y string) string {
	out := w.register(n.kind)
	w.line("%s.%s %s, %s, %s;", instruction, n.ptx, out, x, y)
	return out
}

func (w *writer) mul(n floatKind, x, y string) string { return w.two(n, "mul.rn", x, y) }

func (w *writer) affine(n floatKind, x string, scale, shift float64) string {
	out := w.register(n.kind)
	w.line("fma.rn.%s %s, %s, %s, %s;", n.ptx, out, x, n.literal(scale), n.literal(shift))
	return out
}

// choose writes a selection: a if x compares to y, else b.
func (w *writer) choose(n floatKind, how, x, y, a, b string) string {
	p, out := w.register("p"), w.register(n.kind)
	w.line("setp.%s.%s %s, %s, %s;", how, n.ptx, p, x, y)
	w.line("selp.%s %s, %s, %s, %s;", n.ptx, out, a, b, p)
	return out
}

// steps writes the steps of a chain on operands x and returns the last result.
func (w *writer) steps(n floatKind, steps []kernels.Step, x []string) string {
	for _, s := range steps {
		if s.Op == kernels.Fill {
			v := w.register(n.kind)
			w.line("mov.%s %s, %s;", n.ptx, v, n.literal(s.Attrs.(kernels.FillAttrs).Value))
			x = append(x, v)
			continue
		}
		second := ""
		if s.B >= 0 {
			second = x[s.B]
		}
		x = append(x, elementRules[s.Op](w, n, s.Attrs, x[s.A], second))
	}
	return x[len(x)-1]
}
