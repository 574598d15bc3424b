package cpu

// The portable kernels over planes, in plain Go.

var goPlanes32, goPlanes64 = goPlanes[float32](), goPlanes[float64]()

// goPlanes returns the portable kernels for T.
func goPlanes[T float]() *planeKernels[T] {
	return &planeKernels[T]{goMoments[T], goProducts[T], goScale[T], goGradient[T],
		&planeKernels[T]{goColumnMoments[T], goColumnProducts[T], goColumnScale[T], goColumnGradient[T], nil}}
}

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

// value returns the channels' values of columns at a place.
func (c *planeCall[T]) value(place int) []T { return c.of[place*tileMost:][:c.channels] }

func goColumnMoments[T float](c *planeCall[T]) {
	mean, s, q := c.value(ofMean), c.lanes[:c.channels], c.lanes[tileMost:][:c.channels]
	for i := range c.images {
		for k, v := range c.x[i*c.stride:][:c.channels] {
			d := v - mean[k]
			s[k] += d
			q[k] += d * d
		}
	}
}

func goColumnProducts[T float](c *planeCall[T]) {
	mean, scale, shift := c.value(ofMean), c.value(ofScale), c.value(ofShift)
	s, q := c.lanes[:c.channels], c.lanes[tileMost:][:c.channels]
	for i := range c.images {
		x := c.x[i*c.stride:][:c.channels]
		for k, d := range c.dy[i*c.stride:][:c.channels] {
			if c.relu == 0 || T(scale[k]*x[k])+shift[k] > 0 {
				s[k] += d
				q[k] += d * (x[k] - mean[k])
			}
		}
	}
}

func goColumnScale[T float](c *planeCall[T]) {
	scale, shift := c.value(ofScale), c.value(ofShift)
	for i := range c.images {
		y := c.y[i*c.stride:][:c.channels]
		for k, v := range c.x[i*c.stride:][:c.channels] {
			v = T(scale[k]*v) + shift[k]
			if c.relu != 0 && v < 0 {
				v = 0
			}
			y[k] = v
		}
	}
}

func goColumnGradient[T float](c *planeCall[T]) {
	mean, scale, shift := c.value(ofMean), c.value(ofScale), c.value(ofShift)
	rate, slope, bias := c.value(ofRate), c.value(ofSlope), c.value(ofBias)
	for i := range c.images {
		x, y := c.x[i*c.stride:][:c.channels], c.y[i*c.stride:][:c.channels]
		for k, d := range c.dy[i*c.stride:][:c.channels] {
			if c.relu != 0 && !(T(scale[k]*x[k])+shift[k] > 0) {
				d = 0
			}
			y[k] = rate[k]*d + slope[k]*(x[k]-mean[k]) + bias[k]
		}
	}
}
