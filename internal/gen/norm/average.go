package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// quarter broadcasts 1/4.
func quarter(dst VecPhysical, low Register) {
	MOVL(U32(0x3e800000), EAX)
	VMOVD(EAX, low)
	VBROADCASTSS(low, dst)
}

// wideAverage writes the mean of windows of 2x2, 16 windows at a time.
func (t *poolTables) wideAverage() {
	TEXT("wideAverage", NOSPLIT, "func(c "+poolStandIn+")")
	Doc("wideAverage takes the mean of windows of 2x2.")
	Pragma("noescape")
	VMOVDQU32(t.even, Z16)
	VMOVDQU32(t.odd, Z17)
	quarter(Z18, X18)
	step := func(edge bool) {
		if edge {
			wideMasks()
		}
		for i, k := range []Register{K2, K3} {
			for j, base := range []GPPhysical{top, bottom} {
				m := Mem{Base: base, Disp: 64 * i}
				if edge {
					VMOVUPS_Z(m, k, zmm[2*i+j])
				} else {
					VMOVUPS(m, zmm[2*i+j])
				}
			}
			VADDPS(zmm[2*i+1], zmm[2*i], zmm[2*i])
		}
		VMOVAPS(Z0, Z1)
		VPERMT2PS(Z2, Z16, Z0)
		VPERMT2PS(Z2, Z17, Z1)
		VADDPS(Z1, Z0, Z0)
		VMULPS(Z18, Z0, Z0)
		if edge {
			VMOVUPS(Z0, K1, Mem{Base: result})
		} else {
			VMOVUPS(Z0, Mem{Base: result})
		}
	}
	poolLoop(func() { poolSteps(16, func() { step(false) }, func() { step(true) }) })
}

// wideAverageGrad writes a quarter of each gradient to the four pixels of its window, 16 windows at
// a time.
func (t *poolTables) wideAverageGrad() {
	TEXT("wideAverageGrad", NOSPLIT, "func(c "+poolStandIn+")")
	Doc("wideAverageGrad shares gradients among windows of 2x2.")
	Pragma("noescape")
	VMOVDQU32(t.pairs, Z16)
	VMOVDQU32(t.pairs.Offset(64), Z17)
	quarter(Z18, X18)
	step := func(edge bool) {
		if edge {
			wideMasks()
			VMOVUPS_Z(Mem{Base: result}, K1, Z0)
		} else {
			VMOVUPS(Mem{Base: result}, Z0)
		}
		VMULPS(Z18, Z0, Z0)
		for i, pair := range []VecPhysical{Z16, Z17} {
			VPERMPS(Z0, pair, Z1)
			for _, base := range []GPPhysical{top, bottom} {
				m := Mem{Base: base, Disp: 64 * i}
				if edge {
					VMOVUPS(Z1, []Register{K2, K3}[i], m)
				} else {
					VMOVUPS(Z1, m)
				}
			}
		}
	}
	poolLoop(func() { poolSteps(16, func() { step(false) }, func() { step(true) }) })
}

// average writes the mean of windows of 2x2 with AVX2, 8 windows at a time.
func (t *poolTables) average() {
	TEXT("average2", NOSPLIT, "func(c "+poolStandIn+")")
	Doc("average2 takes the mean of windows of 2x2.")
	Pragma("noescape")
	quarter(Y15, X15)
	step := func(edge bool) {
		if edge {
			edgeMasks(t.masks)
		}
		for i := range 2 {
			for j, base := range []GPPhysical{top, bottom} {
				t.readHalf(Mem{Base: base, Disp: 32 * i}, i, edge, ymm[2*i+j])
			}
			VADDPS(ymm[2*i+1], ymm[2*i], ymm[2*i])
		}
		VSHUFPS(Imm(0x88), Y2, Y0, Y1)
		VSHUFPS(Imm(0xdd), Y2, Y0, Y3)
		VADDPS(Y3, Y1, Y0)
		VMULPS(Y15, Y0, Y0)
		VPERMPD(Imm(0xd8), Y0, Y0)
		if edge {
			VMOVUPS(Mem{Base: RAX}, Y12)
			VMASKMOVPS(Y0, Y12, Mem{Base: result})
		} else {
			VMOVUPS(Y0, Mem{Base: result})
		}
	}
	poolLoop(func() { poolSteps(8, func() { step(false) }, func() { step(true) }) })
}

