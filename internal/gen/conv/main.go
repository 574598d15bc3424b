// Command conv writes the amd64 assembly of package conv: convolutions.
//
//	go generate ./kernels/cpu/internal/asm/conv
//
// It packs patches of images, the rows of a panel that the tile kernels of matrix products read,
// and ends rows of results.
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
)

// Offsets in conv.Patch; a test there compares them.
const (
	offDst      = 0
	offSrc      = 24
	offTaps     = 48
	offMasks    = 72
	offSegments = 96
	offLanes    = 120
	offTapCount = 144
	offSegCount = 152
	offChannels = 160
	offPlane    = 168
	offPitch    = 176
)

// Offsets in conv.Epilogue.
const (
	offC     = 0
	offBias  = 24
	offRows  = 48
	offRowC  = 56
	endN     = 64
	offFlags = 72
	offMean  = 80
	offScale = 104
	offShift = 128
)

// Flags in cpu.tile, which endings share.
const (
	flagBias = 2
	flagRelu = 4
)

// mode is where a function keeps MXCSR, as it was and as it is meanwhile.
var mode Mem

// flush lets a function take denormal numbers for 0 and make none, by FTZ and DAZ in MXCSR. It
// comes first, and leave last.
func flush() {
	mode = AllocLocal(8)
	STMXCSR(mode)
	MOVL(mode, EAX)
	ORL(U32(0x8040), EAX)
	MOVL(EAX, mode.Offset(4))
	LDMXCSR(mode.Offset(4))
}

// leave ends a function, and restores MXCSR.
func leave() {
	LDMXCSR(mode)
	VZEROUPPER()
	RET()
}

// maskRow is the bytes of a tap's row of masks, 16 of two bytes.
const maskRow = 32

func main() {
	dir := flag.String("dir", ".", "folder of package conv")
	flag.Parse()
	stubs := filepath.Join(*dir, "zz_conv_amd64.go")
	for name, value := range map[string]string{"pkg": "conv", "out": filepath.Join(*dir, "zz_conv_amd64.s"), "stubs": stubs} {
		if err := flag.Set(name, value); err != nil {
			log.Fatal(err)
		}
	}
	ConstraintExpr("!purego")
	for _, e := range []elem{single, double} {
		bits, lanes := e.bitTable(), e.laneTable()
		for _, l := range e.loaders(bits, lanes) {
			l.pack()
			l.depth()
			l.depthWeight()
		}
		e.wideEnd()
		e.end(lanes)
		e.wideNorm()
		e.norm(lanes)
		e.wideInput()
		e.wideWeight()
		e.wideOutput()
		e.turnedOutput("wideWinoTurned", zmm)
		e.input()
		e.weight()
		e.output(bits)
		e.turnedOutput("winoTurned", ymm)
	}
	wideRows()
	Generate()
	if err := typed(stubs); err != nil {
		log.Fatal(err)
	}
}

// Stand-ins for *Patch, *Epilogue and *Depthwise, types that avo does not know.
const (
	patchType  = "*uintptr"
	endingType = "*uint16"
	depthType  = "*uint8"
)

// typed gives the stubs their types.
func typed(stubs string) error {
	b, err := os.ReadFile(stubs)
	if err != nil {
		return err
	}
	s := strings.NewReplacer(patchType, "*Patch", endingType, "*Epilogue", depthType, "*Depthwise",
		inputType, "*WinogradInput", weightType, "*WinogradWeight", outputType, "*WinogradOutput", turnedType, "*WinogradTurned", rowsType, "*WinogradRows").Replace(string(b))
	return os.WriteFile(stubs, []byte(s), 0o644)
}

// Registers of the packing functions.
var (
	args           = RDI
	dst, src       = RAX, RBX // of the channels at hand
	to, from       = RCX, RDX // of the tap and segment at hand
	pitch, plane   = R8, R9   // bytes from channel to channel
	pitch3, plane3 = R10, R11
	count          = RSI // channels left
	tap, masks     = R12, R13
	temp           = R14
	seg            = R15
)

