package kernels

import (
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// Winograd's convolution with weights that are transformed beforehand (Lavin and Gray, Fast Algorithms
// for Convolutional Neural Networks, 2015, §4.1): F(2x2, 3x3), stride 1, one group.

// WinogradPanel is the outputs whose transformed weights lie next to each other: it divides O.
const WinogradPanel = 32

// winogradPlaces is the elements of a transformed tile or kernel, 4x4.
const winogradPlaces = 16

// WinogradWeight transforms the weights of a convolution for WinogradConv.
//
//	w [O, C, 3, 3] → u [O/WinogradPanel, 16, C, WinogradPanel]
//
// The 16 elements G·g·Gᵀ of the kernel g of output o and channel c are u[o/32, ..., c, o%32].
var WinogradWeight = Register(&Op{
	Name:     "winogradWeight",
	Optional: true,
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		if err := noAttrs("winogradWeight", attrs); err != nil {
			return nil, err
		}
		if err := floats("winogradWeight", in, 1); err != nil {
			return nil, err
		}
		w := in[0].Shape
		if len(w) != 4 || w[0] < 1 || w[0]%WinogradPanel != 0 || w[1] < 1 || w[2] != 3 || w[3] != 3 {
			return nil, shapeError("winogradWeight", "weights %v must be (a multiple of %d, channels, 3, 3)", w, WinogradPanel)
		}
		return []Spec{{in[0].Type, Shape{w[0] / WinogradPanel, winogradPlaces, w[1], WinogradPanel}}}, nil
	},
	Ref: func(_ any, in, out []Tensor) {
		w, channels := in[0], in[0].Shape[1]
		for i := range w.Shape[0] * channels {
			var g [3][3]float64
			for k, v := range w.Data[9*i : 9*i+9] {
				g[k/3][k%3] = v
			}
			u := sandwich(winogradG[:], g[:])
			o, c := i/channels, i%channels
			for p := range winogradPlaces {
				out[0].Data[((o/WinogradPanel*winogradPlaces+p)*channels+c)*WinogradPanel+o%WinogradPanel] = u[p/4][p%4]
			}
		}
	},
	Cost: func(_ any, in, _ []Spec) int64 { return 28 * int64(in[0].Shape[0]*in[0].Shape[1]) },
	Cases: func(r *rand.Rand, float arena.DType) Case {
		return Case{In: []Spec{{float, Shape{WinogradPanel * (1 + r.IntN(3)), 1 + r.IntN(20), 3, 3}}}}
	},
})

// WinogradConvAttrs are the attributes of WinogradConv.
type WinogradConvAttrs struct {
	Pad  [2]int // zeros on both sides: height, width
	Bias bool   // operand 2 is a bias [O]
	Act  *Op    // nil or ReLU
}

// WinogradConv is Conv with 3x3 kernels, stride 1 and one group, on the weights that WinogradWeight
// makes.
//
//	x [B, C, H, W], u [O/WinogradPanel, 16, C, WinogradPanel] (, bias [O]) → y [B, O, OH, OW]
//	OH = H + 2·Pad - 2
//
// Each tile of 2x2 pixels is Aᵀ·m·A, where m sums u ⊙ (Bᵀ·d·B) over the channels, and d is the 4x4
// pixels of x that the tile depends on. Devices may refuse images of many tiles with ErrUnsupported:
// there Conv transforms its weights at little cost.
var WinogradConv = Register(&Op{
	Name:     "winogradConv",
	Optional: true,
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := attrsOf[WinogradConvAttrs]("winogradConv", attrs)
		if err != nil {
			return nil, err
		}
		operands := 2
		if a.Bias {
			operands++
		}
		if err := floats("winogradConv", in, operands); err != nil {
			return nil, err
		}
		if a.Act != nil && a.Act != ReLU {
			return nil, attrError("winogradConv", "cannot end with %s", a.Act.Name)
		}
		w, err := winogradWeights(in[1].Shape)
		if err != nil {
			return nil, err
		}
		y, err := a.windows().output("winogradConv", in[0].Shape, w)
		if err != nil {
			return nil, err
		}
		if a.Bias && !in[2].Shape.Equal(Shape{y[1]}) {
			return nil, shapeError("winogradConv", "bias %v must be (%d)", in[2].Shape, y[1])
		}
		return []Spec{{in[0].Type, y}}, nil
	},
	Ref: refWinogradConv,
	Cost: func(_ any, in, out []Spec) int64 {
		y := out[0].Shape
		return 2 * winogradPlaces * int64(y[0]*y[1]) * int64(in[0].Shape[1]) * int64((y[2]+1)/2*((y[3]+1)/2))
	},
	Cases: winogradConvCase,
})

