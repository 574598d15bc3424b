package vm_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// weight adds a parameter whose values are scaled by the number of terms in a sum.
func (d *builder) weight(name string, terms int, shape ...int) *gorgonia.Node {
	d.t.Helper()
	n := d.in(name, shape...)
	let(d.t, n, d.tensorOf(func(int) float64 { return d.r.NormFloat64() / math.Sqrt(float64(terms)) }, shape...))
	return n
}

// constant adds a parameter whose elements are all x.
func (d *builder) constant(name string, x float64, shape ...int) *gorgonia.Node {
	d.t.Helper()
	n := d.in(name, shape...)
	let(d.t, n, d.tensorOf(func(int) float64 { return x }, shape...))
	return n
}

// tensorOf returns a tensor of the builder's type.
func (d *builder) tensorOf(at func(i int) float64, shape ...int) *tensor.Dense {
	x := tensor.New(tensor.Of(d.dt), tensor.WithShape(shape...))
	for i := range x.DataSize() {
		v := any(at(i))
		if d.dt == tensor.Float32 {
			v = float32(at(i))
		}
		x.Set(i, v)
	}
	return x
}

// oneHot returns a tensor [len(classes), n].
func (d *builder) oneHot(classes []int, n int) *tensor.Dense {
	return d.tensorOf(func(i int) float64 {
		if classes[i/n] == i%n {
			return 1
		}
		return 0
	}, len(classes), n)
}

// dense is x·w + c.
func (d *builder) dense(x, w, c *gorgonia.Node) *gorgonia.Node {
	d.t.Helper()
	return d.must(gorgonia.BroadcastAdd(d.must(gorgonia.Mul(x, w)), c, nil, []byte{0}))
}

// crossEntropy is the mean over rows of -Σ y ⊙ log softmax(x).
func (d *builder) crossEntropy(x, y *gorgonia.Node) *gorgonia.Node {
	d.t.Helper()
	rows := d.must(gorgonia.Sum(d.must(gorgonia.HadamardProd(d.must(gorgonia.LogSoftMax(x)), y)), 1))
	return d.must(gorgonia.Neg(d.must(gorgonia.Mean(rows))))
}

// squares is the mean of (a - b)².
func (d *builder) squares(a, b *gorgonia.Node) *gorgonia.Node {
	d.t.Helper()
	return d.must(gorgonia.Mean(d.must(gorgonia.Square(d.must(gorgonia.Sub(a, b))))))
}

// iris tells three species by four lengths: softmax regression.
func iris(d *builder, batch int) *classic {
	x, y := d.in("x", batch, 4), d.in("y", batch, 3)
	w, c := d.weight("w", 4, 4, 3), d.constant("c", 0, 1, 3)
	centres := [3][4]float64{{5.0, 3.4, 1.5, 0.2}, {5.9, 2.8, 4.3, 1.3}, {6.6, 3.0, 5.6, 2.0}} // cm
	return d.whole(func(r *rand.Rand) {
		species := make([]int, batch)
		for i := range species {
			species[i] = r.IntN(3)
		}
		let(d.t, y, d.oneHot(species, 3))
		let(d.t, x, d.tensorOf(func(i int) float64 { return centres[species[i/4]][i%4] + r.NormFloat64()/4 }, batch, 4))
	}, d.crossEntropy(d.dense(x, w, c), y), w, c)
}

// logistic tells two classes by a plane. The weights are a vector, the offset is a scalar.
func logistic(d *builder, batch, features int) *classic {
	x, y := d.in("x", batch, features), d.in("y", batch)
	w := d.weight("w", features, features)
	c := gorgonia.NewScalar(d.g, d.dt, gorgonia.WithName("c"))
	let(d.t, c, d.tensorOf(func(int) float64 { return 0.1 }, 1).Get(0))
	p := d.must(gorgonia.Sigmoid(d.must(gorgonia.Add(d.must(gorgonia.Mul(x, w)), c))))
	return d.whole(func(r *rand.Rand) {
		xs := randomTensor(r, d.dt, batch, features)
		let(d.t, x, xs)
		side := elements(xs)
		let(d.t, y, d.tensorOf(func(i int) float64 {
			if side[i*features] > side[i*features+1] {
				return 1
			}
			return 0
		}, batch))
	}, d.must(gorgonia.Mean(d.must(gorgonia.BinaryXent(p, y)))), w, c)
}

