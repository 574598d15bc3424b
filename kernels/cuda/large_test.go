package cuda

import (
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// sizes are those of operands whose speed is measured: large ones do not fit into a GPU's caches.
type sizes struct {
	vector  kernels.Shape
	rows    kernels.Shape // [R, C]
	images  kernels.Shape // [B, C, H, W]
	conv    kernels.Shape // [B, C, H, W], of as many channels out
	product int           // of square matrices
}

var (
	largeSizes = sizes{kernels.Shape{1 << 25}, kernels.Shape{1 << 15, 1024}, kernels.Shape{512, 64, 32, 32}, kernels.Shape{128, 64, 32, 32}, 4096}
	smallSizes = sizes{kernels.Shape{1 << 10}, kernels.Shape{16, 64}, kernels.Shape{2, 8, 8, 8}, kernels.Shape{2, 8, 8, 8}, 64}
)

// measured is a use of an operation whose speed is measured. Integers in it are below the number given.
type measured struct {
	attrs any
	in    []kernels.Spec
	below int
}

func float(s ...int) kernels.Spec { return kernels.Spec{Type: arena.Float32, Shape: s} }

func integers(s ...int) kernels.Spec { return kernels.Spec{Type: arena.Int32, Shape: s} }

// measuredOps are the uses of the table's operations. Elementwise ones are not in it: see elementwise.
var measuredOps = map[*kernels.Op]func(s sizes) measured{
	kernels.MatMul: func(s sizes) measured {
		return measured{attrs: kernels.MatMulAttrs{}, in: []kernels.Spec{float(s.product, s.product), float(s.product, s.product)}}
	},
	kernels.Conv: func(s sizes) measured {
		return measured{attrs: kernels.ConvAttrs{Stride: ones, Dilation: ones, Pad: ones, Groups: 1}, in: []kernels.Spec{float(s.conv...), filters(s)}}
	},
	kernels.ConvGradInput:  func(s sizes) measured { return measuredConv(filters(s), float(s.conv...), s.conv[2], s.conv[3]) },
	kernels.ConvGradWeight: func(s sizes) measured { return measuredConv(float(s.conv...), float(s.conv...), 3, 3) },

	kernels.Chain: func(s sizes) measured {
		steps := []kernels.Step{{Op: kernels.Add, A: 0, B: 1}, {Op: kernels.Tanh, A: 2, B: -1}, {Op: kernels.Mul, A: 3, B: 0}}
		return measured{attrs: &kernels.ChainAttrs{Steps: steps}, in: []kernels.Spec{float(s.vector...), float(s.vector...)}}
	},

	kernels.MaxPool: func(s sizes) measured { return measured{attrs: halves, in: []kernels.Spec{float(s.images...)}} },
	kernels.AvgPool: func(s sizes) measured { return measured{attrs: halves, in: []kernels.Spec{float(s.images...)}} },
	kernels.MaxPoolGrad: func(s sizes) measured {
		return measured{halvesGrad(s), []kernels.Spec{{Type: arena.Uint8, Shape: halved(s)}, float(halved(s)...)}, 4}
	},
	kernels.AvgPoolGrad: func(s sizes) measured { return measured{attrs: halvesGrad(s), in: []kernels.Spec{float(halved(s)...)}} },

	kernels.BatchNorm:     func(s sizes) measured { return measuredNorm(batchNorm, float(s.images...), s.images[1], 2, 0, 0) },
	kernels.BatchNormGrad: func(s sizes) measured { return measuredNorm(batchNorm, float(s.images...), s.images[1], 4, 0, 1) },
	kernels.LayerNorm:     func(s sizes) measured { return measuredNorm(layerNorm, float(s.rows...), s.rows[1], 2, 0, 0) },
	kernels.LayerNormGrad: func(s sizes) measured { return measuredNorm(layerNorm, float(s.rows...), s.rows[1], 1, s.rows[0], 1) },
	kernels.GroupNorm:     func(s sizes) measured { return measuredNorm(groupNorm, float(s.images...), s.images[1], 2, 0, 0) },
	kernels.GroupNormGrad: func(s sizes) measured {
		x, c := float(s.images...), float(s.images[1])
		of := float(s.images[0], groupNorm.Groups)
		return measured{attrs: groupNorm, in: []kernels.Spec{x, c, of, of, x}}
	},
	kernels.RunningStat: func(s sizes) measured {
		return measured{attrs: kernels.RunningStatAttrs{Momentum: 0.1, Factor: 1}, in: []kernels.Spec{float(s.vector...), float(s.vector...), integers(4)}}
	},
	kernels.Mix: func(s sizes) measured {
		return measured{in: []kernels.Spec{float(s.vector...), float(s.vector...), integers(4), {Type: arena.Float64}}}
	},
	kernels.Dropout: func(s sizes) measured {
		return measured{attrs: kernels.DropoutAttrs{Rate: 0.5}, in: []kernels.Spec{float(s.vector...), kernels.ControlsSpec}}
	},

	kernels.Sum:        measuredReduction,
	kernels.Mean:       measuredReduction,
	kernels.Max:        measuredReduction,
	kernels.SumSquares: func(s sizes) measured { return measured{in: []kernels.Spec{float(s.vector...)}} },

	kernels.Softmax:        func(s sizes) measured { return measuredSoftmax(s, 1) },
	kernels.LogSoftmax:     func(s sizes) measured { return measuredSoftmax(s, 1) },
	kernels.SoftmaxGrad:    func(s sizes) measured { return measuredSoftmax(s, 2) },
	kernels.LogSoftmaxGrad: func(s sizes) measured { return measuredSoftmax(s, 2) },

	kernels.CrossEntropy:          func(s sizes) measured { return measuredRows(s, integers(s.rows[0])) },
	kernels.CrossEntropyGrad:      func(s sizes) measured { return measuredRows(s, integers(s.rows[0]), float(s.rows[0])) },
	kernels.CrossEntropyDense:     func(s sizes) measured { return measuredRows(s, float(s.rows...)) },
	kernels.CrossEntropyDenseGrad: func(s sizes) measured { return measuredRows(s, float(s.rows...), float(s.rows[0])) },
	kernels.Correct:               func(s sizes) measured { return measuredRows(s, integers(s.rows[0])) },
	kernels.CorrectDense:          func(s sizes) measured { return measuredRows(s, float(s.rows...)) },

	kernels.Reshape: func(s sizes) measured {
		return measured{attrs: kernels.ReshapeAttrs{Shape: kernels.Shape{s.rows.Elems()}}, in: []kernels.Spec{float(s.rows...)}}
	},
	kernels.Prefetch:  func(s sizes) measured { return measured{in: []kernels.Spec{float(s.vector...)}} },
	kernels.Writeback: func(s sizes) measured { return measured{in: []kernels.Spec{float(s.vector...), float(s.vector...)}} },
	kernels.Broadcast: func(s sizes) measured {
		return measured{attrs: kernels.BroadcastAttrs{Shape: s.rows}, in: []kernels.Spec{float(s.rows[1])}}
	},
	kernels.Transpose: func(s sizes) measured {
		return measured{attrs: kernels.TransposeAttrs{Perm: []int{1, 0}}, in: []kernels.Spec{float(s.rows...)}}
	},
	kernels.Slice: func(s sizes) measured {
		return measured{attrs: kernels.SliceAttrs{Start: []int{0, 0}, End: []int{s.rows[0], s.rows[1] / 2}, Step: ones[:]}, in: []kernels.Spec{float(s.rows...)}}
	},
	kernels.Unslice: func(s sizes) measured {
		return measured{attrs: kernels.UnsliceAttrs{Shape: s.rows, Start: []int{0, 0}, Step: ones[:]}, in: []kernels.Spec{float(s.rows[0], s.rows[1]/2)}}
	},
	kernels.Concat: func(s sizes) measured {
		return measured{attrs: kernels.ConcatAttrs{Axis: 1}, in: []kernels.Spec{float(s.rows...), float(s.rows...)}}
	},
	kernels.Gather: func(s sizes) measured {
		return measured{nil, []kernels.Spec{float(s.rows...), integers(s.rows[0])}, s.rows[0]}
	},
	kernels.Scatter: func(s sizes) measured {
		return measured{kernels.ScatterAttrs{Rows: s.rows[0]}, []kernels.Spec{integers(s.rows[0]), float(s.rows...)}, s.rows[0]}
	},
	kernels.Where: func(s sizes) measured {
		return measured{in: []kernels.Spec{float(s.rows...), float(s.rows...), float(s.rows[1])}}
	},
	kernels.Im2Col: func(s sizes) measured {
		return measured{attrs: windows, in: []kernels.Spec{float(s.images...)}}
	},
	kernels.Col2Im: func(s sizes) measured {
		rows := float(s.images[0], s.images[2]/2, s.images[3]/2, 4*s.images[1])
		return measured{attrs: kernels.Col2ImAttrs{Im2ColAttrs: windows, Size: [2]int{s.images[2], s.images[3]}}, in: []kernels.Spec{rows}}
	},
	kernels.CumSum: func(s sizes) measured {
		return measured{attrs: kernels.CumSumAttrs{Axis: 1}, in: []kernels.Spec{float(s.rows...)}}
	},
	kernels.TopK: func(s sizes) measured {
		return measured{attrs: kernels.TopKAttrs{Axis: 1, K: 4}, in: []kernels.Spec{float(s.rows...)}}
	},
	kernels.TopKGrad: func(s sizes) measured {
		index := kernels.Spec{Type: arena.Int64, Shape: kernels.Shape{s.rows[0], 1}}
		return measured{kernels.TopKGradAttrs{Axis: 1, N: s.rows[1]}, []kernels.Spec{index, float(s.rows[0], 1)}, s.rows[1]}
	},
	kernels.Integer: func(s sizes) measured {
		return measured{kernels.IntegerAttrs{Func: kernels.IntegerAdd, To: arena.Int32}, []kernels.Spec{integers(s.vector...), integers(s.vector...)}, 100}
	},
	kernels.IntegerReduce: func(s sizes) measured {
		a := kernels.IntegerReduceAttrs{Func: kernels.IntegerAdd, ReduceAttrs: kernels.ReduceAttrs{Axes: []int{0}}, To: arena.Int64}
		return measured{a, []kernels.Spec{integers(s.rows...)}, 100}
	},
	kernels.Truncate: func(s sizes) measured { return measured{in: []kernels.Spec{float(s.vector...)}} },
	kernels.Fill: func(s sizes) measured {
		return measured{attrs: kernels.FillAttrs{Type: arena.Float32, Shape: s.vector, Value: 1.5}}
	},
	kernels.Encode: func(s sizes) measured {
		return measured{attrs: kernels.EncodeAttrs{To: arena.BFloat16}, in: []kernels.Spec{float(s.vector...)}}
	},
	kernels.CheckFinite: func(s sizes) measured {
		return measured{attrs: kernels.CheckFiniteAttrs{Code: 1}, in: []kernels.Spec{float(s.vector...), integers(4)}}
	},
	kernels.CheckIndex: func(s sizes) measured {
		return measured{kernels.CheckIndexAttrs{Rows: s.rows[0], Code: 1}, []kernels.Spec{integers(s.rows[0]), integers(4)}, s.rows[0]}
	},

	kernels.SGD:      func(s sizes) measured { return measuredUpdate(s, kernels.SGDAttrs{}, 0) },
	kernels.Momentum: func(s sizes) measured { return measuredUpdate(s, kernels.MomentumAttrs{Momentum: 0.9}, 1) },
	kernels.RMSProp:  func(s sizes) measured { return measuredUpdate(s, kernels.RMSPropAttrs{Rho: 0.9, Epsilon: 1e-8}, 1) },
	kernels.Adam:     func(s sizes) measured { return measuredUpdate(s, adam, 2) },
	kernels.AdamW:    func(s sizes) measured { return measuredUpdate(s, adam, 2) },
	kernels.Lion:     func(s sizes) measured { return measuredUpdate(s, kernels.LionAttrs{Beta1: 0.9, Beta2: 0.99}, 1) },
	kernels.Adam8: func(s sizes) measured {
		return measuredStates(s, kernels.Adam8Attrs{AdamAttrs: adam}, kernels.Adam8States)
	},
	kernels.Adam16: func(s sizes) measured {
		return measuredStates(s, kernels.Adam16Attrs{AdamAttrs: adam}, kernels.Adam16States)
	},
	kernels.Adafactor: func(s sizes) measured {
		p := float(s.rows...)
		states := kernels.AdafactorStates(p)
		rows, columns := states[0].Spec, states[1].Spec
		return measured{attrs: adafactor, in: []kernels.Spec{p, p, integers(4), kernels.ControlsSpec, rows, columns}}
	},
}

// unmeasured are operations whose speed says nothing about a GPU: on single numbers, and the host's.
var unmeasured = map[*kernels.Op]bool{kernels.ClipNorm: true, kernels.Host: true, kernels.AllReduce: true, kernels.Await: true, kernels.Agree: true,
	kernels.PackShards: true, kernels.TakeShard: true, kernels.PlaceShards: true, kernels.UnpackShard: true, kernels.PutShard: true} // copies

var (
	ones      = [2]int{1, 1}
	halves    = kernels.PoolAttrs{Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}}
	windows   = kernels.Im2ColAttrs{Kernel: halves.Kernel, Stride: halves.Stride, Dilation: ones}
	batchNorm = kernels.BatchNormAttrs{Eps: 1e-5}
	layerNorm = kernels.LayerNormAttrs{Eps: 1e-5}
	groupNorm = kernels.GroupNormAttrs{Eps: 1e-5, Groups: 8}
	adam      = kernels.AdamAttrs{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
	adafactor = kernels.AdafactorAttrs{Epsilon: 1e-30, Limit: 1, Relative: true, Least: 1e-3}
)

func halved(s sizes) kernels.Shape {
	return kernels.Shape{s.images[0], s.images[1], s.images[2] / 2, s.images[3] / 2}
}

func halvesGrad(s sizes) kernels.PoolGradAttrs {
	return kernels.PoolGradAttrs{PoolAttrs: halves, Size: [2]int{s.images[2], s.images[3]}}
}

func filters(s sizes) kernels.Spec { return float(s.conv[1], s.conv[1], 3, 3) }

func measuredConv(a, b kernels.Spec, height, width int) measured {
	return measured{attrs: kernels.ConvGradAttrs{Stride: ones, Pad: ones, Dilation: ones, Groups: 1, Size: [2]int{height, width}}, in: []kernels.Spec{a, b}}
}

// measuredNorm is x, so many vectors of channels, two of rows where rows is not 0, and x so often again.
func measuredNorm(attrs any, x kernels.Spec, channels, vectors, rows, again int) measured {
	in := []kernels.Spec{x}
	for range vectors {
		in = append(in, float(channels))
	}
	if rows > 0 {
		in = append(in, float(rows), float(rows))
	}
	for range again {
		in = append(in, x)
	}
	return measured{attrs: attrs, in: in}
}

func measuredReduction(s sizes) measured {
	return measured{attrs: kernels.ReduceAttrs{Axes: []int{1}}, in: []kernels.Spec{float(s.rows...)}}
}

func measuredSoftmax(s sizes, operands int) measured {
	in := []kernels.Spec{float(s.rows...), float(s.rows...)}
	return measured{attrs: kernels.SoftmaxAttrs{Axis: 1}, in: in[:operands]}
}

func measuredRows(s sizes, others ...kernels.Spec) measured {
	return measured{nil, append([]kernels.Spec{float(s.rows...)}, others...), s.rows[1]}
}

func measuredUpdate(s sizes, attrs any, states int) measured {
	in := []kernels.Spec{float(s.vector...), float(s.vector...), integers(4), kernels.ControlsSpec}
	for range states {
		in = append(in, float(s.vector...))
	}
	return measured{attrs: attrs, in: in}
}

// measuredStates is an update whose states are not all of the parameter's type and shape.
func measuredStates(s sizes, attrs any, states func(kernels.Spec) []kernels.State) measured {
	m := measuredUpdate(s, attrs, 0)
	for _, state := range states(m.in[0]) {
		m.in = append(m.in, state.Spec)
	}
	return m
}

// elementwise is the use of an elementwise operation: on vectors, of bytes where it decodes.
func elementwise(op *kernels.Op, s sizes) measured {
	c := op.Cases(rand.New(rand.NewPCG(1, 1)), arena.Float32)
	m := measured{attrs: c.Attrs, below: 101}
	for range c.In {
		m.in = append(m.in, float(s.vector...))
	}
	if op == kernels.Decode {
		m.in[0].Type = arena.Uint8
	}
	return m
}

// measuredUse returns the use of an operation that is measured, and whether it has one.
func measuredUse(op *kernels.Op, s sizes) (measured, bool) {
	if f, ok := measuredOps[op]; ok {
		return f(s), true
	}
	if _, ok := elementRules[op]; ok {
		return elementwise(op, s), true
	}
	return measured{}, false
}

func TestEveryOperationOfTheTableIsMeasured(t *testing.T) {
	for _, op := range kernels.All() {
		if _, has := lookup(op); !has || unmeasured[op] {
			continue
		}
		for _, s := range []sizes{smallSizes, largeSizes} {
			m, ok := measuredUse(op, s)
			if !ok {
				t.Errorf("%s has a kernel and no row in measuredOps", op.Name)
				break
			}
			out, err := op.Infer(m.attrs, m.in)
			if err != nil {
				t.Errorf("%s: %v", op.Name, err)
			}
			for _, x := range append(out, m.in...) {
				if x.Type == arena.Float32 && x.Shape.Elems() > 1<<26 {
					t.Errorf("%s: an operand %v of more than 256 MiB", op.Name, x)
				}
			}
		}
	}
}
