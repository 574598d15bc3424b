package cuda

import (
	_ "embed"
	"fmt"
	"math"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
)

// library is the PTX of math.cu: functions whose bodies are copied to where they are used.
//
//go:embed zz_math.ptx
var library string

// writer writes the PTX of one kernel. Registers get their names as they are needed, and are
// declared at the end.
type writer struct {
	params, body strings.Builder
	registers    map[string]int // by kind, see register
	declared     strings.Builder
	inlined      int  // bodies of library functions
	constants    bool // one of them reads a table
	labels       int
}

// kinds are the types of registers, by prefix.
var kinds = []struct{ prefix, ptx string }{
	{"p", "pred"}, {"h", "b16"}, {"r", "b32"}, {"l", "b64"}, {"s", "f32"}, {"d", "f64"},
}

func newWriter() *writer { return &writer{registers: map[string]int{}} }

// register returns a new register of a kind.
func (w *writer) register(kind string) string {
	w.registers[kind]++
	return fmt.Sprintf("%%%s%d", kind, w.registers[kind]-1)
}

// line writes one or more instructions.
func (w *writer) line(format string, args ...any) { fmt.Fprintf(&w.body, "\t"+format+"\n", args...) }

// label returns a name to branch to.
func (w *writer) label() string {
	w.labels++
	return fmt.Sprintf("$at%d", w.labels-1)
}

func (w *writer) mark(label string) { fmt.Fprintf(&w.body, "%s:\n", label) }

// param adds a parameter of 8 bytes and returns a register with its value. A pointer is converted
// to global memory.
func (w *writer) param(name string, pointer bool) string {
	if w.params.Len() > 0 {
		w.params.WriteString(",\n")
	}
	fmt.Fprintf(&w.params, "\t.param .u64 %s", name)
	r := w.register("l")
	w.line("ld.param.u64 %s, [%s];", r, name)
	if pointer {
		w.line("cvta.to.global.u64 %s, %s;", r, r)
	}
	return r
}

// module returns the text: one kernel with that name.
func (w *writer) module(name string) string {
	var b strings.Builder
	b.WriteString(".version 7.0\n.target sm_70\n.address_size 64\n")
	if w.constants {
		for line := range strings.Lines(library) {
			if strings.Contains(line, ".const ") {
				b.WriteString(line)
			}
		}
	}
	fmt.Fprintf(&b, ".visible .entry %s(\n%s\n)\n{\n", name, w.params.String())
	for _, k := range kinds {
		if n := w.registers[k.prefix]; n > 0 {
			fmt.Fprintf(&b, "\t.reg .%s %%%s<%d>;\n", k.ptx, k.prefix, n)
		}
	}
	b.WriteString(w.declared.String())
	b.WriteString(w.body.String())
	b.WriteString("\tret;\n}\n")
	return b.String()
}

// floatKind is a floating-point type of PTX.
type floatKind struct {
	kind, ptx string
	single    bool
}

var (
	single = floatKind{"s", "f32", true}
	double = floatKind{"d", "f64", false}
)

func floatKindOf(t arena.DType) floatKind {
	if t == arena.Float64 {
		return double
	}
	return single
}

// literal is the PTX literal of v, rounded to the type.
func (n floatKind) literal(v float64) string {
	if n.single {
		return fmt.Sprintf("0f%08X", math.Float32bits(float32(v)))
	}
	return fmt.Sprintf("0d%016X", math.Float64bits(v))
}

