package cpu_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/kerneltest"
)

// normOps are the operations of normalization, pooling, dropout and embedding.
var normOps = []*kernels.Op{
	kernels.BatchNorm, kernels.BatchNormGrad, kernels.RunningStat, kernels.LayerNorm, kernels.LayerNormGrad, kernels.GroupNorm,
	kernels.GroupNormGrad, kernels.MaxPool, kernels.MaxPoolGrad, kernels.AvgPool, kernels.AvgPoolGrad, kernels.Dropout, kernels.Scatter,
}

// normShapes are x [B, C, ...] with planes of every rest of a group of vectors, planes longer than a run and one element longer, batches of more
// than one group of images, tiles of several channels, and no plane at all.
func normShapes() []kernels.Shape {
	all := []kernels.Shape{{3, 5, 33, 31}, {1, 2, 129, 130}, {64, 8, 8, 8}, {70, 16, 7, 7}, {1100, 1, 8, 8}, {5000, 2}, {128, 130}, {5, 67},
		{2, 1, 40_000}, {2, 2, 145, 113}, {1, 2, 32_769}, {2, 3, 27_307}, {2, 70, 2, 2}, {3, 2, 1, 1000}, {2, 3, 32, 32}, {2, 65, 16, 16}}
	for n := 1; n <= 70; n++ {
		all = append(all, kernels.Shape{2 + n%3, 1 + n%5, n})
	}
	if testing.Short() {
		all = slices.DeleteFunc(all, func(s kernels.Shape) bool { return s.Elems() > 5000 })
	}
	return all
}

// normCase is a case of op on x [B, C, ...].
func normCase(op *kernels.Op, s kernels.Shape, float arena.DType, relu bool) kernels.Case {
	of := func(dims ...int) kernels.Spec { return kernels.Spec{Type: float, Shape: dims} }
	x, c := of(s...), of(s[1])
	last := s[len(s)-1]
	rows := of(s[:len(s)-1].Elems())
	groups := 1
	if s[1]%2 == 0 {
		groups = 2
	}
	batch, layer := kernels.BatchNormAttrs{Eps: 1e-3, ReLU: relu}, kernels.LayerNormAttrs{Eps: 1e-3}
	group := kernels.GroupNormAttrs{Groups: groups, Eps: 1e-3}
	rstd := -1 // which operand is a reciprocal deviation or a variance
	var out kernels.Case
	switch op {
	case kernels.BatchNorm:
		out = kernels.Case{Attrs: batch, In: []kernels.Spec{x, c, c}}
	case kernels.BatchNormGrad:
		out, rstd = kernels.Case{Attrs: batch, In: []kernels.Spec{x, c, c, c, c, x}}, 4
	case kernels.LayerNorm:
		out = kernels.Case{Attrs: layer, In: []kernels.Spec{x, of(last), of(last)}}
	case kernels.LayerNormGrad:
		out, rstd = kernels.Case{Attrs: layer, In: []kernels.Spec{x, of(last), rows, rows, x}}, 3
	case kernels.GroupNorm:
		out = kernels.Case{Attrs: group, In: []kernels.Spec{x, c, c}}
	case kernels.GroupNormGrad:
		out, rstd = kernels.Case{Attrs: group, In: []kernels.Spec{x, c, of(s[0], groups), of(s[0], groups), x}}, 3
	}
	out.Fill = func(r *rand.Rand, k int, v []float64) {
		for i := range v {
			v[i] = r.NormFloat64()
			if k == rstd {
				v[i] = 0.5 + r.Float64()
			}
		}
	}
	return out
}

// sameOrNear demands that the second and third result, of AVX2 and AVX-512, have the same bits, and that the first, of plain Go,
// is near: sums of n terms of size 1 in another order differ by some n·2^-24, and results by what they are multiplied with.
func sameOrNear(t *testing.T, op *kernels.Op, float arena.DType, what any, n int, results [][][]byte) {
	t.Helper()
	for k := 1; k < len(results); k++ {
		for o, got := range results[k] {
			if k == 2 && !bytes.Equal(results[1][o], got) {
				t.Fatalf("%s of %v: output %d has other bits with AVX-512 than with AVX2", op.Name, what, o)
			}
			x, y := make([]float64, len(got)/int(float.Size())), make([]float64, len(got)/int(float.Size()))
			kernels.Load(x, float, results[0][o])
			kernels.Load(y, float, got)
			ulp := map[arena.DType]float64{arena.Float32: 0x1p-24, arena.Float64: 0x1p-53}[float]
			limit := ulp * (1000 + 4*float64(n))
			for i := range x {
				if !(math.Abs(x[i]-y[i]) <= limit*(1+math.Abs(x[i]))) {
					t.Fatalf("%s of %v: element %d of output %d is %v in Go and %v in assembly, %.2g apart of %.2g allowed",
						op.Name, what, i, o, x[i], y[i], math.Abs(x[i]-y[i]), limit)
				}
			}
		}
	}
}

