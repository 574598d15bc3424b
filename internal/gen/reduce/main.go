// Command reduce writes the amd64 assembly of package reduce: reductions.
//
//	go generate ./kernels/cpu/internal/asm/reduce
//
// All folds are computed on float64, in vectors of 8 lanes: one register with AVX-512, two with
// AVX2, with the same operations on each lane, so that both give the same bits.
// kernels/cpu/internal/asm/reduce states the order.
package main

import (
	"flag"
	"log"
	"math/bits"
	"path/filepath"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const (
	tileLen = 1024   // reduce.TileLen
	sums    = 4      // vectors of partial results of a tile
	flush   = 0x8040 // FTZ and DAZ in MXCSR
)

var zmm = []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15}
var ymm = []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}
var xmm = []VecPhysical{X0, X1, X2, X3, X4, X5, X6, X7, X8, X9, X10, X11, X12, X13, X14, X15}

func main() {
	dir := flag.String("dir", ".", "folder of package reduce")
	flag.Parse()
	for name, value := range map[string]string{
		"pkg": "reduce", "out": filepath.Join(*dir, "zz_reduce_amd64.s"), "stubs": filepath.Join(*dir, "zz_reduce_amd64.go"),
	} {
		if err := flag.Set(name, value); err != nil {
			log.Fatal(err)
		}
	}
	ConstraintExpr("!purego")
	t := tables()
	for _, size := range []int{4, 8} {
		for _, wide := range []bool{true, false} {
			for _, f := range []fold{sum, max, squares} {
				k := &kernel{size: size, wide: wide, fold: f, tables: t}
				k.rows()
				if f != squares {
					k.cols()
				}
			}
		}
	}
	for _, wide := range []bool{true, false} {
		largest(wide, t)
	}
	Generate()
}

// A table set holds constants: masks is 128 bytes of ones, then 128 of zeros, so that at 128-n a
// mask of n bytes starts.
type table struct{ masks, infinity, nan, one Mem }

func tables() table {
	t := table{masks: GLOBL("reduceMasks", RODATA|NOPTR)}
	for i := 0; i < 256; i += 8 {
		v := ^uint64(0)
		if i >= 128 {
			v = 0
		}
		DATA(i, U64(v))
	}
	t.infinity = GLOBL("reduceInfinity", RODATA|NOPTR) // the negative one
	DATA(0, U64(0xfff0000000000000))
	t.nan = GLOBL("reduceNaN", RODATA|NOPTR)
	DATA(0, U64(0x7ff8000000000001))
	t.one = GLOBL("reduceOne", RODATA|NOPTR)
	DATA(0, U64(0x3ff0000000000000))
	return t
}

// largest finds the largest of 32-bit words after some bits are cleared: exponents are compared as
// integers.
func largest(wide bool, t table) {
	reg, bytes, name := ymm, 32, "largest"
	and := func(m, x, dst Op) { VPAND(m, x, dst) }
	xor := func(a, b, dst Op) { VPXOR(a, b, dst) }
	if wide {
		reg, bytes, name = zmm, 64, "wideLargest"
		and = func(m, x, dst Op) { VPANDD(m, x, dst) }
		xor = func(a, b, dst Op) { VPXORD(a, b, dst) }
	}
	TEXT(name, NOSPLIT, "func(x []uint32, mask uint64) uint32")
	Doc(name + " returns the largest element of x once all bits are cleared but those of mask, which leaves the sign out and holds for two words.")
	Pragma("noescape")
	x, n, mask := RSI, RCX, RAX
	Load(Param("x").Base(), x)
	Load(Param("x").Len(), n)
	Load(Param("mask"), mask)
	VMOVQ(mask, X4)
	VPBROADCASTQ(X4, reg[4])
	for i := range 4 {
		xor(reg[i], reg[i], reg[i])
	}
	step := bytes / 4
	SUBQ(Imm(uint64(4*step)), n)
	JL(LabelRef("rest"))
	Label("loop")
	for i := range 4 {
		and(Mem{Base: x, Disp: i * bytes}, reg[4], reg[5+i])
		VPMAXSD(reg[5+i], reg[i], reg[i])
	}
	ADDQ(U32(uint32(4*bytes)), x)
	SUBQ(Imm(uint64(4*step)), n)
	JGE(LabelRef("loop"))
	Label("rest")
	ADDQ(Imm(uint64(4*step)), n)
	Label("one")
	SUBQ(Imm(uint64(step)), n)
	JL(LabelRef("tail"))
	and(Mem{Base: x}, reg[4], reg[5])
	VPMAXSD(reg[5], reg[0], reg[0])
	ADDQ(Imm(uint64(bytes)), x)
	JMP(LabelRef("one"))
	Label("tail")
	ADDQ(Imm(uint64(step)), n)
	JLE(LabelRef("end"))
	if wide {
		opmask(n, RBX)
		VMOVDQU32_Z(Mem{Base: x}, K1, reg[5])
	} else {
		maskOf(t.masks, 4, n, RBX)
		VMOVDQU(Mem{Base: RBX}, Y6)
		VPMASKMOVD(Mem{Base: x}, Y6, Y5)
	}
	and(reg[5], reg[4], reg[5])
	VPMAXSD(reg[5], reg[1], reg[1])
	Label("end")
	VPMAXSD(reg[1], reg[0], reg[0])
	VPMAXSD(reg[3], reg[2], reg[2])
	VPMAXSD(reg[2], reg[0], reg[0])
	if wide {
		VEXTRACTI64X4(Imm(1), Z0, Y1)
		VPMAXSD(Y1, Y0, Y0)
	}
	VEXTRACTI128(Imm(1), Y0, X1)
	VPMAXSD(X1, X0, X0)
	VPSHUFD(Imm(0x4e), X0, X1)
	VPMAXSD(X1, X0, X0)
	VPSHUFD(Imm(0xb1), X0, X1)
	VPMAXSD(X1, X0, X0)
	VMOVD(X0, EAX)
	VZEROUPPER()
	Store(EAX, ReturnIndex(0))
	RET()
}

// opmask sets K1 to n lanes.
func opmask(n, tmp GPPhysical) {
	MOVQ(I32(-1), tmp)
	BZHIQ(n, tmp, tmp)
	KMOVW(tmp.As32(), K1)
}

// maskOf leaves in at where a mask of n elements starts, and spoils R12.
func maskOf(masks Mem, size int, n, at GPPhysical) {
	LEAQ(masks.Offset(128), at)
	MOVQ(n, R12)
	SHLQ(Imm(uint64(bits.TrailingZeros(uint(size)))), R12)
	SUBQ(R12, at)
}
