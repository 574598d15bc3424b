package cpu

// The portable kernels over planes, in plain Go.

var (
	goPlanes32 = &planeKernels[float32]{goMoments[float32], goProducts[float32], goScale[float32], goGradient[float32]}
	goPlanes64 = &planeKernels[float64]{goMoments[float64], goProducts[float64], goScale[float64], goGradient[float64]}
)

// visit calls f with each plane: its channel, and where it lies.
func (c *planeCall[T]) visit(f func(channel, at int)) {
	for b := range c.images {
		for k := range c.channels {
			f(k, b*c.stride+k*c.n)
		}
	}
}

// add adds to the first lanes of both sums of a channel.
func (c *planeCall[T]) add(channel int, s, q [4]T) {
	half := len(c.lanes) / (2 * c.channels)
	for i := range s {
		c.lanes[2*channel*half+i] += s[i]
		c.lanes[(2*channel+1)*half+i] += q[i]
	}
}

func goMoments[T float](c *planeCall[T]) {
	c.visit(func(channel, at int) {
		x, mean := c.x[at:at+c.n], c.of[channel*ofLen+ofMean]
		var s, q [4]T
		for ; len(x) >= 4; x = x[4:] {
			d0, d1, d2, d3 := x[0]-mean, x[1]-mean, x[2]-mean, x[3]-mean
			s[0] += d0
			s[1] += d1
			s[2] += d2
			s[3] += d3
			q[0] += d0 * d0
			q[1] += d1 * d1
			q[2] += d2 * d2
			q[3] += d3 * d3
		}
		for _, v := range x {
			s[0] += v - mean
			q[0] += (v - mean) * (v - mean)
		}
		c.add(channel, s, q)
	})
}

func goProducts[T float](c *planeCall[T]) {
	c.visit(func(channel, at int) {
		x, dy := c.x[at:at+c.n], c.dy[at:at+c.n]
		of := c.of[channel*ofLen:][:ofLen]
		mean, scale, shift := of[ofMean], of[ofScale], of[ofShift]
		var s, q [4]T
		if c.relu == 0 {
			for i, d := range dy {
				s[i&3] += d
				q[i&3] += d * (x[i] - mean)
			}
		} else {
			for i, d := range dy {
				if T(scale*x[i])+shift > 0 {
					s[i&3] += d
					q[i&3] += d * (x[i] - mean)
				}
			}
		}
		c.add(channel, s, q)
	})
}

func goScale[T float](c *planeCall[T]) {
	c.visit(func(channel, at int) {
		x, y := c.x[at:at+c.n], c.y[at:at+c.n]
		of := c.of[channel*ofLen:][:ofLen]
		scale, shift := of[ofScale], of[ofShift]
		for i, v := range x {
			y[i] = T(scale*v) + shift // rounded twice everywhere, so that the gradient meets the same sign
		}
		if c.relu != 0 {
			for i, v := range y {
				if v < 0 {
					y[i] = 0
				}
			}
		}
	})
}

func goGradient[T float](c *planeCall[T]) {
	c.visit(func(channel, at int) {
		x, dy, y := c.x[at:at+c.n], c.dy[at:at+c.n], c.y[at:at+c.n]
		of := c.of[channel*ofLen:][:ofLen]
		mean, scale, shift := of[ofMean], of[ofScale], of[ofShift]
		rate, slope, bias := of[ofRate], of[ofSlope], of[ofBias]
		for i, d := range dy {
			if c.relu != 0 && !(T(scale*x[i])+shift > 0) {
				d = 0
			}
			y[i] = rate*d + slope*(x[i]-mean) + bias
		}
	})
}
