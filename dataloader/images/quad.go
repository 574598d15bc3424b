package images

import "encoding/binary"

// A quad is the samples of one column in four rows, each in 16 bits of a uint64: row r in the bits
// 16·r to 16·r+15. One multiplication by a weight of at most 256 scales all four.
const (
	lanes = 0x0001_0001_0001_0001
	low8  = 0x00ff * lanes
	half  = 0x0080 * lanes // rounds a sum of products with weights that sum to 256
)

// blend writes the sum of rows of src, which begin at the offsets and have the given weights, to
// dst. Weights sum to 256. It reads and writes len(dst) samples of each row.
func blend(dst, src []byte, offsets []int, weights []uint16) {
	n := len(dst)
	if len(offsets) == 1 {
		copy(dst, src[offsets[0]:offsets[0]+n])
		return
	}
	if n < 8 {
		blendTail(dst, src, offsets, weights)
		return
	}
	switch len(offsets) {
	case 2:
		blend2(dst, src[offsets[0]:][:n], src[offsets[1]:][:n], uint64(weights[0]), uint64(weights[1]))
	case 3:
		blend3(dst, src[offsets[0]:][:n], src[offsets[1]:][:n], src[offsets[2]:][:n],
			uint64(weights[0]), uint64(weights[1]), uint64(weights[2]))
	default:
		weights = weights[:len(offsets)]
		for x := 0; x < n; x += 8 {
			x = min(x, n-8)
			var even, odd uint64 = half, half
			for k, off := range offsets {
				v, w := binary.LittleEndian.Uint64(src[off+x:]), uint64(weights[k])
				even += v & low8 * w
				odd += v >> 8 & low8 * w
			}
			binary.LittleEndian.PutUint64(dst[x:], even>>8&low8|odd&^low8)
		}
	}
}

// blend2 is blend for two rows of the length of dst, 8 or more.
func blend2(dst, a, b []byte, wa, wb uint64) {
	n := len(dst)
	for x := 0; x < n; x += 8 {
		x = min(x, n-8)
		va, vb := binary.LittleEndian.Uint64(a[x:]), binary.LittleEndian.Uint64(b[x:])
		even := half + va&low8*wa + vb&low8*wb
		odd := half + va>>8&low8*wa + vb>>8&low8*wb
		binary.LittleEndian.PutUint64(dst[x:], even>>8&low8|odd&^low8)
	}
}

// blend3 is blend for three rows of the length of dst, 8 or more.
func blend3(dst, a, b, c []byte, wa, wb, wc uint64) {
	n := len(dst)
	for x := 0; x < n; x += 8 {
		x = min(x, n-8)
		va, vb, vc := binary.LittleEndian.Uint64(a[x:]), binary.LittleEndian.Uint64(b[x:]), binary.LittleEndian.Uint64(c[x:])
		even := half + va&low8*wa + vb&low8*wb + vc&low8*wc
		odd := half + va>>8&low8*wa + vb>>8&low8*wb + vc>>8&low8*wc
		binary.LittleEndian.PutUint64(dst[x:], even>>8&low8|odd&^low8)
	}
}

// The wide forms keep sums of 24 bits, two in each uint64.
const (
	pairs    = 0x0000_0001_0000_0001
	pairLow  = 0xff * pairs
	pairHalf = 0x8000 * pairs
)

// blendWide is blend for weights that sum to 65536.
func blendWide(dst, src []byte, offsets []int, weights []uint16) {
	n := len(dst)
	if n < 8 {
		for x := range dst {
			sum := uint32(0x8000)
			for k, off := range offsets {
				sum += uint32(src[off+x]) * uint32(weights[k])
			}
			dst[x] = byte(sum >> 16)
		}
		return
	}
	weights = weights[:len(offsets)]
	for x := 0; x < n; x += 8 {
		x = min(x, n-8)
		var a, b, c, d uint64 = pairHalf, pairHalf, pairHalf, pairHalf
		for k, off := range offsets {
			v, w := binary.LittleEndian.Uint64(src[off+x:]), uint64(weights[k])
			a += v & pairLow * w
			b += v >> 8 & pairLow * w
			c += v >> 16 & pairLow * w
			d += v >> 24 & pairLow * w
		}
		binary.LittleEndian.PutUint64(dst[x:], a>>16&pairLow|b>>16&pairLow<<8|c>>16&pairLow<<16|d>>16&pairLow<<24)
	}
}

// gatherWide is gather for weights that sum to 65536.
func gatherWide(out, q []uint64, f *filter, first int) {
	for i, s := range f.start[:len(out)] {
		u := f.weight[i*f.taps:][:f.taps]
		v := q[int(s)-first:][:len(u)]
		var even, odd uint64 = pairHalf, pairHalf
		for k, x := range v {
			w := uint64(u[k])
			even += x & pairLow * w
			odd += x >> 16 & pairLow * w
		}
		out[i] = even>>16&pairLow | odd>>16&pairLow<<16
	}
}

// blendTail is blend sample by sample.
func blendTail(dst, src []byte, offsets []int, weights []uint16) {
	for x := range dst {
		sum := uint32(128)
		for k, off := range offsets {
			sum += uint32(src[off+x]) * uint32(weights[k])
		}
		dst[x] = byte(sum >> 8)
	}
}

