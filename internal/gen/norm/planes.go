package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Offsets in norm.PlaneArgs; a test there compares them.
const (
	planeX        = 0
	planeDy       = 24
	planeY        = 48
	planeOf       = 72
	planeLanes    = 96
	planeN        = 120
	planeChannels = 128
	planeImages   = 136
	planeStride   = 144
	planeRelu     = 152
)

// Places of the parameters of a channel, as in package norm.
const (
	ofMean = iota
	ofScale
	ofShift
	ofRate
	ofSlope
	ofBias
	ofLen = 8
)

// Registers of the loops over images and channels.
var (
	of       = R10
	lanes    = R11
	channels = RDX
	images   = RBX
)

// planeStandIn is the type that stands for a pointer to norm.PlaneArgs.
func (v *vectors) planeStandIn() string {
	if v.size == 4 {
		return "*uint8"
	}
	return "*uint16"
}

// planes runs body for each channel of each image: at is where its plane starts, and must be where
// it ends afterwards.
func (v *vectors) planes(body func()) {
	image := v.state.Offset(8)
	for _, p := range []struct {
		offset int
		reg    Register
	}{{planeX, x}, {planeDy, dy}, {planeY, y}, {planeImages, images}} {
		MOVQ(Mem{Base: args, Disp: p.offset}, p.reg)
	}
	v.measure(planeN)
	XORQ(at, at)
	Label("image")
	MOVQ(at, image)
	MOVQ(Mem{Base: args, Disp: planeOf}, of)
	MOVQ(Mem{Base: args, Disp: planeLanes}, lanes)
	MOVQ(Mem{Base: args, Disp: planeChannels}, channels)
	Label("channel")
	body()
	ADDQ(Imm(uint64(ofLen*v.size)), of)
	DECQ(channels)
	JNE(LabelRef("channel"))
	MOVQ(Mem{Base: args, Disp: planeStride}, at)
	SHLQ(Imm(uint64(v.size/4+1)), at)
	ADDQ(image, at)
	DECQ(images)
	JNE(LabelRef("image"))
	v.end()
}

// value broadcasts a channel's value to a register.
func (v *vectors) value(place, dst int) {
	v.broadcast(Mem{Base: of, Disp: place * v.size}, v.reg(dst))
}

// keep adds the sums from first on to the lanes of sum k, and leaves the next channel's lanes
// behind when both are done.
func (v *vectors) keep(k, first int) {
	v.join(first)
	for i := range v.sums() / 2 {
		m := Mem{Base: lanes, Disp: 64*k + 64/(v.sums()/2)*i}
		v.add(m, v.reg(first+i), v.reg(first+i))
		v.move(v.reg(first+i), m)
	}
	if k == 1 {
		SUBQ(I8(-128), lanes)
	}
}

// moments writes the sums of x and its squares about a channel's mean.
func (v *vectors) moments() {
	const mean, d, s, q = 0, 1, 4, 8
	v.begin("Moments", v.planeStandIn(), "adds Σ(x - mean) and Σ(x - mean)² of each channel to its lanes.")
	v.planes(func() {
		v.value(ofMean, mean)
		v.clear(from(s, v.sums())...)
		v.clear(from(q, v.sums())...)
		v.loop(func(p part) {
			v.maskOf(p)
			v.load(p, x, at, d)
			v.center(p, mean, d)
			v.add(v.reg(d), v.reg(s+p.i), v.reg(s+p.i))
			v.fma(v.reg(d), v.reg(d), v.reg(q+p.i))
		})
		v.keep(0, s)
		v.keep(1, q)
	})
}

// through clears the lanes of register d where scale·x + shift is not above 0, with x centred.
func (v *vectors) through(x, d, scale, shift, spare int) {
	const above = 0x1e // greater, false for NaN
	v.move(v.reg(x), v.reg(spare))
	v.affine(v.reg(shift), v.reg(scale), v.reg(spare))
	if v.wide {
		v.compare(Imm(above), v.reg(zeroes), v.reg(spare), K3)
		v.keepZero(v.reg(d), K3, v.reg(d))
		return
	}
	v.compare(Imm(above), v.reg(zeroes), v.reg(spare), v.reg(spare))
	VANDPS(v.reg(spare), v.reg(d), v.reg(d))
}

