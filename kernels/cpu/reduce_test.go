package cpu_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// levels opens a device for each set of instructions that this processor has, plain Go first.
func levels(t testing.TB, threads int) []*cpu.Device {
	t.Helper()
	var all []*cpu.Device
	for _, i := range []cpu.Instructions{cpu.Portable, cpu.AVX2, cpu.AVX512} {
		if d, err := cpu.Open(cpu.Options{Threads: threads, Instructions: i}); err == nil {
			t.Cleanup(func() { d.Close() })
			all = append(all, d)
		}
	}
	return all
}

// everyLevel runs a case at each level and returns the outputs.
func everyLevel(t testing.TB, devices []*cpu.Device, seed uint64, op *kernels.Op, c kernels.Case) (results [][][]byte) {
	t.Helper()
	for _, d := range devices {
		u := newUse(t, rand.New(rand.NewPCG(seed, 1)), d, op, c)
		u.launch(t)
		results = append(results, u.results())
		u.close(t)
	}
	return results
}

// folded is a reduction of a shape.
type folded struct {
	shape kernels.Shape
	axes  []int
}

// foldedShapes are all patterns of axes that kernels tell apart, with short and long runs, tails, pieces and cuts.
func foldedShapes(r *rand.Rand) []folded {
	var all []folded
	for n := 1; n <= 70; n += 1 + n/24 {
		all = append(all, folded{kernels.Shape{n}, nil}, folded{kernels.Shape{3, n}, []int{1}}, folded{kernels.Shape{n, 3}, []int{1}},
			folded{kernels.Shape{5, n}, []int{0}}, folded{kernels.Shape{n, 2}, []int{0}}, folded{kernels.Shape{2, 3, n}, []int{0, 2}})
	}
	for range 8 {
		d := func(most int) int { return sizeUpTo(r, most) }
		all = append(all,
			folded{kernels.Shape{d(100_000)}, nil},
			folded{kernels.Shape{d(40), d(3000)}, []int{1}},
			folded{kernels.Shape{d(3000), d(40)}, []int{0}},
			folded{kernels.Shape{d(10), d(700)}, []int{0}},
			folded{kernels.Shape{d(3), d(2500), d(5)}, []int{1}},
			folded{kernels.Shape{d(40), d(20), d(9), d(9)}, []int{0, 2, 3}},
			folded{kernels.Shape{d(20), d(10), d(60)}, []int{2}},
			folded{kernels.Shape{d(9), d(9), d(9), d(9)}, []int{0, 2}},
			folded{kernels.Shape{d(9), d(9), d(9), d(9)}, []int{1, 3}},
			folded{kernels.Shape{2, d(33_000)}, []int{1}},
			folded{kernels.Shape{2, 2, d(33_000)}, []int{0, 2}})
	}
	return all
}

func TestReductionsAreTheSameBitsAtEveryLevelAndPulled(t *testing.T) {
	r, seed := random(t)
	devices := levels(t, 2)
	for i, f := range foldedShapes(r) {
		if testing.Short() && i%7 > 1 {
			continue
		}
		spec := kernels.Spec{Type: floats[i%2], Shape: f.shape}
		for _, op := range []*kernels.Op{kernels.Sum, kernels.Mean, kernels.Max} {
			a := kernels.ReduceAttrs{Axes: f.axes}
			c := kernels.Case{Attrs: a, In: []kernels.Spec{spec}}
			results := everyLevel(t, devices, seed, op, c)
			u := newUse(t, rand.New(rand.NewPCG(seed, 1)), devices[0], op, c)
			x := u.bytes(u.call.In[0])
			for k, d := range devices {
				if !bytes.Equal(results[k][0], results[0][0]) {
					have, _ := d.Instructions()
					t.Fatalf("%s of %v along %v has other bits with %v instructions (seed %d)", op.Name, spec, f.axes, have, seed)
				}
				pulled, most := cpu.ReducePulled(d, op, a, spec, x)
				if !bytes.Equal(pulled, results[0][0]) {
					t.Fatalf("%s of %v along %v has other bits when its operand is computed (seed %d)", op.Name, spec, f.axes, seed)
				}
				if most > 4096 {
					t.Fatalf("%s of %v along %v wants %d elements at once", op.Name, spec, f.axes, most)
				}
			}
			u.close(t)
		}
	}
}

