// Command hint writes the amd64 assembly of package asm: instructions that change no result.
//
//	go generate ./kernels/cpu/internal/asm
package main

import (
	"flag"
	"log"
	"path/filepath"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	dir := flag.String("dir", ".", "folder of package asm")
	flag.Parse()
	stubs := filepath.Join(*dir, "zz_hint_amd64.go")
	for name, value := range map[string]string{"pkg": "asm", "out": filepath.Join(*dir, "zz_hint_amd64.s"), "stubs": stubs} {
		if err := flag.Set(name, value); err != nil {
			log.Fatal(err)
		}
	}
	ConstraintExpr("!purego")
	prefetch()
	pause()
	Generate()
}

// prefetch loads rows of a matrix into the second-level cache.
func prefetch() {
	TEXT("Prefetch", NOSPLIT, "func(src []byte, rows, stride, n int)")
	Doc("Prefetch loads the first n bytes of rows, which lie stride bytes apart, into the second-level cache. Rows may lie outside of src and of all memory.")
	Pragma("noescape")
	src, rows, stride, n, at := RSI, RCX, RDX, RBX, RAX
	Load(Param("src").Base(), src)
	Load(Param("rows"), rows)
	Load(Param("stride"), stride)
	Load(Param("n"), n)
	TESTQ(rows, rows)
	JLE(LabelRef("done"))
	Label("row")
	XORQ(at, at)
	Label("line")
	PREFETCHT1(Mem{Base: src, Index: at, Scale: 1})
	ADDQ(Imm(64), at)
	CMPQ(at, n)
	JL(LabelRef("line"))
	ADDQ(stride, src)
	DECQ(rows)
	JNE(LabelRef("row"))
	Label("done")
	RET()
}

// pause is the body of a spin loop.
func pause() {
	TEXT("Pause", NOSPLIT, "func()")
	Doc("Pause lets the sibling hardware thread run while a goroutine spins.")
	for range 4 {
		PAUSE()
	}
	RET()
}