func TestNormalizationsOfExtremeValuesAreRightAtEveryLevel(t *testing.T) {
	for _, i := range []cpu.Instructions{cpu.Portable, cpu.AVX2, cpu.AVX512} {
		open := func() (kernels.Device, error) { return cpu.Open(cpu.Options{Threads: 1, Instructions: i}) }
		d, err := open()
		if err != nil {
			continue
		}
		d.Close()
		t.Run(fmt.Sprint(i), func(t *testing.T) { kerneltest.Norms(t, open) })
	}
}

// Equal elements become beta exactly in groups of images, tiles, runs and rows of every kind.
func TestEqualElementsBecomeBetaExactlyAtEveryLevel(t *testing.T) {
	r, _ := random(t)
	shapes := []kernels.Shape{{3, 5, 33, 31}, {1, 2, 129, 130}, {1100, 1, 8, 8}, {5000, 2}, {2, 1, 40_000}, {2, 65, 4, 4}, {3, 70_001}}
	for i, s := range shapes {
		float, equal := floats[i%2], []float64{0.1, 1e7}[r.IntN(2)]
		for _, op := range []*kernels.Op{kernels.BatchNorm, kernels.LayerNorm, kernels.GroupNorm} {
			c := normCase(op, s, float, false)
			fill := c.Fill
			c.Fill = func(r *rand.Rand, k int, v []float64) {
				fill(r, k, v)
				for i := range v {
					switch k {
					case 0:
						v[i] = equal
					case 2:
						v[i] = 0.7 // beta
					}
				}
			}
			for _, d := range levels(t, 2) {
				u := newUse(t, r, d, op, c)
				u.launch(t)
				y, beta := make([]float64, s.Elems()), tensors(u)[2].Data[0]
				kernels.Load(y, float, u.results()[0])
				if at := slices.IndexFunc(y, func(v float64) bool { return v != beta }); at >= 0 {
					have, _ := d.Instructions()
					t.Errorf("%s of %v %v with %v: element %d of %v is %v, want %v", op.Name, float, s, have, at, equal, y[at], beta)
				}
				u.close(t)
			}
		}
	}
}

func TestNormalizationsAgreeAtEveryLevel(t *testing.T) {
	r, _ := random(t)
	devices := levels(t, 2)
	for i, s := range normShapes() {
		for _, op := range normOps[:7] {
			if op == kernels.RunningStat {
				continue
			}
			for _, relu := range []bool{false, true} {
				if relu && op != kernels.BatchNorm { // near 0 the levels need not agree on what a rectifier lets through
					continue
				}
				float := floats[i%2]
				c := normCase(op, s, float, relu)
				sameOrNear(t, op, float, s, s.Elems(), everyLevel(t, devices, r.Uint64(), op, c))
			}
		}
	}
}

// A rectified gradient must let through exactly what the forward pass left above 0, whatever the level rounds.
func TestARectifiedGradientMeetsItsForwardPass(t *testing.T) {
	r, seed := random(t)
	for _, d := range levels(t, 1) {
		for i, s := range normShapes() {
			float := floats[i%2]
			forward := newUse(t, r, d, kernels.BatchNorm, normCase(kernels.BatchNorm, s, float, true))
			forward.launch(t)
			in := forward.call.In
			c := normCase(kernels.BatchNormGrad, s, float, true)
			c.Fill = func(_ *rand.Rand, k int, v []float64) {
				switch k {
				case 0, 1, 2:
					kernels.Load(v, float, forward.bytes(in[k]))
				case 3, 4:
					kernels.Load(v, float, forward.bytes(forward.call.Out[k-2]))
				default:
					for j := range v {
						v[j] = 1
					}
				}
			}
			y := make([]float64, s.Elems())
			kernels.Load(y, float, forward.results()[0])
			want := make([]float64, s[1]) // dbeta: how many are above 0
			plane := s[2:].Elems()
			for j, v := range y {
				if v > 0 {
					want[j/plane%s[1]]++
				}
			}
			u := newUse(t, r, d, kernels.BatchNormGrad, c)
			u.launch(t)
			got := make([]float64, s[1])
			kernels.Load(got, float, u.results()[2])
			if !slices.Equal(got, want) {
				have, _ := d.Instructions()
				t.Fatalf("%v with %v: %v pass through, %v are above 0 (seed %d)", s, have, got, want, seed)
			}
			u.close(t)
			forward.close(t)
		}
	}
}