// packLoop emits the loops of a packing function: over channels, four at a time and then one, taps, and
// segments where there are any. Taps go inside, since planes can lie so that their lines share a
// set of the cache. start prepares the masks of a tap and a segment; move copies one vector of one
// channel, first reports whether it is the first segment.
func packLoop(segments bool, start func(), move func(from, to Mem, first bool)) {
	Load(Param("p"), args)
	MOVQ(Mem{Base: args, Disp: offDst}, dst)
	MOVQ(Mem{Base: args, Disp: offSrc}, src)
	MOVQ(Mem{Base: args, Disp: offPlane}, plane)
	LEAQ(Mem{Base: plane, Index: plane, Scale: 2}, plane3)
	MOVQ(Mem{Base: args, Disp: offPitch}, pitch)
	IMULQ(Mem{Base: args, Disp: offTapCount}, pitch)
	LEAQ(Mem{Base: pitch, Index: pitch, Scale: 2}, pitch3)
	MOVQ(Mem{Base: args, Disp: offChannels}, count)
	SUBQ(Imm(4), count)
	JL(LabelRef("rest"))
	Label("four")
	channels("four_", segments, start, func(first bool) {
		move(Mem{Base: from}, Mem{Base: to}, first)
		move(Mem{Base: from, Index: plane, Scale: 1}, Mem{Base: to, Index: pitch, Scale: 1}, first)
		move(Mem{Base: from, Index: plane, Scale: 2}, Mem{Base: to, Index: pitch, Scale: 2}, first)
		move(Mem{Base: from, Index: plane3, Scale: 1}, Mem{Base: to, Index: pitch3, Scale: 1}, first)
	})
	LEAQ(Mem{Base: src, Index: plane, Scale: 4}, src)
	LEAQ(Mem{Base: dst, Index: pitch, Scale: 4}, dst)
	SUBQ(Imm(4), count)
	JGE(LabelRef("four"))
	Label("rest")
	ADDQ(Imm(4), count)
	JLE(LabelRef("done"))
	Label("one")
	channels("one_", segments, start, func(first bool) { move(Mem{Base: from}, Mem{Base: to}, first) })
	ADDQ(plane, src)
	ADDQ(pitch, dst)
	DECQ(count)
	JNE(LabelRef("one"))
	Label("done")
	VZEROUPPER()
	RET()
}

// channels emits the loops over taps and segments for the channels at hand.
func channels(name string, segments bool, start func(), move func(first bool)) {
	XORQ(tap, tap)
	MOVQ(dst, to)
	MOVQ(Mem{Base: args, Disp: offMasks}, masks)
	Label(name + "tap")
	address(0, start)
	move(true)
	if segments {
		MOVQ(U32(1), seg)
		CMPQ(seg, Mem{Base: args, Disp: offSegCount})
		JGE(LabelRef(name + "tapped"))
		Label(name + "segment")
		address(1, start)
		move(false)
		INCQ(seg)
		CMPQ(seg, Mem{Base: args, Disp: offSegCount})
		JL(LabelRef(name + "segment"))
		Label(name + "tapped")
	}
	ADDQ(Imm(maskRow), masks)
	ADDQ(Mem{Base: args, Disp: offPitch}, to)
	INCQ(tap)
	CMPQ(tap, Mem{Base: args, Disp: offTapCount})
	JL(LabelRef(name + "tap"))
}

// address points from at the first channel of a segment, the first or a later one, and calls start.
func address(segment int, start func()) {
	MOVQ(Mem{Base: args, Disp: offTaps}, from)
	MOVQ(Mem{Base: from, Index: tap, Scale: 8}, from)
	ADDQ(src, from)
	MOVQ(Mem{Base: args, Disp: offSegments}, temp)
	if segment == 0 {
		ADDQ(Mem{Base: temp}, from)
		XORQ(seg, seg)
	} else {
		ADDQ(Mem{Base: temp, Index: seg, Scale: 8}, from)
	}
	start()
}

// begin opens a packing function.
func begin(name, doc string) {
	TEXT(name, NOSPLIT, "func(p "+patchType+")")
	Doc(name + " " + doc)
	Pragma("noescape")
}