// transpose swaps the rows and columns of a matrix of 4 by 4 numbers of 16 bits, a row in each
// uint64.
func transpose(a, b, c, d uint64) (uint64, uint64, uint64, uint64) {
	const m16, m32 = 0x0000_ffff_0000_ffff, 0x0000_0000_ffff_ffff
	ab, ba := a&m16|b&m16<<16, a>>16&m16|b&^m16
	cd, dc := c&m16|d&m16<<16, c>>16&m16|d&^m16
	return ab&m32 | cd<<32, ba&m32 | dc<<32, ab>>32 | cd&^m32, ba>>32 | dc&^m32
}

// pack writes the quads of four rows to q. All five have the same length, a multiple of 8.
func pack(q []uint64, a, b, c, d []byte) {
	for len(q) >= 8 && len(a) >= 8 && len(b) >= 8 && len(c) >= 8 && len(d) >= 8 {
		p0, p1, p2, p3 := transpose(binary.LittleEndian.Uint64(a), binary.LittleEndian.Uint64(b),
			binary.LittleEndian.Uint64(c), binary.LittleEndian.Uint64(d))
		q[0], q[1] = p0&low8, p0>>8&low8
		q[2], q[3] = p1&low8, p1>>8&low8
		q[4], q[5] = p2&low8, p2>>8&low8
		q[6], q[7] = p3&low8, p3>>8&low8
		q, a, b, c, d = q[8:], a[8:], b[8:], c[8:], d[8:]
	}
}

// unpack writes quads to four rows. The rows have the length of q.
func unpack(a, b, c, d []byte, q []uint64) {
	n := len(q)
	a, b, c, d = a[:n], b[:n], c[:n], d[:n]
	x := 0
	for ; x+8 <= n; x += 8 {
		v := q[x : x+8 : x+8]
		r0, r1, r2, r3 := transpose(v[0]|v[1]<<8, v[2]|v[3]<<8, v[4]|v[5]<<8, v[6]|v[7]<<8)
		binary.LittleEndian.PutUint64(a[x:], r0)
		binary.LittleEndian.PutUint64(b[x:], r1)
		binary.LittleEndian.PutUint64(c[x:], r2)
		binary.LittleEndian.PutUint64(d[x:], r3)
	}
	for ; x < n; x++ {
		a[x], b[x], c[x], d[x] = byte(q[x]), byte(q[x]>>16), byte(q[x]>>32), byte(q[x]>>48)
	}
}

// gather writes the filtered quads of q to out: output i reads from column start[i]-first. q has
// taps quads after the last column that has a weight.
func gather(out, q []uint64, f *filter, first int) {
	start, w := f.start[:len(out)], f.weight
	switch f.taps {
	case 1:
		for i, s := range start {
			out[i] = q[int(s)-first]
		}
	case 2:
		for i, s := range start {
			v, u := q[int(s)-first:][:2:2], w[2*i:][:2:2]
			out[i] = (half + v[0]*uint64(u[0]) + v[1]*uint64(u[1])) >> 8 & low8
		}
	case 3:
		for i, s := range start {
			v, u := q[int(s)-first:][:3:3], w[3*i:][:3:3]
			out[i] = (half + v[0]*uint64(u[0]) + v[1]*uint64(u[1]) + v[2]*uint64(u[2])) >> 8 & low8
		}
	default:
		for i, s := range start {
			u := w[i*f.taps:][:f.taps]
			v := q[int(s)-first:][:len(u)]
			var sum uint64 = half
			for k, x := range v {
				sum += x * uint64(u[k])
			}
			out[i] = sum >> 8 & low8
		}
	}
}

// gatherTwo is gather for two planes with the same filter of three taps.
func gatherTwo(out1, out2, q1, q2 []uint64, f *filter, first int) {
	start, w := f.start[:len(out1)], f.weight
	out2, q2 = out2[:len(out1)], q2[:len(q1)]
	for i, s := range start {
		at := int(s) - first
		v1, v2, u := q1[at:][:3:3], q2[at:][:3:3], w[3*i:][:3:3]
		a, b, c := uint64(u[0]), uint64(u[1]), uint64(u[2])
		out1[i] = (half + v1[0]*a + v1[1]*b + v1[2]*c) >> 8 & low8
		out2[i] = (half + v2[0]*a + v2[1]*b + v2[2]*c) >> 8 & low8
	}
}

// toRGB replaces quads of luma and chroma (JFIF: BT.601, full range) by red, green and blue:
//
//	R = Y + 1.402 (Cr-128)    G = Y - 0.344 (Cb-128) - 0.714 (Cr-128)    B = Y + 1.772 (Cb-128)
//
// with the fractions in 1/256: 1+103/256, 88/256, 183/256, 1+198/256. Sums are kept above 0 by 256.
func toRGB(y, cb, cr []uint64) {
	cb, cr = cb[:len(y)], cr[:len(y)]
	for i, l := range y {
		b, r := cb[i], cr[i]
		red := l + r + (103*r)>>8&low8 + (256-179)*lanes
		blue := l + b + (198*b+half)>>8&low8 + (256-227)*lanes
		// 183 r = 128 r + 55 r keeps the sum below 2^16.
		green := l + (256+136)*lanes - r>>1&low8 - (88*b+55*r+r&lanes<<7+255*lanes)>>8&low8
		y[i], cb[i], cr[i] = clamp(red), clamp(green), clamp(blue)
	}
}

// clamp returns lanes of 0 to 767 less 256, limited to 0 to 255.
func clamp(v uint64) uint64 {
	above, within := v>>9&lanes, v>>8&lanes
	return v&(within<<8-within) | (above<<8 - above)
}
