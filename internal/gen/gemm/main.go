// Command gemm writes the amd64 assembly of package gemm: matrix multiplication.
//
//	go generate ./kernels/cpu/internal/asm/gemm
//
// A tile kernel keeps up to 6x16 (AVX2) or 14x32 (AVX-512) sums in registers. For each step of k it
// loads one row of B, broadcasts one element of A for each row of the tile, and multiplies and adds;
// with a panel in its arguments it also stores the rows of B there. Then it continues with the tiles
// below that its arguments ask for. Every sum is one chain of fused multiply-adds in the order of k,
// so tiles of all sizes and both instruction sets give the same bits.
package main

import (
	"flag"
	"log"
	"os"
	"path/filepath"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/evenkeel/evenkeel/internal/gen/rounding"
)

// Offsets in gemm.Tile; a test there compares them.
const (
	offA     = 0
	offB     = 24
	offC     = 48
	offBias  = 72
	offK     = 96
	offRowA  = 104
	offStepA = 112
	offStepB = 120
	offRowC  = 128
	offN     = 136
	offFlags = 144
	offMore  = 160
	offMXCSR = 168 // as it was, then as it is meanwhile
	offPanel = 176
	offKind  = 200
)

// Flags in gemm.Tile.
const (
	flagAdd  = 1
	flagBias = 2
	flagRelu = 4
)

// flush makes denormal numbers zero, as operands and as results: products with them can take a
// hundred times as long. Between flush and restore t holds the address of the gemm.Tile.
func flush(t, temp GPPhysical) {
	const zeros = 1<<15 | 1<<6 // FTZ and DAZ: Intel 64 and IA-32 Architectures Software Developer's Manual, 10.2.3
	STMXCSR(Mem{Base: t, Disp: offMXCSR})
	MOVL(Mem{Base: t, Disp: offMXCSR}, temp.As32())
	ORL(U32(zeros), temp.As32())
	MOVL(temp.As32(), Mem{Base: t, Disp: offMXCSR + 4})
	LDMXCSR(Mem{Base: t, Disp: offMXCSR + 4})
}

// restore undoes flush.
func restore(t GPPhysical) { LDMXCSR(Mem{Base: t, Disp: offMXCSR}) }

var zmm = []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15,
	Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31}
var ymm = []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}
var xmm = []VecPhysical{X0, X1, X2, X3, X4, X5, X6, X7}

func main() {
	dir := flag.String("dir", ".", "folder of package gemm")
	flag.Parse()
	stubs := filepath.Join(*dir, "zz_gemm_amd64.go")
	for name, value := range map[string]string{"pkg": "gemm", "out": filepath.Join(*dir, "zz_gemm_amd64.s"), "stubs": stubs} {
		if err := flag.Set(name, value); err != nil {
			log.Fatal(err)
		}
	}
	ConstraintExpr("!purego")
	masks := maskTable()
	rounders := map[bool]*rounding.Rounder{false: rounding.New(false), true: rounding.New(true)}
	for _, e := range []elem{single, double} {
		for _, t := range []struct{ vector, rows int }{{32, 6}, {64, 14}} {
			rounder := rounders[t.vector == 64]
			for rows := 1; rows <= t.rows; rows++ {
				for _, vectors := range []int{2, 1} {
					k := kernel{elem: e, vector: t.vector, rows: rows, vectors: vectors, masks: masks, rounder: rounder}
					k.emit()
				}
			}
			for vectors := t.vector / 4; vectors >= 4; vectors /= 2 {
				k := kernel{elem: e, vector: t.vector, rows: 1, vectors: vectors, masks: masks, line: true, rounder: rounder}
				k.emit()
			}
		}
	}
	for rows := 1; rows <= 14; rows++ {
		for _, vectors := range []int{2, 1} {
			k := kernel{elem: pairs, vector: 64, rows: rows, vectors: vectors, masks: masks}
			k.emit()
		}
	}
	pairsAlong()
	pairsAcross(4)
	pairsAcross(2)
	packRows(masks, 64)
	packRows(masks, 128)
	for _, n := range append([]kind{{}}, kinds[:2]...) {
		packCols(single, transpose4, n, rounders[false])
		packWideCols(single, transpose4, n, rounders[true])
	}
	packCols(double, transpose2, kind{}, nil)
	packWideCols(double, transpose2, kind{}, nil)
	dots(masks, single, rounders[false])
	dots(masks, single, rounders[true])
	dots(masks, double, nil)
	Generate()
	if err := typed(stubs); err != nil {
		log.Fatal(err)
	}
}

// untyped stands for *Tile, a type that avo does not know.
const untyped = "*uintptr"

// typed gives the stubs their type.
func typed(stubs string) error {
	b, err := os.ReadFile(stubs)
	if err != nil {
		return err
	}
	return os.WriteFile(stubs, []byte(strings.ReplaceAll(string(b), untyped, "*Tile")), 0o644)
}

// maskTable is 128 bytes of ones, then 128 of zeros: at 128-n it starts a mask of n bytes.
func maskTable() Mem {
	t := GLOBL("masks", RODATA|NOPTR)
	for i := 0; i < 256; i += 8 {
		v := ^uint64(0)
		if i >= 128 {
			v = 0
		}
		DATA(i, U64(v))
	}
	return t
}