// winogradWeights returns the shape of the weights that WinogradWeight has made u of.
func winogradWeights(u Shape) (Shape, error) {
	if len(u) != 4 || u[0] < 1 || u[1] != winogradPlaces || u[2] < 1 || u[3] != WinogradPanel {
		return nil, shapeError("winogradConv", "transformed weights %v must be (panels, %d, channels, %d)", u, winogradPlaces, WinogradPanel)
	}
	return Shape{u[0] * WinogradPanel, u[2], 3, 3}, nil
}

// windows returns the geometry.
func (a WinogradConvAttrs) windows() windows {
	one := [2]int{1, 1}
	return windows{stride: one, pad: a.Pad, dilation: one, groups: 1}
}

// The matrices of F(2x2, 3x3): G transforms kernels, Bᵀ tiles of pixels, Aᵀ sums of products.
var (
	winogradG = [4][3]float64{{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}}
	winogradB = [4][4]float64{{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}}
	winogradA = [2][4]float64{{1, 1, 1, 0}, {0, 1, -1, -1}}
)

// vector is a row of one of these matrices, or of what they transform.
type vector interface{ [3]float64 | [4]float64 }

// sandwich returns M·x·Mᵀ, of at most 4x4 elements.
func sandwich[V vector](m, x []V) (y [4][4]float64) {
	for i := range m {
		for j := range m {
			for k := range len(m[i]) {
				for l := range len(m[j]) {
					y[i][j] += m[i][k] * x[k][l] * m[j][l]
				}
			}
		}
	}
	return y
}

func refWinogradConv(attrs any, in, out []Tensor) {
	a, x, u, y := attrs.(WinogradConvAttrs), in[0], in[1], out[0]
	b, channels, height, width := x.Shape[0], x.Shape[1], x.Shape[2], x.Shape[3]
	outs, rows, cols := y.Shape[1], y.Shape[2], y.Shape[3]
	for image := range b {
		for row := 0; row < rows; row += 2 {
			for col := 0; col < cols; col += 2 {
				d := make([][4][4]float64, channels)
				for c := range d {
					var px [4][4]float64
					for i := range winogradPlaces {
						if h, v := row+i/4-a.Pad[0], col+i%4-a.Pad[1]; h >= 0 && h < height && v >= 0 && v < width {
							px[i/4][i%4] = x.Data[((image*channels+c)*height+h)*width+v]
						}
					}
					d[c] = sandwich(winogradB[:], px[:])
				}
				for o := range outs {
					var m [4][4]float64
					for p := range winogradPlaces {
						for c := range d {
							m[p/4][p%4] += d[c][p/4][p%4] * u.Data[((o/WinogradPanel*winogradPlaces+p)*channels+c)*WinogradPanel+o%WinogradPanel]
						}
					}
					tile := sandwich(winogradA[:], m[:])
					for i := range 4 {
						if h, v := row+i/2, col+i%2; h < rows && v < cols {
							y.Data[((image*outs+o)*rows+h)*cols+v] = a.end(in, y.Type, o, tile[i/2][i%2])
						}
					}
				}
			}
		}
	}
}

// end adds the bias of output o and applies the activation.
func (a WinogradConvAttrs) end(in []Tensor, t arena.DType, o int, v float64) float64 {
	v = Round(t, v)
	if a.Bias {
		v = Round(t, v+in[2].Data[o])
	}
	if a.Act != nil {
		v = a.Act.Elem(nil, v, 0)
	}
	return v
}

// winogradConvCase returns a random case of as few tiles as every device takes: 31.
func winogradConvCase(r *rand.Rand, float arena.DType) Case {
	for {
		a := WinogradConvAttrs{Pad: [2]int{r.IntN(3), r.IntN(3)}, Bias: r.IntN(2) == 0}
		if r.IntN(2) == 0 {
			a.Act = ReLU
		}
		x := Shape{1 + r.IntN(2), 1 + r.IntN(40), 3 + r.IntN(10), 3 + r.IntN(10)}
		rows, cols := x[2]+2*a.Pad[0]-2, x[3]+2*a.Pad[1]-2
		if rows*cols < 16 || x[0]*((rows+1)/2)*((cols+1)/2) > 31 {
			continue
		}
		outs := WinogradPanel * (1 + r.IntN(2))
		c := Case{Attrs: a, In: []Spec{{float, x}, {float, Shape{outs / WinogradPanel, winogradPlaces, x[1], WinogradPanel}}}}
		if a.Bias {
			c.In = append(c.In, Spec{float, Shape{outs}})
		}
		// A pixel sums nine products of matrices, whose factors sum four pixels each.
		c.Tolerance = 4 * sumTolerance(9*x[1])
		return c
	}
}
