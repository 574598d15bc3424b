package weights

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// applied is what a rule makes of the file's tensor a: plain indexing.
func applied(x Rule, a array) array {
	at := func(a array, index []int) float64 {
		i := 0
		for k, d := range a.shape {
			i = i*d + index[k]
		}
		return a.x[i]
	}
	build := func(shape []int, f func(index []int) float64) array {
		b := array{shape: shape}
		for i := range kernels.Shape(shape).Elems() {
			index := make([]int, len(shape))
			for rest, k := i, len(shape)-1; k >= 0; k-- {
				index[k], rest = rest%shape[k], rest/shape[k]
			}
			b.x = append(b.x, f(index))
		}
		return b
	}
	if x.Cut > 0 {
		block := a.shape[x.Axis] / x.Cut
		shape := slices.Clone(a.shape)
		shape[x.Axis] = block * len(x.Take)
		whole := a
		a = build(shape, func(index []int) float64 {
			index = slices.Clone(index)
			k := x.Take[index[x.Axis]/block]
			if k < 0 {
				return 0
			}
			index[x.Axis] = k*block + index[x.Axis]%block
			return at(whole, index)
		})
	}
	if n := len(a.shape); x.Transpose {
		straight := a
		shape := slices.Clone(a.shape)
		shape[n-2], shape[n-1] = shape[n-1], shape[n-2]
		a = build(shape, func(index []int) float64 {
			index = slices.Clone(index)
			index[n-2], index[n-1] = index[n-1], index[n-2]
			return at(straight, index)
		})
	}
	return a
}

// randomRule draws a rule and the shape of a tensor.
func randomRule(r *rand.Rand) (x Rule, shape []int) {
	x = Rule{Ours: "p", File: "t"}
	for range r.IntN(5) {
		shape = append(shape, 1+r.IntN(5))
	}
	if len(shape) > 0 && r.IntN(3) > 0 {
		x.Axis, x.Cut = r.IntN(len(shape)), 1+r.IntN(4)
		shape[x.Axis] *= x.Cut
		for _, k := range r.Perm(x.Cut)[:1+r.IntN(x.Cut)] {
			if r.IntN(5) == 0 {
				k = -1
			}
			x.Take = append(x.Take, k)
		}
	}
	x.Transpose = len(shape) > 1 && r.IntN(2) == 0
	return x, shape
}

func TestRandomRulesMoveTheElementsThatTheyName(t *testing.T) {
	r := seed.Rand(t, 42)
	for range 500 {
		x, shape := randomRule(r)
		if r.IntN(100) == 0 && len(shape) > 0 { // more than a buffer
			shape[0] *= bufferBytes / 28
		}
		a := drawn(r, shape...)
		want := applied(x, a)
		in := shape
		if r.IntN(3) == 0 { // axes of size 1 may be missing, or more
			in = long(shape)
		} else if r.IntN(3) == 0 {
			in = slices.Insert(slices.Clone(shape), r.IntN(len(shape)+1), 1)
		}
		f := filed(t, safetensors.Float32, map[string]array{"t": {in, a.x}})
		if got := values(t, Rules{List: []Rule{x}}, specs(spec("p", want.shape...)), f)["p"]; !slices.Equal(got.x, want.x) {
			t.Fatalf("%+v of %v: %v, want %v", x, a, got, want)
		}
	}
}

// What is saved in whole tensors comes back, bit for bit.
func TestSavedParametersAreLoadedAgain(t *testing.T) {
	r := seed.Rand(t, 43)
	for range 500 {
		n := 1 + r.IntN(4)
		axis, transpose := r.IntN(3), r.IntN(2) == 0
		shape := []int{1 + r.IntN(4), 1 + r.IntN(4), 1 + r.IntN(4)}
		var rules Rules
		var all []trainer.NamedSpec
		before := map[string]array{}
		for i, k := range r.Perm(n) { // n parameters are blocks of one tensor
			name := fmt.Sprint("p", i)
			rules.List = append(rules.List, Rule{Ours: name, File: "t", Axis: axis, Cut: n, Take: []int{k}, Transpose: transpose})
			all, before[name] = append(all, spec(name, shape...)), drawn(r, shape...)
		}
		out, err := rules.planSave(all, all, "")
		if err != nil {
			t.Fatal(err)
		}
		f := filed(t, safetensors.Float32, stored(t, out, before))
		for name, got := range values(t, rules, all, f) {
			if !slices.Equal(got.x, before[name].x) {
				t.Fatalf("%+v: %s is %v, was %v", rules, name, got, before[name])
			}
		}
	}
}
