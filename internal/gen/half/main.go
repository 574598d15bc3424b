// Command half writes the amd64 assembly of package half: conversions between float32 and 16-bit types.
//
//	go generate ./kernels/cpu/internal/asm/half
//
// A conversion goes over rows that lie strides apart, so that it packs as well as it encodes and
// decodes. All round to the nearest, of two to the even one, and keep every bit of
// float16.ToBFloat16 and its neighbours, NaNs included.
package main

import (
	"flag"
	"log"
	"path/filepath"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/evenkeel/evenkeel/internal/gen/rounding"
)

// A conversion is one function: elements of from bytes become elements of to bytes.
type conversion struct {
	name     string
	from, to int
	float16  bool
	wide     bool // AVX-512, else AVX2
	rounder  *rounding.Rounder
}

func main() {
	dir := flag.String("dir", ".", "folder of package half")
	flag.Parse()
	for name, value := range map[string]string{
		"pkg": "half", "out": filepath.Join(*dir, "zz_half_amd64.s"), "stubs": filepath.Join(*dir, "zz_half_amd64.go"),
	} {
		if err := flag.Set(name, value); err != nil {
			log.Fatal(err)
		}
	}
	ConstraintExpr("!purego")
	rounders := map[bool]*rounding.Rounder{false: rounding.New(false), true: rounding.New(true)}
	for _, kind := range []conversion{{name: "widen", from: 2, to: 4}, {name: "round", from: 4, to: 4}, {name: "encode", from: 4, to: 2}} {
		for _, kind.float16 = range []bool{false, true} {
			for _, kind.wide = range []bool{false, true} {
				kind.rounder = rounders[kind.wide]
				kind.emit()
			}
		}
	}
	Generate()
}

// Registers.
var (
	dst, src, rows, stride, n, pitch = RDI, RSI, RCX, RDX, RBX, R8
	to, from, left, temp             = R9, R10, R11, R12
	tail                             = K1 // of a row
)

// A vec is a vector register in its three widths.
type vec int

func (v vec) x() VecPhysical { return []VecPhysical{X0, X1, X2, X3, X4, X5, X6, X7}[v] }
func (v vec) y() VecPhysical { return []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7}[v] }
func (v vec) z() VecPhysical { return []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7}[v] }

const (
	value, a, b = vec(0), vec(1), vec(2)
	constants   = vec(4)
)

// unrolled is the number of vectors of an iteration of the loop.
const unrolled = 2

// of returns v as wide as vectors are.
func (c *conversion) of(v vec) VecPhysical {
	if c.wide {
		return v.z()
	}
	return v.y()
}

func (c *conversion) emit() {
	lanes, level, typ := 8, "AVX2", "BFloat16"
	if c.wide {
		lanes, level = 16, "AVX512"
	}
	if c.float16 {
		typ = "Float16"
	}
	name := c.name + typ + level
	TEXT(name, NOSPLIT, "func(dst, src []byte, rows, stride, n, pitch int)")
	Doc(map[string]string{
		"widen":  name + " makes float32 of rows of n elements, stride bytes apart, and writes them pitch bytes apart.",
		"round":  name + " rounds rows of n float32, stride bytes apart, to what the type holds, and writes them pitch bytes apart.",
		"encode": name + " rounds rows of n float32, stride bytes apart, to the type, and writes them pitch bytes apart.",
	}[c.name])
	Pragma("noescape")
	Load(Param("dst").Base(), dst)
	Load(Param("src").Base(), src)
	Load(Param("rows"), rows)
	Load(Param("stride"), stride)
	Load(Param("n"), n)
	Load(Param("pitch"), pitch)
	if !c.float16 && c.name != "widen" {
		var held []VecPhysical
		for i := range rounding.Constants {
			held = append(held, c.of(constants+vec(i)))
		}
		c.rounder = c.rounder.Hold(held)
	}
	if c.wide {
		MOVQ(n, temp)
		ANDQ(Imm(uint64(lanes-1)), temp)
		MOVQ(I32(-1), left)
		BZHIQ(temp, left, left)
		KMOVW(left.As32(), tail)
	}
	TESTQ(rows, rows)
	JLE(LabelRef("done"))
	Label("row")
	MOVQ(dst, to)
	MOVQ(src, from)
	MOVQ(n, left)
	vectors := func(n int) {
		for i := range n {
			c.load(i * lanes)
			c.convert(c.of(value), c.of(a), c.of(b))
			c.store(i * lanes)
		}
		ADDQ(Imm(uint64(n*c.from*lanes)), from)
		ADDQ(Imm(uint64(n*c.to*lanes)), to)
		SUBQ(Imm(uint64(n*lanes)), left)
	}
	SUBQ(Imm(uint64(unrolled*lanes)), left)
	JL(LabelRef("few"))
	Label("loop")
	vectors(unrolled)
	JGE(LabelRef("loop"))
	Label("few")
	ADDQ(Imm(uint64((unrolled-1)*lanes)), left)
	JL(LabelRef("rest"))
	Label("vector")
	vectors(1)
	JGE(LabelRef("vector"))
	Label("rest")
	ADDQ(Imm(uint64(lanes)), left)
	JLE(LabelRef("next"))
	if c.wide {
		c.loadSome()
		c.convert(c.of(value), c.of(a), c.of(b))
		c.storeSome()
	} else {
		Label("one")
		c.loadOne()
		c.convert(value.x(), a.x(), b.x())
		c.storeOne()
		ADDQ(Imm(uint64(c.from)), from)
		ADDQ(Imm(uint64(c.to)), to)
		DECQ(left)
		JNE(LabelRef("one"))
	}
	Label("next")
	ADDQ(stride, src)
	ADDQ(pitch, dst)
	DECQ(rows)
	JNE(LabelRef("row"))
	Label("done")
	VZEROUPPER()
	RET()
}

