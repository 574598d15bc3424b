// Command norm writes the amd64 assembly of package cpu's normalizations, pooling and dropout.
//
//	go -C kernels/cpu generate
//
// Kernels over runs of floats work on groups of two vectors of 64 bytes: a ZMM register each, or two YMM registers. Every
// lane does the same operations at both widths and sums are put together in one order, so both give the same bits.
package main

import (
	"flag"
	"log"
	"os"
	"path/filepath"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// standIns are types that avo knows for those of package cpu.
var standIns = strings.NewReplacer("*uint8", "*planeCall[float32]", "*uint16", "*planeCall[float64]", "*uint32", "*rowCall[float32]",
	"*uint64", "*rowCall[float64]", "*int8", "*poolCall", "*int16", "*dropCall[float32]", "*int32", "*windowCall")

func main() {
	dir := flag.String("dir", ".", "folder of package cpu")
	flag.Parse()
	stubs := filepath.Join(*dir, "zz_norm_amd64.go")
	for name, value := range map[string]string{"pkg": "cpu", "out": filepath.Join(*dir, "zz_norm_amd64.s"), "stubs": stubs} {
		if err := flag.Set(name, value); err != nil {
			log.Fatal(err)
		}
	}
	ConstraintExpr("!purego")
	masks := maskTable()
	for _, wide := range []bool{true, false} {
		for _, e := range []elem{single, double} {
			v := &vectors{elem: e, wide: wide, masks: masks}
			v.moments()
			v.products()
			v.scale()
			v.gradient()
			v.columnMoments()
			v.columnProducts()
			v.columnScale()
			v.columnGradient()
			v.normRows()
			v.normRowsGrad()
		}
	}
	t := newPoolTables(masks)
	t.widePool()
	t.widePoolGrad()
	t.wideAverage()
	t.wideAverageGrad()
	t.wideWindow()
	t.wideMean()
	t.pool()
	t.poolGrad()
	t.average()
	t.averageGrad()
	t.window()
	t.mean()
	wideDrop()
	drop(masks)
	Generate()
	if err := typed(stubs); err != nil {
		log.Fatal(err)
	}
}

// typed gives the stubs their types.
func typed(stubs string) error {
	b, err := os.ReadFile(stubs)
	if err != nil {
		return err
	}
	return os.WriteFile(stubs, []byte(standIns.Replace(string(b))), 0o644)
}

// maskTable is 128 bytes of ones, then 128 of zeros: at 128-n it starts a mask of n bytes.
func maskTable() Mem {
	t := GLOBL("normMasks", RODATA|NOPTR)
	for i := 0; i < 256; i += 8 {
		v := ^uint64(0)
		if i >= 128 {
			v = 0
		}
		DATA(i, U64(v))
	}
	return t
}
