package layers_test

import (
	"math"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// einsum is a sum of products in plain Go: for each index of all letters it adds a product. Letters
// of in and out index axes of operands and of the result.
func einsum(x [][]float64, shapes [][]int, in []string, out string) []float64 {
	size := map[byte]int{}
	var letters []byte
	for k, s := range in {
		for i := range len(s) {
			if _, ok := size[s[i]]; !ok {
				letters = append(letters, s[i])
			}
			size[s[i]] = shapes[k][i]
		}
	}
	at := map[byte]int{}
	index := func(s string) (i int) {
		for k := range len(s) {
			i = i*size[s[k]] + at[s[k]]
		}
		return i
	}
	count := 1
	for i := range len(out) {
		count *= size[out[i]]
	}
	y := make([]float64, count)
	var visit func(depth int)
	visit = func(depth int) {
		if depth < len(letters) {
			for i := range size[letters[depth]] {
				at[letters[depth]] = i
				visit(depth + 1)
			}
			return
		}
		p := 1.0
		for k, s := range in {
			p *= x[k][index(s)]
		}
		y[index(out)] += p
	}
	visit(0)
	return y
}

// productCase is the case of a product that einsum computes.
func productCase(name string, shapes [][]int, in []string, out string, build func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node) opCase {
	c := opCase{name: name, in: shapes, build: build, shape: []int{}}
	for i := range len(out) {
		for k, s := range in {
			if at := slices.Index([]byte(s), out[i]); at >= 0 {
				c.shape = append(c.shape, shapes[k][at])
				break
			}
		}
	}
	c.want = func(x [][]float64) []float64 { return einsum(x, shapes, in, out) }
	return c
}

func matMulCases() (cases []opCase) {
	for _, c := range []struct {
		name string
		a, b []int
		t    layers.Transposed
		in   []string
		out  string
	}{
		{"matmul", []int{2, 3}, []int{3, 4}, layers.Transposed{}, []string{"mk", "kn"}, "mn"},
		{"matmul of transposed factors", []int{3, 2}, []int{4, 3}, layers.Transposed{A: true, B: true}, []string{"km", "nk"}, "mn"},
		{"matmul of vectors", []int{3}, []int{3}, layers.Transposed{}, []string{"k", "k"}, ""},
		{"matmul of a vector and matrices", []int{3}, []int{2, 3, 4}, layers.Transposed{}, []string{"k", "bkn"}, "bn"},
		{"matmul of matrices and a vector", []int{2, 4, 3}, []int{3}, layers.Transposed{}, []string{"bmk", "k"}, "bm"},
		{"matmul of batches", []int{2, 2, 3}, []int{2, 4, 3}, layers.Transposed{B: true}, []string{"bmk", "bnk"}, "bmn"},
		{"matmul of a batch and a matrix", []int{2, 3, 2, 4}, []int{4, 5}, layers.Transposed{}, []string{"abmk", "kn"}, "abmn"},
		{"matmul of a transposed batch and a matrix", []int{2, 4, 2}, []int{4, 3}, layers.Transposed{A: true}, []string{"bkm", "kn"}, "bmn"},
		{"matmul of a matrix and a batch", []int{4, 2}, []int{3, 4, 2}, layers.Transposed{A: true}, []string{"km", "bkn"}, "bmn"},
	} {
		cases = append(cases, productCase(c.name, [][]int{c.a, c.b}, c.in, c.out, func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
			return n.MatMul(x[0], x[1], "", c.t)
		}))
	}
	// Leading axes of 1 broadcast against each other.
	c := productCase("matmul of batches that broadcast", [][]int{{2, 2, 4}, {3, 4, 2}}, []string{"amk", "bkn"}, "abmn",
		func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
			return n.MatMul(n.Reshape(x[0], "", 2, 1, 2, 4), x[1], "", layers.Transposed{})
		})
	return append(cases, c)
}

func einsumCases() (cases []opCase) {
	size := map[rune]int{'b': 2, 'h': 3, 'i': 4, 'j': 2, 'k': 5, 'l': 3}
	for _, c := range []struct {
		spec string
		in   []string
		out  string
	}{
		{"ik,kj->ij", []string{"ik", "kj"}, "ij"},
		{"bik, bjk -> bij", []string{"bik", "bjk"}, "bij"},
		{"bki,bjk->jbi", []string{"bki", "bjk"}, "jbi"},
		{"bihk,bjhk->bhij", []string{"bihk", "bjhk"}, "bhij"},
		{"bhij,bjhk->bihk", []string{"bhij", "bjhk"}, "bihk"},
		{"ijk,jkl->il", []string{"ijk", "jkl"}, "il"},
		{"i,j->ij", []string{"i", "j"}, "ij"},
		{"bi,bi->b", []string{"bi", "bi"}, "b"},
		{"bi,ib->bi", []string{"bi", "ib"}, "bi"},
		{"ij,jk->k", []string{"ij", "jk"}, "k"},
		{"ij,kl->", []string{"ij", "kl"}, ""},
		{"bij->bji", []string{"bij"}, "bji"},
		{"bij->j", []string{"bij"}, "j"},
		{"ij->", []string{"ij"}, ""},
	} {
		var shapes [][]int
		for _, letters := range c.in {
			var s kernels.Shape
			for _, l := range letters {
				s = append(s, size[l])
			}
			shapes = append(shapes, s)
		}
		cases = append(cases, productCase("einsum "+c.spec, shapes, c.in, c.out, func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node {
			return n.Einsum(c.spec, "", x...)
		}))
	}
	return cases
}

// logs are the logarithms of p.
func logs(p []float64) []float64 {
	for i, v := range p {
		p[i] = math.Log(v)
	}
	return p
}

// softmaxCases are softmaxes along each axis of x [2, 5, 3].
func softmaxCases() (cases []opCase) {
	for axis, step := range []int{15, 3, 1} {
		size := []int{2, 5, 3}[axis]
		lines := func(x []float64, f func(line []float64) []float64) []float64 {
			y := make([]float64, len(x))
			for i := range x {
				if i/step%size > 0 {
					continue
				}
				line := make([]float64, size)
				for k := range line {
					line[k] = x[i+k*step]
				}
				for k, v := range f(line) {
					y[i+k*step] = v
				}
			}
			return y
		}
		axes := [][]int{{0}, {-2}, nil}[axis]
		cases = append(cases,
			opCase{name: "softmax along " + string(rune('0'+axis)), in: [][]int{{2, 5, 3}}, shape: []int{2, 5, 3},
				build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return n.Softmax(x[0], "", axes...) },
				want:  func(x [][]float64) []float64 { return lines(x[0], softmax) }},
			opCase{name: "log softmax along " + string(rune('0'+axis)), in: [][]int{{2, 5, 3}}, shape: []int{2, 5, 3},
				build: func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node { return n.LogSoftmax(x[0], "", axes...) },
				want: func(x [][]float64) []float64 {
					return lines(x[0], func(line []float64) []float64 { return logs(softmax(line)) })
				}},
		)
	}
	return cases
}