// The mean of float32 around 10^4 is rounded by 2^-11; a variance about such a mean is off by the square of that. The sums
// about a pivot add some 10^-5 of the variance.
func TestAVarianceFarFromZeroKeepsItsDigits(t *testing.T) {
	r, seed := random(t)
	for _, d := range levels(t, 2) {
		for _, s := range []kernels.Shape{{8, 3, 40, 40}, {64, 9, 8, 8}, {3, 2, 200, 200}, {200, 20}, {64, 16, 7, 7}} {
			c := normCase(kernels.BatchNorm, s, arena.Float32, false)
			fill := c.Fill
			c.Fill = func(r *rand.Rand, k int, v []float64) {
				if fill(r, k, v); k == 0 {
					for i := range v {
						v[i] += 1e4
					}
					v[0] = 1e4 - 50 // where a pivot is looked for
				}
			}
			u := newUse(t, r, d, kernels.BatchNorm, c)
			u.launch(t)
			want, err := kernels.Eval(kernels.BatchNorm, c.Attrs, tensors(u))
			if err != nil {
				t.Fatal(err)
			}
			mean, variance := make([]float64, s[1]), make([]float64, s[1])
			kernels.Load(mean, arena.Float32, u.results()[1])
			kernels.Load(variance, arena.Float32, u.results()[2])
			for k := range mean {
				if math.Abs(mean[k]-want[1].Data[k]) > 1e-3 || math.Abs(variance[k]/want[2].Data[k]-1) > 2e-5 {
					have, _ := d.Instructions()
					t.Errorf("%v with %v, channel %d: got %v and %v, want %v and %v (seed %d)", s, have, k, mean[k], variance[k],
						want[1].Data[k], want[2].Data[k], seed)
				}
			}
			u.close(t)
		}
	}
}

// tensors returns the operands of a use as its first contents have them.
func tensors(u *use) []kernels.Tensor {
	all := make([]kernels.Tensor, len(u.call.In))
	for k, o := range u.call.In {
		all[k] = kernels.Tensor{Spec: o.Spec, Data: make([]float64, o.Shape.Elems())}
		kernels.Load(all[k].Data, o.Type, u.first[o.Ref.Offset:][:o.Ref.Size])
	}
	return all
}

func TestANaNStaysInItsChannel(t *testing.T) {
	r, _ := random(t)
	s := kernels.Shape{4, 3, 5, 7}
	for _, d := range levels(t, 1) {
		for _, float := range floats {
			c := normCase(kernels.BatchNorm, s, float, true)
			fill := c.Fill
			c.Fill = func(r *rand.Rand, k int, v []float64) {
				if fill(r, k, v); k == 0 {
					v[2*3*35+35+34] = math.NaN() // last pixel of channel 1 of image 2
				}
			}
			u := newUse(t, r, d, kernels.BatchNorm, c)
			u.launch(t)
			y := make([]float64, s.Elems())
			kernels.Load(y, float, u.results()[0])
			for i, v := range y {
				if math.IsNaN(v) != (i/35%3 == 1) {
					t.Fatalf("%v: element %d is %v", float, i, v)
				}
			}
			u.close(t)
		}
	}
}

// quantized fills with few values, so that maxima have equals, and now and then NaN or -Inf.
func quantized(r *rand.Rand, _ int, v []float64) {
	for i := range v {
		v[i] = float64(r.IntN(5) - 2)
		switch r.IntN(40) {
		case 0:
			v[i] = math.NaN()
		case 1, 2, 3:
			v[i] = math.Inf(-1)
		}
	}
}

