package main

import (
	"fmt"
	"math"
	"reflect"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// An asm writes functions for one width of vectors and one element type.
type asm struct {
	*build.Context
	wide   bool // AVX-512, else AVX2
	size   int  // bytes of an element: 4 or 8
	width  int  // registers that make up one vec
	table  *table
	given  []vec // the first vecs, where they are not the first registers
	free   int   // the register from which on the others are
	saved  Mem   // control word of the caller
	saves  bool  // saved is in use
	labels int   // made by unique in this function
}

// A vec is one value of a calculation: some registers, which every operation on it goes through.
type vec []VecPhysical

// Operands of operations other than vecs.
type (
	number float64                 // a constant of the element type
	word   uint32                  // a constant of 32 bits
	bits64 uint64                  // a constant of 64 bits
	shared struct{ r VecPhysical } // one register for all of a vec
)

// A mask is the outcome of a comparison: in mask registers, or in a vec.
type mask struct {
	k []Register
	v vec
}

var (
	zmm = []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15,
		Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31}
	ymm = []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}
	ks  = []Register{K2, K3, K4, K5, K6, K7} // K1 is the mask of a tail
)

// bytes returns the size of a register.
func (a *asm) bytes() int {
	if a.wide {
		return 64
	}
	return 32
}

// lanes returns the elements of a register.
func (a *asm) lanes() int { return a.bytes() / a.size }

// bank returns the registers of this width.
func (a *asm) bank() []VecPhysical {
	if a.wide {
		return zmm
	}
	return ymm
}

// v returns vec i. Inside a chain the first ones are elsewhere.
func (a *asm) v(i int) vec {
	if i < len(a.given) {
		return a.given[i]
	}
	i = a.free/a.width + i - len(a.given)
	return a.bank()[i*a.width : (i+1)*a.width]
}

// top returns the i-th register from the end, which no vec uses.
func (a *asm) top(i int) shared { return shared{a.bank()[len(a.bank())-1-i]} }

// begin starts a function.
func (a *asm) begin(name, signature, doc string) {
	suffix := "AVX2"
	if a.wide {
		suffix = "AVX512"
	}
	name = fmt.Sprintf("%s%d%s", name, 8*a.size, suffix)
	a.Function(name)
	a.Attributes(attr.NOSPLIT)
	a.SignatureExpr(signature)
	a.Doc(name + " " + doc)
	a.Pragma("noescape")
	a.saves, a.labels = false, 0
}

// elem is the Go type of an element.
func (a *asm) elem() string { return fmt.Sprintf("float%d", 8*a.size) }

// flush treats denormal operands and results as zero until end: the processor takes a hundred cycles
// over each.
func (a *asm) flush() {
	a.saved, a.saves = a.AllocLocal(8), true
	a.STMXCSR(a.saved)
	a.MOVL(a.saved, EAX)
	a.ORL(U32(0x8040), EAX)
	a.MOVL(EAX, a.saved.Offset(4))
	a.LDMXCSR(a.saved.Offset(4))
}

// end returns to the caller.
func (a *asm) end() {
	if a.saves {
		a.LDMXCSR(a.saved)
	}
	a.VZEROUPPER()
	a.RET()
}

// emit writes the instruction of that name.
func (a *asm) emit(name string, ops ...Op) {
	m := reflect.ValueOf(a.Context).MethodByName(name)
	if !m.IsValid() {
		panic("no instruction " + name)
	}
	args := make([]reflect.Value, len(ops))
	for i, o := range ops {
		args[i] = reflect.ValueOf(o)
	}
	m.Call(args)
}

// operand returns register i of an operand, or the memory that holds it. Whether a constant is one
// element there depends on the instruction.
func (a *asm) operand(o any, i int) (op Op, constant bool) {
	switch o := o.(type) {
	case vec:
		return o[i], false
	case shared:
		return o.r, false
	case number:
		return a.table.float(float64(o), a.size), true
	case word:
		return a.table.word(uint32(o)), true
	case bits64:
		return a.table.at(uint64(o)), true
	case Mem:
		return o.Offset(i * a.bytes()), false
	}
	panic(fmt.Sprintf("operand %T", o))
}

// op writes an instruction on every register: with the first operand from anywhere, and the others
// vecs.
func (a *asm) op(name string, src any, rest ...vec) { a.imm(name, nil, src, rest...) }

// imm is op with an immediate operand before the others.
func (a *asm) imm(name string, imm Op, src any, rest ...vec) {
	for i := range rest[0] {
		from, constant := a.operand(src, i)
		full := name
		if constant && a.wide {
			full += "_BCST"
		}
		ops := []Op{from}
		if imm != nil {
			ops = []Op{imm, from}
		}
		for _, r := range rest {
			ops = append(ops, r[i])
		}
		a.emit(full, ops...)
	}
}

// f writes a floating-point instruction: its name is without V and type.
func (a *asm) f(name string, src any, rest ...vec) { a.op("V"+name+a.suffix(), src, rest...) }