// readHalf loads pixels i·8 and following, of those that RCX masks where they are the last.
func (t *poolTables) readHalf(m Mem, i int, edge bool, dst VecPhysical) {
	if edge {
		VMOVUPS(Mem{Base: RCX, Disp: 32 * i}, Y12)
		VMASKMOVPS(m, Y12, dst)
		return
	}
	VMOVUPS(m, dst)
}

// averageGrad writes a quarter of each gradient to the four pixels of its window with AVX2, 8
// windows at a time.
func (t *poolTables) averageGrad() {
	TEXT("averageGrad2", NOSPLIT, "func(c "+poolStandIn+")")
	Doc("averageGrad2 shares gradients among windows of 2x2.")
	Pragma("noescape")
	VMOVDQU(t.pairs, Y13)
	VMOVDQU(t.pairs.Offset(32), Y14)
	quarter(Y15, X15)
	step := func(edge bool) {
		if edge {
			edgeMasks(t.masks)
			VMOVUPS(Mem{Base: RAX}, Y12)
			VMASKMOVPS(Mem{Base: result}, Y12, Y0)
		} else {
			VMOVUPS(Mem{Base: result}, Y0)
		}
		VMULPS(Y15, Y0, Y0)
		for i, pair := range []VecPhysical{Y13, Y14} {
			VPERMPS(Y0, pair, Y1)
			if edge {
				VMOVUPS(Mem{Base: RCX, Disp: 32 * i}, Y12)
			}
			for _, base := range []GPPhysical{top, bottom} {
				m := Mem{Base: base, Disp: 32 * i}
				if edge {
					VMASKMOVPS(Y1, Y12, m)
				} else {
					VMOVUPS(Y1, m)
				}
			}
		}
	}
	poolLoop(func() { poolSteps(8, func() { step(false) }, func() { step(true) }) })
}

// shareAt addresses the shares of the results that windows is at.
func shareAt() Mem {
	MOVQ(Mem{Base: args, Disp: windowShare}, windowSpare)
	MOVQ(Mem{Base: args, Disp: windowWidth}, RAX)
	SUBQ(windowLeft, RAX)
	return Mem{Base: windowSpare, Index: RAX, Scale: 4}
}

// wideMean writes the mean of any windows at distance 1 or 2, 16 results at a time.
func (t *poolTables) wideMean() {
	TEXT("wideMean", NOSPLIT, "func(c "+windowStandIn+")")
	Doc("wideMean takes the sum of a row of windows at distance 1 or 2, times what each has as its share.")
	Pragma("noescape")
	Load(Param("c"), args)
	sum, v, more, even := Z0, Z2, Z3, Z16
	VMOVDQU32(t.even, even)
	pixel := Mem{Base: windowRow, Index: windowAt, Scale: 4}
	windows(16, func() {
		VPXORD(sum, sum, sum)
	}, func() {
		insideBits()
		KMOVW(EAX, K2)
		VMOVUPS_Z(pixel, K2, v)
		ifAdjacent(func() {}, func() {
			SHRQ(Imm(16), RAX)
			KMOVW(EAX, K3)
			VMOVUPS_Z(pixel.Offset(64), K3, more)
			VPERMT2PS(more, even, v)
		})
		VADDPS(v, sum, sum)
	}, func() {
		wideLastMask()
		VMULPS_Z(shareAt(), sum, K1, sum)
		VMOVUPS(sum, K1, Mem{Base: result})
	})
}

// mean writes the same with AVX2, 8 results at a time.
func (t *poolTables) mean() {
	TEXT("mean2", NOSPLIT, "func(c "+windowStandIn+")")
	Doc("mean2 takes the sum of a row of windows at distance 1 or 2, times what each has as its share.")
	Pragma("noescape")
	Load(Param("c"), args)
	sum, v, more := Y0, Y3, Y4
	inside := newInside(t)
	windows(8, func() {
		VPXOR(sum, sum, sum)
	}, func() {
		inside.read(0, v)
		ifAdjacent(func() {}, func() {
			inside.read(8, more)
			VSHUFPS(Imm(0x88), more, v, v)
			VPERMPD(Imm(0xd8), v, v)
		})
		VADDPS(v, sum, sum)
	}, func() {
		lastMask(t.masks)
		VMASKMOVPS(shareAt(), Y7, v)
		VMULPS(v, sum, sum)
		VMASKMOVPS(sum, Y7, Mem{Base: result})
	})
}