// pools are images of every width and the windows over them.
func pools(visit func(a kernels.PoolAttrs, s kernels.Shape)) {
	for w := 2; w <= 70; w++ {
		s := kernels.Shape{1 + w%3, 2, 2 + w%5, w}
		visit(halves, s)
		for _, k := range []int{2, 3, 5} {
			a := kernels.PoolAttrs{Kernel: [2]int{k, k}, Stride: [2]int{1 + w%3, 1 + w/3%3}, Pad: [2]int{w % k, w % k}, PadEnd: [2]int{k - 1, w % k}}
			visit(a, s)
		}
	}
	for _, w := range []int{255, 259, 270, 523, 1030} { // more results in a row than a byte counts
		for step := 1; step <= 2; step++ {
			visit(kernels.PoolAttrs{Kernel: [2]int{3, 3}, Stride: [2]int{step, step}, Pad: [2]int{1, 1}, PadEnd: [2]int{1, 1}}, kernels.Shape{1, 2, 3, w})
		}
	}
	visit(halves, kernels.Shape{2, 3, 64, 1024})
	visit(halves, kernels.Shape{1, 1, 2, 40_000})
}

var halves = kernels.PoolAttrs{Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}}

// Pools are the same bits as their reference at every level: they choose, and add in one order.
func TestMaximaAndTheirPlacesAreExactAtEveryLevel(t *testing.T) {
	r, seed := random(t)
	devices := levels(t, 2)
	pools(func(a kernels.PoolAttrs, s kernels.Shape) {
		x := kernels.Spec{Type: arena.Float32, Shape: s}
		c := kernels.Case{Attrs: a, In: []kernels.Spec{x}, Fill: quantized}
		for _, d := range devices {
			exact(t, d, kernels.MaxPool, c, seed)
			out, err := kernels.MaxPool.Infer(a, c.In)
			if err != nil {
				t.Fatal(err)
			}
			grad := kernels.Case{Attrs: kernels.PoolGradAttrs{PoolAttrs: a, Size: [2]int{s[2], s[3]}}, In: []kernels.Spec{out[1], out[0]},
				Fill: func(r *rand.Rand, k int, v []float64) {
					for i := range v {
						v[i] = float64(r.IntN(a.Kernel[0]*a.Kernel[1] + 1))
					}
				}}
			exact(t, d, kernels.MaxPoolGrad, grad, r.Uint64())
		}
	})
}

// exact compares the outputs of a case with the reference's, bit for bit.
func exact(t *testing.T, d *cpu.Device, op *kernels.Op, c kernels.Case, seed uint64) {
	t.Helper()
	u := newUse(t, rand.New(rand.NewPCG(seed, 1)), d, op, c)
	defer u.close(t)
	u.launch(t)
	want, err := kernels.Eval(op, c.Attrs, tensors(u))
	if err != nil {
		t.Fatal(err)
	}
	for k, o := range u.call.Out {
		b := make([]byte, o.Bytes())
		kernels.Store(b, o.Type, want[k].Data)
		got := make([]float64, len(want[k].Data))
		kernels.Load(got, o.Type, u.results()[k])
		for i, v := range got {
			if v != want[k].Data[i] && !(math.IsNaN(v) && math.IsNaN(want[k].Data[i])) {
				have, _ := d.Instructions()
				t.Fatalf("%s %+v of %v with %v: element %d of output %d is %v, want %v (seed %d)", op.Name, c.Attrs, c.In, have, i, k, v,
					want[k].Data[i], seed)
			}
		}
	}
}

// Which elements stay does not depend on level, threads or type.
func TestDropoutIsTheSameEverywhere(t *testing.T) {
	r, seed := random(t)
	for _, n := range []int{1, 3, 4, 15, 16, 17, 31, 32, 33, 63, 64, 65, 8191, 8192, 8193, 50_001} {
		a := kernels.DropoutAttrs{Rate: []float64{0, 0.3, 0.5, 1 - 0x1p-33}[r.IntN(4)], Seed: r.Uint64(), Layer: r.Uint64()}
		step := float64(1 + r.IntN(1000))
		for _, float := range floats {
			c := kernels.Case{Attrs: a, In: []kernels.Spec{{Type: float, Shape: kernels.Shape{n}}, kernels.ControlsSpec},
				Fill: func(_ *rand.Rand, k int, v []float64) {
					for i := range v {
						v[i] = 1
					}
					if k == 1 {
						v[kernels.ControlStep] = step
					}
				}}
			for _, threads := range []int{1, 3} {
				for _, d := range levels(t, threads) {
					u := newUse(t, r, d, kernels.Dropout, c)
					u.launch(t)
					want, err := kernels.Eval(kernels.Dropout, a, tensors(u))
					if err != nil {
						t.Fatal(err)
					}
					got := make([]float64, n)
					kernels.Load(got, float, u.results()[0])
					for i, v := range got {
						if (v == 0) != (want[0].Data[i] == 0) || math.Abs(v-want[0].Data[i]) > 1e-6*math.Abs(v) {
							t.Fatalf("%+v of %d %v: element %d is %v, want %v (seed %d)", a, n, float, i, v, want[0].Data[i], seed)
						}
					}
					u.close(t)
				}
			}
		}
	}
}