// call inlines a function of the library: name_f32 or name_f64. Its registers and labels get a
// prefix of their own, its parameters become moves, and its returns branch to the end.
func (w *writer) call(n floatKind, name string, args ...string) string {
	out := w.register(n.kind)
	name += "_" + n.ptx
	prefix := fmt.Sprintf("c%d_", w.inlined)
	w.inlined++
	end := w.label()
	body, ok := libraryBody(name)
	if !ok {
		panic("cuda: math.cu has no " + name)
	}
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		line = strings.ReplaceAll(line, "%", "%"+prefix)
		line = strings.ReplaceAll(line, "$L", "$"+prefix+"L")
		w.constants = w.constants || strings.Contains(line, "_ZN3num")
		switch {
		case strings.HasPrefix(line, ".reg"):
			fmt.Fprintf(&w.declared, "\t%s\n", line)
		case strings.HasPrefix(line, "ld.param"):
			to := strings.TrimSuffix(strings.Fields(line)[1], ",")
			k := int(line[strings.LastIndex(line, "_param_")+len("_param_")] - '0')
			w.line("mov.%s %s, %s;", n.ptx, to, args[k])
		case strings.HasPrefix(line, "st.param"):
			from := line[strings.LastIndex(line, " ")+1:]
			w.line("mov.%s %s, %s", n.ptx, out, from)
		case line == "ret;":
			w.line("bra %s;", end)
		case strings.HasSuffix(line, ":"):
			w.mark(strings.TrimSuffix(line, ":"))
		default:
			w.line("%s", line)
		}
	}
	w.mark(end)
	return out
}

// libraryBody returns the body of a function.
func libraryBody(name string) (string, bool) {
	_, rest, ok := strings.Cut(library, ") "+name+"(\n")
	if !ok {
		return "", false
	}
	_, rest, ok = strings.Cut(rest, "{\n")
	if !ok {
		return "", false
	}
	body, _, ok := strings.Cut(rest, "\n}")
	return body + "\n", ok
}

// load reads the element of type t at base + index·size as a number of type n. index is a register
// of 64 bits.
func (w *writer) load(n floatKind, t arena.DType, base, index string) string {
	at := w.element(base, index, t.Size())
	return w.convert(n, t, w.raw(t, at))
}

// element returns the address of an element.
func (w *writer) element(base, index string, size int64) string {
	at := w.register("l")
	w.line("mad.lo.s64 %s, %s, %d, %s;", at, index, size, base)
	return at
}

// raw loads the bits of an element.
func (w *writer) raw(t arena.DType, at string) string {
	kind, ptx := stored(t)
	v := w.register(kind)
	w.line("ld.global.%s %s, [%s];", ptx, v, at)
	return v
}

// stored returns the register kind of a stored element, and its type in loads and stores.
func stored(t arena.DType) (kind, ptx string) {
	switch t {
	case arena.Float32:
		return "s", "f32"
	case arena.Float64:
		return "d", "f64"
	case arena.Uint8:
		return "h", "u8"
	case arena.BFloat16, arena.Float16:
		return "h", "b16"
	case arena.Int32:
		return "r", "b32"
	}
	return "l", "b64"
}

// convert converts a loaded element to a number.
func (w *writer) convert(n floatKind, t arena.DType, v string) string {
	if t.Float() && floatKindOf(t) == n {
		return v
	}
	out := w.register(n.kind)
	switch t {
	case arena.Float32:
		w.line("cvt.f64.f32 %s, %s;", out, v)
	case arena.Float64:
		w.line("cvt.rn.f32.f64 %s, %s;", out, v)
	case arena.Uint8:
		w.line("cvt.rn.%s.u16 %s, %s;", n.ptx, out, v)
	case arena.Int32:
		w.line("cvt.rn.%s.s32 %s, %s;", n.ptx, out, v)
	case arena.Int64:
		w.line("cvt.rn.%s.s64 %s, %s;", n.ptx, out, v)
	case arena.Float16:
		w.line("cvt.%s.f16 %s, %s;", n.ptx, out, v)
	case arena.BFloat16: // the upper half of a float32
		zero, f := w.register("h"), w.register("s")
		w.line("mov.b16 %s, 0;", zero)
		w.line("mov.b32 %s, {%s, %s};", f, zero, v)
		if n.single {
			return f
		}
		w.line("cvt.f64.f32 %s, %s;", out, f)
	}
	return out
}
