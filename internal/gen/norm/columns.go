package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// tileMost is the most channels of a call, norm.MaxTile.
const tileMost = 64

// Registers of the loops over columns, in addition to x, dy and y: where the column of this image
// starts, bytes from image to image, images left, and where sums go.
var (
	image   = R15
	step    = R11
	ahead   = RDX
	results = RBX
)

// columns runs begin for each part of the channels, then body for each of their images, then
// finish. image is where in x, dy and y the part's column lies, at where in values and sums.
func (v *vectors) columns(begin, body, finish func(p part)) {
	for _, p := range []struct {
		offset int
		reg    Register
	}{{planeX, x}, {planeDy, dy}, {planeY, y}, {planeOf, of}, {planeStride, step}, {planeLanes, results}} {
		MOVQ(Mem{Base: args, Disp: p.offset}, p.reg)
	}
	SHLQ(Imm(uint64(v.size/4+1)), step)
	v.measure(planeChannels)
	XORQ(at, at)
	v.loop(func(p part) {
		more := v.label()
		v.maskOf(p)
		begin(p)
		MOVQ(at, image)
		MOVQ(Mem{Base: args, Disp: planeImages}, ahead)
		Label(more)
		body(p)
		ADDQ(step, image)
		DECQ(ahead)
		JNE(LabelRef(more))
		finish(p)
	})
	v.end()
}

// columnsByRelu is columns, with a body for calls with a rectifier and one for those without.
func (v *vectors) columnsByRelu(begin func(p part), body func(p part, relu bool), finish func(p part)) {
	CMPQ(Mem{Base: args, Disp: planeRelu}, Imm(0))
	JE(LabelRef("without"))
	v.columns(begin, func(p part) { body(p, true) }, finish)
	Label("without")
	v.columns(begin, func(p part) { body(p, false) }, finish)
}

// vector loads the channels' values at a place.
func (v *vectors) vector(p part, place, dst int) {
	p.disp += place * tileMost * v.size
	v.load(p, of, at, dst)
}

// keepColumns writes both sums of columns.
func (v *vectors) keepColumns(s, q int) func(p part) {
	return func(p part) {
		v.store(p, s, results, at)
		p.disp += tileMost * v.size
		v.store(p, q, results, at)
	}
}

// nothing is no step.
func nothing(part) {}

// columnMoments writes moments of columns.
func (v *vectors) columnMoments() {
	const mean, d, s, q = 0, 1, 4, 5
	v.begin("ColumnMoments", v.planeStandIn(), "sets the lanes to Σ(x - mean) and Σ(x - mean)² of each column.")
	v.columns(func(p part) {
		v.vector(p, ofMean, mean)
		v.clear(s, q)
	}, func(p part) {
		v.load(p, x, image, d)
		v.sub(v.reg(mean), v.reg(d), v.reg(d))
		v.add(v.reg(d), v.reg(s), v.reg(s))
		v.fma(v.reg(d), v.reg(d), v.reg(q))
	}, v.keepColumns(s, q))
}

// columnProducts writes products of columns.
func (v *vectors) columnProducts() {
	const mean, scale, shift, xs, d, spare, s, q = 0, 12, 13, 1, 2, 3, 4, 5
	v.begin("ColumnProducts", v.planeStandIn(), "sets the lanes to Σdy and Σdy·(x - mean) of each column.")
	v.clear(zeroes)
	v.columnsByRelu(func(p part) {
		v.vector(p, ofMean, mean)
		v.vector(p, ofScale, scale)
		v.vector(p, ofShift, shift)
		v.clear(s, q)
	}, func(p part, relu bool) {
		v.load(p, x, image, xs)
		v.load(p, dy, image, d)
		v.sub(v.reg(mean), v.reg(xs), v.reg(xs))
		if relu {
			v.through(xs, d, scale, shift, spare)
		}
		v.add(v.reg(d), v.reg(s), v.reg(s))
		v.fma(v.reg(xs), v.reg(d), v.reg(q))
	}, v.keepColumns(s, q))
}

// columnScale writes scale of columns.
func (v *vectors) columnScale() {
	const mean, scale, shift, xs = 0, 12, 13, 1
	v.begin("ColumnScale", v.planeStandIn(), "computes y = scale·(x - mean) + shift of columns, not below 0 where there is a rectifier.")
	v.clear(zeroes)
	v.columnsByRelu(func(p part) {
		v.vector(p, ofMean, mean)
		v.vector(p, ofScale, scale)
		v.vector(p, ofShift, shift)
	}, func(p part, relu bool) {
		v.load(p, x, image, xs)
		v.sub(v.reg(mean), v.reg(xs), v.reg(xs))
		v.affine(v.reg(shift), v.reg(scale), v.reg(xs))
		if relu {
			v.max(v.reg(xs), v.reg(zeroes), v.reg(xs))
		}
		v.store(p, xs, y, image)
	}, nothing)
}

// columnGradient writes gradient of columns.
func (v *vectors) columnGradient() {
	const mean, scale, shift, rate, slope, bias, xs, d, spare = 0, 12, 13, 4, 5, 6, 1, 2, 3
	v.begin("ColumnGradient", v.planeStandIn(), "computes y = rate·dy + slope·(x - mean) + bias of columns.")
	v.clear(zeroes)
	v.columnsByRelu(func(p part) {
		for place, dst := range []int{ofMean: mean, ofScale: scale, ofShift: shift, ofRate: rate, ofSlope: slope, ofBias: bias} {
			v.vector(p, place, dst)
		}
	}, func(p part, relu bool) {
		v.load(p, x, image, xs)
		v.load(p, dy, image, d)
		v.sub(v.reg(mean), v.reg(xs), v.reg(xs))
		if relu {
			v.through(xs, d, scale, shift, spare)
		}
		v.affine(v.reg(bias), v.reg(rate), v.reg(d))
		v.fma(v.reg(xs), v.reg(slope), v.reg(d))
		v.store(p, d, y, image)
	}, nothing)
}
