// Command conv writes the amd64 assembly of package cpu's convolutions.
//
//	go -C kernels/cpu generate
//
// It packs patches of images, the rows of a panel that the tile kernels of matrix products read, and ends rows of results.
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

// Offsets in cpu.patch; a test there compares them.
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

// Offsets in cpu.ending.
const (
	offC     = 0
	offBias  = 24
	offRows  = 48
	offRowC  = 56
	offN     = 64
	offFlags = 72
)

// Flags in cpu.tile, which endings share.
const (
	flagBias = 2
	flagRelu = 4
)

// maskRow is the bytes of a tap's row of masks, 16 of two bytes.
const maskRow = 32

func main() {
	dir := flag.String("dir", ".", "folder of package cpu")
	flag.Parse()
	stubs := filepath.Join(*dir, "zz_conv_amd64.go")
	for name, value := range map[string]string{"pkg": "cpu", "out": filepath.Join(*dir, "zz_conv_amd64.s"), "stubs": stubs} {
		if err := flag.Set(name, value); err != nil {
			log.Fatal(err)
		}
	}
	ConstraintExpr("!purego")
	for _, e := range []elem{single, double} {
		e.wideRuns()
		e.widePairs()
		e.wideGathers()
		e.runs()
		e.gathers()
		e.wideEnd()
		e.end()
	}
	Generate()
	if err := typed(stubs); err != nil {
		log.Fatal(err)
	}
}

// Stand-ins for *patch and *ending, types that avo does not know.
const (
	patchType  = "*uintptr"
	endingType = "*uint16"
)

// typed gives the stubs their types.
func typed(stubs string) error {
	b, err := os.ReadFile(stubs)
	if err != nil {
		return err
	}
	s := strings.NewReplacer(patchType, "*patch", endingType, "*ending").Replace(string(b))
	return os.WriteFile(stubs, []byte(s), 0o644)
}

// Registers of the packing functions.
var (
	args           = RDI
	dst, src       = RAX, RBX // of the first channel
	to, from       = RCX, RDX // of the channel at hand
	pitch, plane   = R8, R9   // bytes from channel to channel
	pitch3, plane3 = R10, R11
	count          = RSI
	tap, taps      = R12, R13
	temp           = R14
	seg            = R15
)

// walk emits the loops of a packing function: over taps, over segments where there are any, and over channels. start
// prepares the masks of a tap and a segment; move copies one vector of one channel, first says to the first segment.
// Channels go four at a time.
func walk(segments bool, start func(), move func(from, to Mem, first bool)) {
	Load(Param("p"), args)
	MOVQ(Mem{Base: args, Disp: offDst}, dst)
	MOVQ(Mem{Base: args, Disp: offPlane}, plane)
	LEAQ(Mem{Base: plane, Index: plane, Scale: 2}, plane3)
	MOVQ(Mem{Base: args, Disp: offPitch}, pitch)
	IMULQ(Mem{Base: args, Disp: offTapCount}, pitch)
	LEAQ(Mem{Base: pitch, Index: pitch, Scale: 2}, pitch3)
	XORQ(tap, tap)
	Label("tap")
	MOVQ(Mem{Base: args, Disp: offTaps}, temp)
	MOVQ(Mem{Base: temp, Index: tap, Scale: 8}, src)
	ADDQ(Mem{Base: args, Disp: offSrc}, src)
	XORQ(seg, seg)
	address(start)
	channels("first", func(from, to Mem) { move(from, to, true) })
	if segments {
		Label("segment")
		INCQ(seg)
		CMPQ(seg, Mem{Base: args, Disp: offSegCount})
		JGE(LabelRef("tapped"))
		address(start)
		channels("later", func(from, to Mem) { move(from, to, false) })
		JMP(LabelRef("segment"))
	}
	Label("tapped")
	ADDQ(Mem{Base: args, Disp: offPitch}, dst)
	INCQ(tap)
	CMPQ(tap, Mem{Base: args, Disp: offTapCount})
	JL(LabelRef("tap"))
	VZEROUPPER()
	RET()
}

// address points at the first channel of the segment at hand, and calls start with taps at its masks.
func address(start func()) {
	MOVQ(Mem{Base: args, Disp: offSegments}, temp)
	MOVQ(Mem{Base: temp, Index: seg, Scale: 8}, from)
	ADDQ(src, from)
	MOVQ(dst, to)
	MOVQ(tap, taps)
	SHLQ(Imm(5), taps) // maskRow
	ADDQ(Mem{Base: args, Disp: offMasks}, taps)
	LEAQ(Mem{Base: taps, Index: seg, Scale: 2}, taps)
	start()
}

// channels emits the loop over channels.
func channels(name string, move func(from, to Mem)) {
	MOVQ(Mem{Base: args, Disp: offChannels}, count)
	SUBQ(Imm(4), count)
	JL(LabelRef(name + "_rest"))
	Label(name + "_four")
	move(Mem{Base: from}, Mem{Base: to})
	move(Mem{Base: from, Index: plane, Scale: 1}, Mem{Base: to, Index: pitch, Scale: 1})
	move(Mem{Base: from, Index: plane, Scale: 2}, Mem{Base: to, Index: pitch, Scale: 2})
	move(Mem{Base: from, Index: plane3, Scale: 1}, Mem{Base: to, Index: pitch3, Scale: 1})
	LEAQ(Mem{Base: from, Index: plane, Scale: 4}, from)
	LEAQ(Mem{Base: to, Index: pitch, Scale: 4}, to)
	SUBQ(Imm(4), count)
	JGE(LabelRef(name + "_four"))
	Label(name + "_rest")
	ADDQ(Imm(4), count)
	JLE(LabelRef(name + "_done"))
	Label(name + "_one")
	move(Mem{Base: from}, Mem{Base: to})
	ADDQ(plane, from)
	ADDQ(pitch, to)
	DECQ(count)
	JNE(LabelRef(name + "_one"))
	Label(name + "_done")
}

// begin opens a packing function.
func begin(name, doc string) {
	TEXT(name, NOSPLIT, "func(p "+patchType+")")
	Doc(name + " " + doc)
	Pragma("noescape")
}