func (a *asm) suffix() string {
	if a.size == 8 {
		return "PD"
	}
	return "PS"
}

// set copies a vec or a constant.
func (a *asm) set(src any, dst vec) {
	for i := range dst {
		from, constant := a.operand(src, i)
		switch {
		case constant && a.size == 8:
			a.VBROADCASTSD(from, dst[i])
		case constant:
			a.VBROADCASTSS(from, dst[i])
		default:
			a.VMOVAPS(from, dst[i])
		}
	}
}

// zero clears dst.
func (a *asm) zero(dst vec) { a.op("VXORPS", dst, dst, dst) }

// poly computes p = c[0]·x^(n-1) + … + c[n-1] by Horner's rule in fused steps.
func (a *asm) poly(x, p vec, c ...float64) {
	a.set(number(c[0]), p)
	for _, v := range c[1:] {
		a.f("FMADD213", number(v), x, p)
	}
}

// Predicates of comparisons. The ordered ones are false for NaN.
const (
	equal        = 0x00
	less         = 0x11
	lessEqual    = 0x12
	greaterEqual = 0x1d
	greater      = 0x1e
	unequal      = 0x04 // or unordered
	unordered    = 0x03
	notLess      = 0x15 // or unordered
	notLessEqual = 0x16 // or unordered
)

// cmp compares x with src. The mask takes slot registers from slot on, or the vec tmp.
func (a *asm) cmp(predicate int, src any, x vec, slot int, tmp vec) mask {
	if !a.wide {
		a.imm("VCMP"+a.suffix(), U8(predicate), src, x, tmp)
		return mask{v: tmp}
	}
	k := ks[slot*a.width : (slot+1)*a.width]
	for i := range x {
		from, constant := a.operand(src, i)
		name := "VCMP" + a.suffix()
		if constant {
			name += "_BCST"
		}
		a.emit(name, U8(predicate), from, x[i], k[i])
	}
	return mask{k: k}
}

// where sets dst to src in the lanes of m.
func (a *asm) where(m mask, src any, dst vec) {
	if !a.wide {
		for i := range dst {
			from, _ := a.operand(src, i)
			a.emit("VBLENDV"+a.suffix(), m.v[i], from, dst[i], dst[i])
		}
		return
	}
	for i := range dst {
		from, constant := a.operand(src, i)
		name := "VBLENDM" + a.suffix()
		if constant {
			name += "_BCST"
		}
		a.emit(name, from, dst[i], m.k[i], dst[i])
	}
}

// keep sets dst to src in the lanes of m and to zero elsewhere.
func (a *asm) keep(m mask, src any, dst vec) {
	if !a.wide {
		a.op("VANDPS", src, m.v, dst)
		return
	}
	for i := range dst {
		from, constant := a.operand(src, i)
		switch {
		case constant && a.size == 8:
			a.emit("VBROADCASTSD_Z", from, m.k[i], dst[i])
		case constant:
			a.emit("VBROADCASTSS_Z", from, m.k[i], dst[i])
		default:
			a.emit("VMOVA"+a.suffix()+"_Z", from, m.k[i], dst[i])
		}
	}
}

// A table is the constants of all functions: each is 32 bytes of copies, of which AVX-512 reads the
// first.
type table struct{ data []uint64 }

const tableName = "elementwise"

func (t *table) at(bits uint64) Mem {
	for i, b := range t.data {
		if b == bits {
			return NewDataAddr(NewStaticSymbol(tableName), 32*i)
		}
	}
	t.data = append(t.data, bits)
	return NewDataAddr(NewStaticSymbol(tableName), 32*(len(t.data)-1))
}

func (t *table) word(bits uint32) Mem { return t.at(uint64(bits)<<32 | uint64(bits)) }

func (t *table) float(v float64, size int) Mem {
	if size == 8 {
		return t.at(math.Float64bits(v))
	}
	return t.word(math.Float32bits(float32(v)))
}

// emit writes the constants, then 64 bytes of ones before 64 of zeros: at 64-n starts a mask of n
// bytes; and the numbers of 16 lanes.
func (t *table) emit(c *build.Context) {
	c.StaticGlobal(tableName)
	c.DataAttributes(readOnly)
	for _, bits := range t.data {
		for range 4 {
			c.AppendDatum(U64(bits))
		}
	}
	c.StaticGlobal(masksName)
	c.DataAttributes(readOnly)
	for i := range 16 {
		bits := ^uint64(0)
		if i >= 8 {
			bits = 0
		}
		c.AppendDatum(U64(bits))
	}
	c.StaticGlobal(indicesName)
	c.DataAttributes(readOnly)
	for i := range 16 {
		c.AppendDatum(U32(uint32(i)))
	}
}

const indicesName = "elementwiseIndices"

// masksMiddle is where the ones of the masks end.
var masksMiddle = NewDataAddr(NewStaticSymbol(masksName), 64)

const masksName = "elementwiseMasks"

// nan is the constant that comparisons cannot produce.
var nan = number(math.NaN())
var inf = number(math.Inf(1))
