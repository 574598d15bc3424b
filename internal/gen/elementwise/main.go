// Command elementwise writes the amd64 assembly of package elementwise: elementwise operations and
// of its softmax rows.
//
//	go generate ./kernels/cpu/internal/asm/elementwise
//
// Every function is written once, for vectors of either width, and emitted for AVX2 and for
// AVX-512: each lane does the same operations, and sums over a row are kept in 16 lanes, so
// both give the same bits.
package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
)

func main() {
	flags := flag.NewFlagSet("elementwise", flag.ExitOnError)
	dir := flags.String("dir", ".", "folder of package elementwise")
	avo := build.NewFlags(flags)
	if err := flags.Parse(os.Args[1:]); err != nil {
		os.Exit(2)
	}
	out := filepath.Join(*dir, "zz_elementwise_amd64")
	for name, value := range map[string]string{"pkg": "elementwise", "out": out + ".s", "stubs": out + ".go"} {
		if err := flags.Set(name, value); err != nil {
			io.WriteString(os.Stderr, err.Error()+"\n")
			os.Exit(2)
		}
	}
	c := build.NewContext()
	c.ConstraintExpr("!purego")
	t := &table{}
	for _, wide := range []bool{false, true} {
		a := &asm{Context: c, wide: wide, table: t}
		for _, size := range []int{4, 8} {
			a.size = size
			for _, e := range slices.Concat(simple(), pairs(), []elementwise{fill}) {
				e.emit(a)
			}
		}
		a.size = 4
		for _, e := range transcendental() {
			e.emit(a)
		}
		chains(a)
		rowFunctions(a)
		widenedFunctions(a)
	}
	t.emit(c)
	os.Exit(build.Main(avo.Config(), c))
}

// readOnly are the attributes of constants.
const readOnly = attr.RODATA | attr.NOPTR
