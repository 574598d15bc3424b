// Command norm writes the amd64 assembly of packages norm, pool2d and dropout: one of them, as
// -package says.
//
//	go generate ./kernels/cpu/internal/asm/norm ./kernels/cpu/internal/asm/pool2d ./kernels/cpu/internal/asm/dropout
//
// Kernels of normalization work on groups of two vectors of 64 bytes: a ZMM register each, or two
// YMM registers. Every lane does the same operations at both widths and sums are added in one
// order, so both give the same bits.
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

// standIns are types that avo knows, for argument structs that it does not know.
var standIns = strings.NewReplacer("*uint8", "*PlaneArgs[float32]", "*uint16", "*PlaneArgs[float64]", "*uint32", "*RowArgs[float32]",
	"*uint64", "*RowArgs[float64]", "*int8", "*Args2x2", "*int16", "*Args[float32]", "*int32", "*RowArgs")

func main() {
	pkg := flag.String("package", "norm", "norm, pool2d or dropout")
	dir := flag.String("dir", ".", "folder of the package")
	flag.Parse()
	emit, ok := map[string]func(masks Mem){"norm": norm, "pool2d": pool2d, "dropout": dropout}[*pkg]
	if !ok {
		log.Fatalf("no package %q", *pkg)
	}
	stubs := filepath.Join(*dir, "zz_"+*pkg+"_amd64.go")
	for name, value := range map[string]string{"pkg": *pkg, "out": filepath.Join(*dir, "zz_"+*pkg+"_amd64.s"), "stubs": stubs} {
		if err := flag.Set(name, value); err != nil {
			log.Fatal(err)
		}
	}
	ConstraintExpr("!purego")
	emit(maskTable())
	Generate()
	if err := typed(stubs); err != nil {
		log.Fatal(err)
	}
}

func norm(masks Mem) {
	ones := map[string]Mem{}
	for _, e := range []elem{single, double} {
		ones[e.name] = ConstData("one"+e.name, U64(e.one))
	}
	for _, wide := range []bool{true, false} {
		for _, e := range []elem{single, double} {
			v := &vectors{elem: e, wide: wide, masks: masks, ones: ones[e.name]}
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
}

func pool2d(masks Mem) {
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
}

func dropout(masks Mem) {
	wideDrop()
	drop(masks)
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
