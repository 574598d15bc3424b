package norm

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

var goPlanes32, goPlanes64 = goPlanes[float32](), goPlanes[float64]()

// goPlanes returns the Go twins for T.
func goPlanes[T asm.Float]() *PlaneKernels[T] {
	return &PlaneKernels[T]{goMoments[T], goProducts[T], goScale[T], goGradient[T],
		&PlaneKernels[T]{goColumnMoments[T], goColumnProducts[T], goColumnScale[T], goColumnGradient[T], nil}}
}

// visit calls f with the channel and the first element of each plane.
func (c *PlaneArgs[T]) visit(f func(channel, at int)) {
	for b := range c.Images {
		for k := range c.Channels {
			f(k, b*c.Stride+k*c.N)
		}
	}
}

// add adds to the first four partial sums of both sums of a channel.
func (c *PlaneArgs[T]) add(channel int, s, q [4]T) {
	half := len(c.Sums) / (2 * c.Channels)
	for i := range s {
		c.Sums[2*channel*half+i] += s[i]
		c.Sums[(2*channel+1)*half+i] += q[i]
	}
}

// goMoments is PlaneKernels.Moments.
func goMoments[T asm.Float](c *PlaneArgs[T]) {
	c.visit(func(channel, at int) {
		x, mean := c.X[at:at+c.N], c.Param[channel*Params+ParamMean]
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

// goProducts is PlaneKernels.Products.
func goProducts[T asm.Float](c *PlaneArgs[T]) {
	c.visit(func(channel, at int) {
		x, dy := c.X[at:at+c.N], c.Dy[at:at+c.N]
		of := c.Param[channel*Params:][:Params]
		mean, scale, shift := of[ParamMean], of[ParamScale], of[ParamShift]
		var s, q [4]T
		if c.Relu == 0 {
			for i, d := range dy {
				s[i&3] += d
				q[i&3] += d * (x[i] - mean)
			}
		} else {
			for i, d := range dy {
				if T(scale*(x[i]-mean))+shift > 0 {
					s[i&3] += d
					q[i&3] += d * (x[i] - mean)
				}
			}
		}
		c.add(channel, s, q)
	})
}

// goScale is PlaneKernels.Scale.
func goScale[T asm.Float](c *PlaneArgs[T]) {
	c.visit(func(channel, at int) {
		x, y := c.X[at:at+c.N], c.Y[at:at+c.N]
		of := c.Param[channel*Params:][:Params]
		mean, scale, shift := of[ParamMean], of[ParamScale], of[ParamShift]
		for i, v := range x {
			// Rounded twice on every processor, so that the gradient sees the same sign.
			y[i] = T(scale*(v-mean)) + shift
		}
		if c.Relu != 0 {
			for i, v := range y {
				if v < 0 {
					y[i] = 0
				}
			}
		}
	})
}

// goGradient is PlaneKernels.Gradient.
func goGradient[T asm.Float](c *PlaneArgs[T]) {
	c.visit(func(channel, at int) {
		x, dy, y := c.X[at:at+c.N], c.Dy[at:at+c.N], c.Y[at:at+c.N]
		of := c.Param[channel*Params:][:Params]
		mean, scale, shift := of[ParamMean], of[ParamScale], of[ParamShift]
		rate, slope, bias := of[ParamRate], of[ParamSlope], of[ParamBias]
		for i, d := range dy {
			if c.Relu != 0 && !(T(scale*(x[i]-mean))+shift > 0) {
				d = 0
			}
			y[i] = rate*d + slope*(x[i]-mean) + bias
		}
	})
}

// values returns one parameter of all channels, for planes of one element.
func (c *PlaneArgs[T]) values(place int) []T { return c.Param[place*MaxTile:][:c.Channels] }

// goColumnMoments is PlaneKernels.Moments for planes of one element.
func goColumnMoments[T asm.Float](c *PlaneArgs[T]) {
	mean, s, q := c.values(ParamMean), c.Sums[:c.Channels], c.Sums[MaxTile:][:c.Channels]
	for i := range c.Images {
		for k, v := range c.X[i*c.Stride:][:c.Channels] {
			d := v - mean[k]
			s[k] += d
			q[k] += d * d
		}
	}
}

// goColumnProducts is PlaneKernels.Products for planes of one element.
func goColumnProducts[T asm.Float](c *PlaneArgs[T]) {
	mean, scale, shift := c.values(ParamMean), c.values(ParamScale), c.values(ParamShift)
	s, q := c.Sums[:c.Channels], c.Sums[MaxTile:][:c.Channels]
	for i := range c.Images {
		x := c.X[i*c.Stride:][:c.Channels]
		for k, d := range c.Dy[i*c.Stride:][:c.Channels] {
			if c.Relu == 0 || T(scale[k]*(x[k]-mean[k]))+shift[k] > 0 {
				s[k] += d
				q[k] += d * (x[k] - mean[k])
			}
		}
	}
}

// goColumnScale is PlaneKernels.Scale for planes of one element.
func goColumnScale[T asm.Float](c *PlaneArgs[T]) {
	mean, scale, shift := c.values(ParamMean), c.values(ParamScale), c.values(ParamShift)
	for i := range c.Images {
		y := c.Y[i*c.Stride:][:c.Channels]
		for k, v := range c.X[i*c.Stride:][:c.Channels] {
			v = T(scale[k]*(v-mean[k])) + shift[k]
			if c.Relu != 0 && v < 0 {
				v = 0
			}
			y[k] = v
		}
	}
}

// goColumnGradient is PlaneKernels.Gradient for planes of one element.
func goColumnGradient[T asm.Float](c *PlaneArgs[T]) {
	mean, scale, shift := c.values(ParamMean), c.values(ParamScale), c.values(ParamShift)
	rate, slope, bias := c.values(ParamRate), c.values(ParamSlope), c.values(ParamBias)
	for i := range c.Images {
		x, y := c.X[i*c.Stride:][:c.Channels], c.Y[i*c.Stride:][:c.Channels]
		for k, d := range c.Dy[i*c.Stride:][:c.Channels] {
			if c.Relu != 0 && !(T(scale[k]*(x[k]-mean[k]))+shift[k] > 0) {
				d = 0
			}
			y[k] = rate[k]*d + slope[k]*(x[k]-mean[k]) + bias[k]
		}
	}
}
