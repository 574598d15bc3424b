// Command update writes the amd64 assembly of package update: optimizer rules.
//
//	go generate ./kernels/cpu/internal/asm/update
//
// A rule makes one pass over parameter, gradient and states. AVX-512 and AVX2 do the same to every
// element, so both give the same bits. Adam with states of a byte makes two passes over each block.
// Denormal numbers, which the states of a parameter without gradients decay to, are taken for 0.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

func main() {
	dir := flag.String("dir", ".", "folder of package update")
	flag.Parse()
	stubs := filepath.Join(*dir, "zz_update_amd64.go")
	for name, value := range map[string]string{"pkg": "update", "out": filepath.Join(*dir, "zz_update_amd64.s"), "stubs": stubs} {
		if err := flag.Set(name, value); err != nil {
			log.Fatal(err)
		}
	}
	ConstraintExpr("!purego")
	masks := maskTable()
	mixers, limits = mixerTable(), limitTable()
	for _, e := range []elem{single, double} {
		for _, wide := range []bool{true, false} {
			for _, r := range rules {
				if r.narrow && e.bits != 32 {
					continue // in Go
				}
				k := &kernel{elem: e, wide: wide, rule: r, masks: masks}
				k.emit()
			}
		}
	}
	codes := codeTable()
	for _, wide := range []bool{true, false} {
		for _, r := range []rule{
			{name: "adamBytes32", doc: "as adam, with states of a byte.", numbers: 7},
			{name: "adamWBytes32", doc: "as adamW, with states of a byte.", numbers: 8},
		} {
			c := &coded{kernel: &kernel{elem: single, wide: wide, rule: r}, table: codes}
			c.emit()
		}
	}
	for _, wide := range []bool{true, false} {
		f := &factors{wide}
		f.squares()
		f.measure()
		f.apply()
	}
	Generate()
	if err := typed(stubs); err != nil {
		log.Fatal(err)
	}
}

// typed gives the stubs their type, which avo does not know.
func typed(stubs string) error {
	b, err := os.ReadFile(stubs)
	if err != nil {
		return err
	}
	s := string(b)
	for bits, stand := range untyped {
		s = strings.ReplaceAll(s, stand, fmt.Sprintf("*Rule[float%d]", bits))
	}
	s = strings.ReplaceAll(s, narrowType, "*Rule16[float32]")
	s = strings.ReplaceAll(s, bytesType, "*Rule8[float32]")
	s = strings.ReplaceAll(s, factorType, "*FactorScalars")
	return os.WriteFile(stubs, []byte(s), 0o644)
}

// untyped stands for pointers to rules.
var untyped = map[int]string{32: "*uint32", 64: "*uint64"}

// maskTable is 64 bytes of ones, then 64 of zeros: at 64-n it starts a mask of n bytes.
func maskTable() Mem {
	t := GLOBL("updateMasks", RODATA|NOPTR)
	for i := 0; i < 128; i += 8 {
		v := ^uint64(0)
		if i >= 64 {
			v = 0
		}
		DATA(i, U64(v))
	}
	return t
}