// A sum in float64 that is rounded once is off by half a unit in the last place of the result, and by the error of the
// order in float64, which is nothing beside that.
func TestSumsAreRoundedOnce(t *testing.T) {
	r, seed := random(t)
	for _, d := range levels(t, 1) {
		for range 50 {
			spec := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{sizeUpTo(r, 50_000)}}
			u := newUse(t, r, d, kernels.Sum, kernels.Case{Attrs: kernels.ReduceAttrs{}, In: []kernels.Spec{spec}})
			u.launch(t)
			x := make([]float64, spec.Shape.Elems())
			kernels.Load(x, arena.Float32, u.bytes(u.call.In[0]))
			want, size := 0.0, 0.0
			for _, v := range x {
				want += v
				size += math.Abs(v)
			}
			got := make([]float64, 1)
			kernels.Load(got, arena.Float32, u.results()[0])
			if off := math.Abs(got[0] - want); off > math.Abs(want)*0x1p-24+size*0x1p-50*float64(len(x)) {
				t.Errorf("sum of %d: %v, want %v (seed %d)", len(x), got[0], want, seed)
			}
			u.close(t)
		}
	}
}

func TestAMaximumIsNaNWhereverOneIs(t *testing.T) {
	for _, d := range levels(t, 1) {
		for _, float := range floats {
			for n := 1; n <= 70; n += 1 + n/6 {
				for at := range n {
					checkNaN(t, d, float, kernels.Shape{2, n}, 1, n+at, 1)
					checkNaN(t, d, float, kernels.Shape{3, n}, 0, n+at, at)
					checkNaN(t, d, float, kernels.Shape{n, 3}, 0, at*3+2, 2)
				}
			}
		}
	}
}

// checkNaN reduces one axis of zeros, but for one NaN, which must be seen in one result.
func checkNaN(t *testing.T, d *cpu.Device, float arena.DType, s kernels.Shape, axis, at, result int) {
	t.Helper()
	c := kernels.Case{Attrs: kernels.ReduceAttrs{Axes: []int{axis}}, In: []kernels.Spec{{Type: float, Shape: s}}}
	c.Fill = func(_ *rand.Rand, _ int, v []float64) { v[at] = math.NaN() }
	u := newUse(t, nil, d, kernels.Max, c)
	defer u.close(t)
	u.launch(t)
	y := make([]float64, u.call.Out[0].Shape.Elems())
	kernels.Load(y, float, u.results()[0])
	for j, v := range y {
		if math.IsNaN(v) != (j == result) {
			t.Fatalf("maxima of %v along %d with NaN at %d: %v", s, axis, at, y)
		}
	}
}

func TestChecksAndNormsAgreeAtEveryLevel(t *testing.T) {
	r, seed := random(t)
	devices := levels(t, 2)
	bad := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat32, 0}
	for i := range 160 {
		n := i / 2
		switch {
		case testing.Short() && i%4 > 1:
			continue
		case i > 140:
			n = sizeUpTo(r, 150_000)
		}
		x := kernels.Spec{Type: floats[i%2], Shape: kernels.Shape{n}}
		results := everyLevel(t, devices, seed, kernels.SumSquares, kernels.Case{In: []kernels.Spec{x}})
		c := kernels.Case{Attrs: kernels.CheckFiniteAttrs{Code: 7}, In: []kernels.Spec{x, kernels.GuardSpec}}
		v := bad[i%len(bad)]
		c.Fill = func(r *rand.Rand, k int, data []float64) {
			if k == 0 && n > 0 {
				data[r.IntN(n)] = v
			}
		}
		guards := everyLevel(t, devices, seed, kernels.CheckFinite, c)
		want := byte(7)
		if v == 0 || v == math.MaxFloat32 || n == 0 {
			want = 0
		}
		for k := range devices {
			if guards[k][0][0] != want {
				t.Fatalf("guard %d after %v among %d of %v, want %d (seed %d)", guards[k][0][0], v, n, x.Type, want, seed)
			}
			// Squares of float32 are exact in float64. Those of float64 are rounded before they are added in Go alone.
			if x.Type == arena.Float32 || k == 2 {
				if !bytes.Equal(results[k][0], results[k-min(k, 1)][0]) {
					t.Fatalf("sums of %d squares of %v have different bits (seed %d)", n, x.Type, seed)
				}
				continue
			}
			a, b := make([]float64, 1), make([]float64, 1)
			kernels.Load(a, arena.Float64, results[0][0])
			kernels.Load(b, arena.Float64, results[k][0])
			if math.Abs(a[0]-b[0]) > 0x1p-48*a[0] { // one rounding more an element, of random sign
				t.Fatalf("sums of %d squares: %v and %v (seed %d)", n, a, b, seed)
			}
		}
	}
}