// stacked has two autoencoders, one on the codes of the other, and a classifier on the codes of the
// second. Each is trained alone, by a machine of its subgraph. Gorgonia differentiates a node once, so
// that the classifier leaves the codes as they are.
func stacked(d *builder, batch, wide, code1, code2 int) *classic {
	x, y := d.in("x", batch, wide), d.in("y", batch, 3)
	c := &classic{builder: d}
	in, size := x, wide
	for i, code := range []int{code1, code2} {
		w, v := d.weight(fmt.Sprint("code", i), size, size, code), d.weight(fmt.Sprint("decode", i), code, code, size)
		a, b := d.constant(fmt.Sprint("a", i), 0, 1, code), d.constant(fmt.Sprint("b", i), 0, 1, size)
		hidden := d.must(gorgonia.Sigmoid(d.dense(in, w, a)))
		loss := d.squares(d.must(gorgonia.Sigmoid(d.dense(hidden, v, b))), in)
		roots := append(d.grad(loss, w, v, a, b), loss)
		c.parts = append(c.parts, part{d.g.SubgraphRoots(roots...), gorgonia.Nodes{loss}, gorgonia.Nodes{w, v, a, b}})
		in, size = hidden, code
	}
	w, b := d.weight("w", code2, code2, 3), d.constant("b", 0, 1, 3)
	loss := d.crossEntropy(d.dense(in, w, b), y)
	roots := append(d.grad(loss, w, b), loss)
	c.parts = append(c.parts, part{d.g.ExactSubgraphRoots(roots...), gorgonia.Nodes{loss}, gorgonia.Nodes{w, b}})
	c.feed = func(r *rand.Rand) { // waves of three lengths
		classes := make([]int, batch)
		for i := range classes {
			classes[i] = i % 3
		}
		let(d.t, y, d.oneHot(classes, 3))
		let(d.t, x, d.tensorOf(func(i int) float64 {
			return 0.5 + 0.4*math.Sin(float64((i%wide)*(1+classes[i/wide]))) + r.NormFloat64()/50
		}, batch, wide))
	}
	return c
}

// charRNN reads texts in parts of some characters. The state of one part is the start of the next.
func charRNN(d *builder, batch, steps, units int) *classic {
	text := strings.Repeat("a ship that floats on an even keel keeps its cargo dry; ", 8)
	var alphabet string
	for _, c := range text {
		if !strings.ContainsRune(alphabet, c) {
			alphabet += string(c)
		}
	}
	chars := len(alphabet)
	w, u, v := d.weight("w", chars, chars, units), d.weight("u", units, units, units), d.weight("v", units, units, chars)
	a, b := d.constant("a", 0, 1, units), d.constant("b", 0, 1, chars)
	start := d.constant("start", 0, batch, units)
	var xs, ys gorgonia.Nodes
	var loss *gorgonia.Node
	state := start
	for t := range steps {
		xs, ys = append(xs, d.in(fmt.Sprint("x", t), batch, chars)), append(ys, d.in(fmt.Sprint("y", t), batch, chars))
		state = d.must(gorgonia.Tanh(d.must(gorgonia.Add(d.dense(xs[t], w, a), d.must(gorgonia.Mul(state, u))))))
		l := d.crossEntropy(d.dense(state, v, b), ys[t])
		if loss != nil {
			l = d.must(gorgonia.Add(loss, l))
		}
		loss = l
	}
	var end gorgonia.Value
	gorgonia.Read(state, &end)
	at := 0
	c := d.whole(func(*rand.Rand) {
		classes := make([]int, batch)
		for t := range steps {
			for k, nodes := range []gorgonia.Nodes{xs, ys} {
				for i := range classes {
					classes[i] = strings.IndexByte(alphabet, text[(at+t+k+7*i)%len(text)])
				}
				let(d.t, nodes[t], d.oneHot(classes, chars))
			}
		}
		at += steps
	}, loss, w, u, v, a, b)
	c.carry = func() { let(d.t, start, end.(*tensor.Dense).Clone()) }
	return c
}

// gan has two losses in one graph. The discriminator's loss reads the fakes of the step before, as an
// input: Gorgonia differentiates a node once.
func gan(d *builder, batch, noise, wide, units int) *classic {
	z, truth, fakes := d.in("z", batch, noise), d.in("truth", batch, wide), d.param("fakes", batch, wide)
	g := gorgonia.Nodes{d.weight("g/w", noise, noise, units), d.constant("g/a", 0, 1, units), d.weight("g/v", units, units, wide), d.constant("g/b", 0, 1, wide)}
	w := gorgonia.Nodes{d.weight("d/w", wide, wide, units), d.constant("d/a", 0, 1, units), d.weight("d/v", units, units, 1), d.constant("d/b", 0, 1, 1)}
	made := d.dense(d.must(gorgonia.Tanh(d.dense(z, g[0], g[1]))), g[2], g[3])
	// logLoss is the mean of log(1 + exp(sign · score)).
	logLoss := func(sign float64, x *gorgonia.Node) *gorgonia.Node {
		score := d.dense(d.must(gorgonia.Tanh(d.dense(x, w[0], w[1]))), w[2], w[3])
		if sign < 0 {
			score = d.must(gorgonia.Neg(score))
		}
		return d.must(gorgonia.Mean(d.must(gorgonia.Softplus(score))))
	}
	lossD := d.must(gorgonia.Add(logLoss(-1, truth), logLoss(1, fakes)))
	lossG := logLoss(-1, made)
	d.grad(lossD, w...)
	d.grad(lossG, g...)
	var last gorgonia.Value
	gorgonia.Read(made, &last)
	return &classic{builder: d,
		parts: []part{{losses: gorgonia.Nodes{lossD, lossG}, weights: append(w, g...)}},
		feed: func(r *rand.Rand) {
			let(d.t, z, randomTensor(r, d.dt, batch, noise))
			let(d.t, truth, d.tensorOf(func(i int) float64 { return 1 + r.NormFloat64()/4 }, batch, wide))
		},
		carry: func() { let(d.t, fakes, last.(*tensor.Dense).Clone()) },
	}
}