// Results do not depend on the number of threads at any level, for calls large enough to be split.
func TestNormalizationsAreTheSameBitsOnOneToEightThreads(t *testing.T) {
	r, seed := random(t)
	threads, shapes := 8, []kernels.Shape{{12, 70, 9, 5}, {150, 5, 8, 8}, {2, 3, 100, 100}, {200, 200}}
	if testing.Short() {
		threads, shapes = 2, []kernels.Shape{{12, 70, 3, 5}, {70, 5, 4, 4}}
	}
	devices := make([][]*cpu.Device, threads)
	for k := range devices {
		devices[k] = levels(t, k+1)
	}
	for _, s := range shapes {
		for _, op := range normOps[:7] {
			if op == kernels.RunningStat {
				continue
			}
			c, first := normCase(op, s, arena.Float32, true), r.Uint64()
			var want [][][]byte
			for k, d := range devices {
				got := everyLevel(t, d, first, op, c)
				if want == nil {
					want = got
				}
				for i := range got {
					if !slices.EqualFunc(got[i], want[i], bytes.Equal) {
						t.Fatalf("%s of %v has other bits on %d threads (seed %d)", op.Name, s, k+1, seed)
					}
				}
			}
		}
	}
}

func TestNormalizationsAllocateNothing(t *testing.T) {
	r, _ := random(t)
	for _, d := range levels(t, 2) {
		for _, s := range []kernels.Shape{{12, 70, 9, 5}, {150, 5, 8, 8}} {
			for _, op := range normOps[:7] {
				if op == kernels.RunningStat {
					continue
				}
				u := newUse(t, r, d, op, normCase(op, s, arena.Float32, true))
				if n := testing.AllocsPerRun(3, func() { u.launch(t) }); n != 0 {
					t.Errorf("%s of %v: %v allocations a launch", op.Name, s, n)
				}
				u.close(t)
			}
		}
	}
}

func TestMeansOfWindowsAgreeAtEveryLevel(t *testing.T) {
	r, _ := random(t)
	devices := levels(t, 2)
	pools(func(a kernels.PoolAttrs, s kernels.Shape) {
		c := kernels.Case{Attrs: a, In: []kernels.Spec{{Type: arena.Float32, Shape: s}}}
		out, err := kernels.AvgPool.Infer(a, c.In)
		if err != nil {
			t.Fatal(err)
		}
		grad := kernels.Case{Attrs: kernels.PoolGradAttrs{PoolAttrs: a, Size: [2]int{s[2], s[3]}}, In: out}
		sameOrNear(t, kernels.AvgPool, arena.Float32, s, 25, everyLevel(t, devices, r.Uint64(), kernels.AvgPool, c))
		sameOrNear(t, kernels.AvgPoolGrad, arena.Float32, s, 25, everyLevel(t, devices, r.Uint64(), kernels.AvgPoolGrad, grad))
	})
}

// Values too small for a normal number count as 0 in assembly, and elsewhere as ever after it.
func TestNormalizationsFlushDenormalsAndRestoreTheProcessor(t *testing.T) {
	r, _ := random(t)
	for _, d := range levels(t, 1)[1:] {
		for _, s := range []kernels.Shape{{4, 3, 5, 7}, {9, 5}} {
			for _, op := range []*kernels.Op{kernels.BatchNormGrad, kernels.LayerNormGrad, kernels.GroupNormGrad} {
				c := normCase(op, s, arena.Float32, false)
				fill, last := c.Fill, len(c.In)-1
				c.Fill = func(r *rand.Rand, k int, v []float64) {
					if fill(r, k, v); k == last {
						for i := range v {
							v[i] = 1e-39
						}
					}
				}
				u := newUse(t, r, d, op, c)
				u.launch(t)
				for k, out := range u.results() {
					if len(bytes.Trim(out, "\x00\x80")) != 0 { // 0 or -0
						t.Errorf("%s of %v: output %d: denormal gradients did not become 0", op.Name, s, k)
					}
				}
				if half := float32(tiny) * 2; half == 0 {
					t.Fatalf("%s: denormal numbers are still taken for 0 after the launch", op.Name)
				}
				u.close(t)
			}
		}
	}
}