// FuzzReduction reduces any axes of up to four dimensions at every level. Sums in float64 are off by what their rounding to
// the type makes, and by next to nothing beside.
func FuzzReduction(f *testing.F) {
	f.Add(uint16(128), uint16(512), uint16(1), uint16(1), uint8(1), uint8(0), uint64(1))
	f.Add(uint16(30), uint16(8), uint16(7), uint16(7), uint8(13), uint8(3), uint64(2))
	f.Add(uint16(2), uint16(9000), uint16(2), uint16(1), uint8(2), uint8(4), uint64(3))
	f.Fuzz(func(t *testing.T, a, b, c, d uint16, axes, kind uint8, seed uint64) {
		s := kernels.Shape{int(a), int(b), int(c), int(d)}
		elems := 1
		for k := range s {
			s[k] = max(1, s[k]%10_000)
			if elems *= s[k]; elems > 200_000 {
				t.Skip("too large to be quick")
			}
		}
		attrs := kernels.ReduceAttrs{Keep: kind&8 != 0}
		for k := range s {
			if axes>>k&1 != 0 {
				attrs.Axes = append(attrs.Axes, k)
			}
		}
		op := []*kernels.Op{kernels.Sum, kernels.Mean, kernels.Max}[kind%3]
		spec := kernels.Spec{Type: floats[kind>>2&1], Shape: s}
		devices := levels(t, 2)
		results := everyLevel(t, devices, seed, op, kernels.Case{Attrs: attrs, In: []kernels.Spec{spec}})
		for k := range results {
			if !bytes.Equal(results[k][0], results[0][0]) {
				t.Fatalf("%s of %v along %v: level %d has other bits", op.Name, spec, attrs.Axes, k)
			}
		}
		compareReduction(t, devices[0], seed, op, attrs, spec, results[0][0])
	})
}

// compareReduction compares a result with the op's meaning.
func compareReduction(t *testing.T, d *cpu.Device, seed uint64, op *kernels.Op, attrs kernels.ReduceAttrs, spec kernels.Spec, got []byte) {
	t.Helper()
	u := newUse(t, rand.New(rand.NewPCG(seed, 1)), d, op, kernels.Case{Attrs: attrs, In: []kernels.Spec{spec}})
	defer u.close(t)
	x := kernels.Tensor{Spec: spec, Data: make([]float64, spec.Shape.Elems())}
	kernels.Load(x.Data, spec.Type, u.bytes(u.call.In[0]))
	want := kernels.Tensor{Spec: u.call.Out[0].Spec, Data: make([]float64, u.call.Out[0].Shape.Elems())}
	op.Ref(attrs, []kernels.Tensor{x}, []kernels.Tensor{want})
	y := make([]float64, len(want.Data))
	kernels.Load(y, spec.Type, got)
	half := map[arena.DType]float64{arena.Float32: 0x1p-24, arena.Float64: 0x1p-53}[spec.Type]
	terms := float64(len(x.Data)) / float64(len(y)) // of size about 1, each rounded in float64 at most
	for i, v := range want.Data {
		if math.Abs(y[i]-v) > half*math.Abs(v)+terms*terms*0x1p-52 {
			t.Fatalf("%s of %v along %v: element %d is %v, want %v", op.Name, spec, attrs.Axes, i, y[i], v)
		}
	}
}
