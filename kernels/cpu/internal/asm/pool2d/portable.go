package pool2d

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// goAvg2x2 is Kernels.Avg2x2.
func goAvg2x2(c *Args2x2) {
	for r := range c.Rows {
		y := c.Y[r*c.Width:][:c.Width]
		a, b := c.X[2*r*c.Stride:][:2*c.Width], c.X[(2*r+1)*c.Stride:][:2*c.Width]
		for j := range y {
			y[j] = ((a[2*j] + b[2*j]) + (a[2*j+1] + b[2*j+1])) * 0.25
		}
	}
}

// goAvg2x2Grad is Kernels.Avg2x2Grad.
func goAvg2x2Grad(c *Args2x2) {
	for r := range c.Rows {
		a, b := c.X[2*r*c.Stride:][:2*c.Width], c.X[(2*r+1)*c.Stride:][:2*c.Width]
		for j, v := range c.Y[r*c.Width:][:c.Width] {
			v *= 0.25
			a[2*j], a[2*j+1], b[2*j], b[2*j+1] = v, v, v, v
		}
	}
}

// Beats reports whether v replaces the largest pixel so far: NaN wins, and the first of equal
// pixels stays.
func Beats[T asm.Float](v, best T) bool { return v > best || v != v && best == best }

// portable are the Go twins. Kernels for rows of any windows have none here: package cpu pools
// plane by plane.
var portable = &Kernels{goMax2x2, goMax2x2Grad, goAvg2x2, goAvg2x2Grad, nil, nil}

// goMax2x2 is Kernels.Max2x2.
func goMax2x2(c *Args2x2) {
	for r := range c.Rows {
		y, index := c.Y[r*c.Width:][:c.Width], c.Index[r*c.Width:][:c.Width]
		a, b := c.X[2*r*c.Stride:][:2*c.Width], c.X[(2*r+1)*c.Stride:][:2*c.Width]
		for j := range y {
			best, at := a[2*j], uint8(0)
			if v := a[2*j+1]; Beats(v, best) {
				best, at = v, 1
			}
			if v := b[2*j]; Beats(v, best) {
				best, at = v, 2
			}
			if v := b[2*j+1]; Beats(v, best) {
				best, at = v, 3
			}
			y[j], index[j] = best, at
		}
	}
}

// goMax2x2Grad is Kernels.Max2x2Grad.
func goMax2x2Grad(c *Args2x2) {
	for r := range c.Rows {
		y, index := c.Y[r*c.Width:][:c.Width], c.Index[r*c.Width:][:c.Width]
		a, b := c.X[2*r*c.Stride:][:2*c.Width], c.X[(2*r+1)*c.Stride:][:2*c.Width]
		clear(a)
		clear(b)
		for j, v := range y {
			switch index[j] {
			case 0, 1:
				a[2*j+int(index[j])] = v
			case 2, 3:
				b[2*j+int(index[j])-2] = v
			}
		}
	}
}