// ifRelu writes body twice: for calls with a rectifier, and for those without.
func (v *vectors) ifRelu(body func(relu bool)) {
	without, done := v.label(), v.label()
	CMPQ(Mem{Base: args, Disp: planeRelu}, Imm(0))
	JE(LabelRef(without))
	body(true)
	JMP(LabelRef(done))
	Label(without)
	body(false)
	Label(done)
}

// products writes the sums of dy, and of dy times x about a channel's mean.
func (v *vectors) products() {
	const mean, scale, shift, xs, d, spare, s, q = 0, 12, 13, 1, 2, 3, 4, 8
	v.begin("Products", v.planeStandIn(), "adds Σdy and Σdy·(x - mean) of each channel to its lanes.")
	v.clear(zeroes)
	v.planes(func() {
		v.value(ofMean, mean)
		v.value(ofScale, scale)
		v.value(ofShift, shift)
		v.clear(from(s, v.sums())...)
		v.clear(from(q, v.sums())...)
		v.ifRelu(func(relu bool) {
			v.loop(func(p part) {
				v.maskOf(p)
				v.load(p, x, at, xs)
				v.load(p, dy, at, d)
				v.sub(v.reg(mean), v.reg(xs), v.reg(xs))
				if relu {
					v.through(xs, d, scale, shift, spare)
				}
				v.add(v.reg(d), v.reg(s+p.i), v.reg(s+p.i))
				v.fma(v.reg(xs), v.reg(d), v.reg(q+p.i))
			})
		})
		v.keep(0, s)
		v.keep(1, q)
	})
}

// scale writes y = scale·(x - mean) + shift.
func (v *vectors) scale() {
	const mean, scale, shift, xs = 0, 12, 13, 1
	v.begin("Scale", v.planeStandIn(), "computes y = scale·(x - mean) + shift, not below 0 where there is a rectifier.")
	v.clear(zeroes)
	v.planes(func() {
		v.value(ofMean, mean)
		v.value(ofScale, scale)
		v.value(ofShift, shift)
		v.ifRelu(func(relu bool) {
			v.loop(func(p part) {
				v.maskOf(p)
				v.load(p, x, at, xs)
				v.sub(v.reg(mean), v.reg(xs), v.reg(xs))
				v.affine(v.reg(shift), v.reg(scale), v.reg(xs))
				if relu {
					v.max(v.reg(xs), v.reg(zeroes), v.reg(xs)) // xs where it is not a number
				}
				v.store(p, xs, y, at)
			})
		})
	})
}

// gradient writes y = rate·dy + slope·(x - mean) + bias.
func (v *vectors) gradient() {
	const mean, scale, shift, rate, slope, bias, xs, d, spare = 0, 12, 13, 4, 5, 6, 1, 2, 3
	v.begin("Gradient", v.planeStandIn(), "computes y = rate·dy + slope·(x - mean) + bias.")
	v.clear(zeroes)
	v.planes(func() {
		for place, dst := range []int{ofMean: mean, ofScale: scale, ofShift: shift, ofRate: rate, ofSlope: slope, ofBias: bias} {
			v.value(place, dst)
		}
		v.ifRelu(func(relu bool) {
			v.loop(func(p part) {
				v.maskOf(p)
				v.load(p, x, at, xs)
				v.load(p, dy, at, d)
				v.sub(v.reg(mean), v.reg(xs), v.reg(xs))
				if relu {
					v.through(xs, d, scale, shift, spare)
				}
				v.affine(v.reg(bias), v.reg(rate), v.reg(d))
				v.fma(v.reg(xs), v.reg(slope), v.reg(d))
				v.store(p, d, y, at)
			})
		})
	})
}