// load reads the stored vector at an offset in elements: float32, or words of bfloat16.
func (c *conversion) load(at int) {
	m, v := Mem{Base: from, Disp: at * c.from}, c.of(value)
	switch {
	case c.from == 4:
		VMOVUPS(m, v)
	case c.float16:
		VCVTPH2PS(m, v)
	default:
		VPMOVZXWD(m, v)
	}
}

// loadSome is load for the last lanes of a row.
func (c *conversion) loadSome() {
	m, v := Mem{Base: from}, c.of(value)
	switch {
	case c.from == 4:
		VMOVUPS_Z(m, tail, v)
	case c.float16:
		VCVTPH2PS_Z(m, tail, v)
	default:
		VPMOVZXWD_Z(m, tail, v)
	}
}

// loadOne is load for one element.
func (c *conversion) loadOne() {
	m, v := Mem{Base: from}, value.x()
	if c.from == 4 {
		VMOVSS(m, v)
		return
	}
	MOVWLZX(m, temp.As32())
	VMOVD(temp.As32(), v)
	if c.float16 {
		VCVTPH2PS(v, v)
	}
}

// convert makes what is stored of what was loaded; an encoded bfloat16 lies in the lower half of
// each lane.
func (c *conversion) convert(v, t, u VecPhysical) {
	switch {
	case c.name == "widen" && !c.float16:
		VPSLLD(Imm(16), v, v)
	case c.name == "round" && c.float16:
		rounding.Float16(v, rounding.Half(t, v))
	case c.name == "round":
		c.rounder.BFloat16(v, t, u)
	case c.name == "encode" && !c.float16:
		c.rounder.EncodeBFloat16(v, t, u)
	}
}

// store writes a vector at an offset in elements.
func (c *conversion) store(at int) {
	m, v := Mem{Base: to, Disp: at * c.to}, c.of(value)
	switch {
	case c.to == 4:
		VMOVUPS(v, m)
	case c.float16:
		VCVTPS2PH(Imm(0), v, m)
	case c.wide:
		VPMOVDW(v, m)
	default:
		VEXTRACTI128(Imm(1), v, a.x())
		VPACKUSDW(a.x(), value.x(), value.x())
		VMOVDQU(value.x(), m)
	}
}

// storeSome is store for the last lanes of a row.
func (c *conversion) storeSome() {
	m, v := Mem{Base: to}, c.of(value)
	switch {
	case c.to == 4:
		VMOVUPS(v, tail, m)
	case c.float16:
		VCVTPS2PH(Imm(0), v, tail, m)
	default:
		VPMOVDW(v, tail, m)
	}
}

// storeOne is store for one element.
func (c *conversion) storeOne() {
	m, v := Mem{Base: to}, value.x()
	if c.to == 4 {
		VMOVSS(v, m)
		return
	}
	if c.float16 {
		VCVTPS2PH(Imm(0), v, v)
	}
	VPEXTRW(Imm(0), v, temp.As32())
	MOVW(temp.As16(), m)
}
