// Command transpose writes the amd64 assembly of package transpose: transposition.
//
//	go generate ./kernels/cpu/internal/asm/transpose
//
// Squares of 8x8 elements of 4 bytes, or 4x4 of 8, are transposed in registers: halves of rows are
// loaded next to each other, so that a smaller square in each half is left to transpose. AVX2 is
// enough: memory is the limit.
package main

import (
	"flag"
	"fmt"
	"log"
	"path/filepath"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

var (
	ymm = []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11}
	xmm = []VecPhysical{X0, X1, X2, X3, X4, X5, X6, X7}
)

func main() {
	dir := flag.String("dir", ".", "folder of package transpose")
	flag.Parse()
	for name, value := range map[string]string{
		"pkg": "transpose", "out": filepath.Join(*dir, "zz_transpose_amd64.s"), "stubs": filepath.Join(*dir, "zz_transpose_amd64.go"),
	} {
		if err := flag.Set(name, value); err != nil {
			log.Fatal(err)
		}
	}
	ConstraintExpr("!purego")
	transpose(4)
	transpose(8)
	Generate()
}

// transpose writes the kernel for elements of size bytes.
func transpose(size int) {
	side, bits := 32/size, 8*size
	half := side / 2
	name := fmt.Sprintf("transpose%d", bits)
	TEXT(name, NOSPLIT, fmt.Sprintf("func(dst, src []uint%d, rows, cols, rowStride, step int)", bits))
	Doc(fmt.Sprintf("%s sets dst[r*rowStride+c] to src[r+c*step] for r < rows, c < cols, both multiples of %d.", name, side))
	Pragma("noescape")
	dst, src, rows, cols, row, step := RDI, RSI, RCX, RDX, R8, R9
	row3, step3 := R10, R11
	d, s, left, high := RAX, RBX, R12, R13 // high: half of the lines, or rows, further on
	Load(Param("dst").Base(), dst)
	Load(Param("src").Base(), src)
	Load(Param("rows"), rows)
	Load(Param("cols"), cols)
	Load(Param("rowStride"), row)
	Load(Param("step"), step)
	for b := 1; b < size; b *= 2 {
		ADDQ(row, row)
		ADDQ(step, step)
	}
	LEAQ(Mem{Base: row, Index: row, Scale: 2}, row3)
	LEAQ(Mem{Base: step, Index: step, Scale: 2}, step3)
	at := func(base Register, stride, stride3 Register, i, disp int) Mem {
		m := Mem{Base: base, Disp: disp}
		switch i {
		case 1, 2:
			m.Index, m.Scale = stride, uint8(i)
		case 3:
			m.Index, m.Scale = stride3, 1
		}
		return m
	}
	Label("band")
	MOVQ(dst, d)
	MOVQ(src, s)
	MOVQ(cols, left)
	Label("square")
	LEAQ(Mem{Base: s, Index: step, Scale: uint8(half)}, high)
	for h := range 2 { // halves of the lines
		for i := range half {
			VMOVUPS(at(s, step, step3, i, 16*h), xmm[h*half+i])
		}
		for i := range half {
			VINSERTF128(Imm(1), at(high, step, step3, i, 16*h), ymm[h*half+i], ymm[h*half+i])
		}
	}
	LEAQ(Mem{Base: s, Index: step, Scale: 8}, s)
	if side == 4 {
		SUBQ(step, s)
		SUBQ(step3, s)
	}
	LEAQ(Mem{Base: d, Index: row, Scale: uint8(half)}, high)
	for h := range 2 {
		base := Register(d)
		if h == 1 {
			base = high
		}
		for i, column := range columns(size, h*half) {
			VMOVUPS(column, at(base, row, row3, i, 0))
		}
	}
	ADDQ(Imm(32), d)
	SUBQ(Imm(uint64(side)), left)
	JNE(LabelRef("square"))
	ADDQ(Imm(32), src)
	LEAQ(Mem{Base: dst, Index: row, Scale: uint8(side)}, dst)
	SUBQ(Imm(uint64(side)), rows)
	JNE(LabelRef("band"))
	VZEROUPPER()
	RET()
}

// columns transposes the squares in the halves of the registers from first on, and returns where the
// results are.
func columns(size, first int) []VecPhysical {
	r, t := ymm[first:], ymm[8:]
	if size == 8 {
		VUNPCKLPD(r[1], r[0], t[0])
		VUNPCKHPD(r[1], r[0], t[1])
		return t[:2]
	}
	VUNPCKLPS(r[1], r[0], t[0])
	VUNPCKHPS(r[1], r[0], t[1])
	VUNPCKLPS(r[3], r[2], t[2])
	VUNPCKHPS(r[3], r[2], t[3])
	VUNPCKLPD(t[2], t[0], r[0])
	VUNPCKHPD(t[2], t[0], r[1])
	VUNPCKLPD(t[3], t[1], r[2])
	VUNPCKHPD(t[3], t[1], r[3])
	return r[:4]
}
