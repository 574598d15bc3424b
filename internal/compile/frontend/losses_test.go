package frontend

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/internal/seed"
)

// differentiate calls gorgonia.Grad.
func differentiate(t *testing.T, loss *gorgonia.Node, by ...*gorgonia.Node) {
	t.Helper()
	if _, err := gorgonia.Grad(loss, by...); err != nil {
		t.Fatal(err)
	}
}

// A node belongs to the first loss that was differentiated by it, whichever way Gorgonia shares
// nodes between the gradients of several losses.
func TestEveryInputBelongsToTheLossThatItWasFirstDifferentiatedFor(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(t *testing.T, d *graphtest.Draft) (of map[*gorgonia.Node]*gorgonia.Node)
	}{
		{"losses without a common node", func(t *testing.T, d *graphtest.Draft) map[*gorgonia.Node]*gorgonia.Node {
			x, y := d.In(3), d.In(3)
			a, b := d.Must(gorgonia.Sum(d.Must(gorgonia.Exp(x)))), d.Must(gorgonia.Sum(d.Must(gorgonia.Square(y))))
			differentiate(t, a, x)
			differentiate(t, b, y)
			return map[*gorgonia.Node]*gorgonia.Node{x: a, y: b}
		}},
		{"gradients that share a node, second loss first", func(t *testing.T, d *graphtest.Draft) map[*gorgonia.Node]*gorgonia.Node {
			w, x, y := d.In(3), d.In(3), d.In(3)
			a, b := d.Must(gorgonia.Sum(d.Must(gorgonia.HadamardProd(w, x)))), d.Must(gorgonia.Sum(d.Must(gorgonia.HadamardProd(w, y))))
			differentiate(t, b, w)
			differentiate(t, a, w, x)
			return map[*gorgonia.Node]*gorgonia.Node{w: b, x: a}
		}},
		{"a loss that is a term of another, differentiated before it", func(t *testing.T, d *graphtest.Draft) map[*gorgonia.Node]*gorgonia.Node {
			w, v := d.In(3), d.In(3)
			term := d.Must(gorgonia.Sum(d.Must(gorgonia.Square(w))))
			all := d.Must(gorgonia.Add(term, d.Must(gorgonia.Sum(d.Must(gorgonia.HadamardProd(d.Must(gorgonia.Exp(w)), v))))))
			differentiate(t, term, w)
			differentiate(t, all, v)
			return map[*gorgonia.Node]*gorgonia.Node{w: term, v: all}
		}},
		{"a loss of terms", func(t *testing.T, d *graphtest.Draft) map[*gorgonia.Node]*gorgonia.Node {
			w := d.In(3)
			all := d.Must(gorgonia.Add(d.Must(gorgonia.Sum(d.Must(gorgonia.Square(w)))), d.Must(gorgonia.Sum(d.Must(gorgonia.Exp(w))))))
			differentiate(t, all, w)
			return map[*gorgonia.Node]*gorgonia.Node{w: all}
		}},
		{"a layer whose nodes belong to the loss of what is below it", func(t *testing.T, d *graphtest.Draft) map[*gorgonia.Node]*gorgonia.Node {
			z, real, wg, wd := d.In(4, 2), d.In(4, 3), d.In(2, 3), d.In(3, 1)
			score := func(x *gorgonia.Node) *gorgonia.Node {
				return d.Must(gorgonia.Sum(d.Must(gorgonia.Sigmoid(d.Must(gorgonia.Mul(x, wd))))))
			}
			fake := score(d.Must(gorgonia.Tanh(d.Must(gorgonia.Mul(z, wg)))))
			a := d.Must(gorgonia.Neg(fake))
			b := d.Must(gorgonia.Sub(d.Must(gorgonia.Exp(fake)), score(real)))
			differentiate(t, a, wg)
			differentiate(t, b, wd)
			return map[*gorgonia.Node]*gorgonia.Node{wg: a, wd: b}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
			want := c.build(t, d)
			table, err := lossTableOf(d.Graph.AllNodes())
			if err != nil {
				t.Fatal(err)
			}
			for w, loss := range want {
				if got := table.of[w]; got != loss {
					t.Errorf("%s belongs to %v, want %v", w.Name(), got, loss)
				}
			}
		})
	}
}

func TestLossesThatAreDifferentiatedTogetherAreRefused(t *testing.T) {
	for name, mul := range map[string]func(a, b *gorgonia.Node) (*gorgonia.Node, error){
		"a gradient node of their own": func(a, b *gorgonia.Node) (*gorgonia.Node, error) { return gorgonia.Mul(a, b) },
		"one gradient node":            func(a, b *gorgonia.Node) (*gorgonia.Node, error) { return gorgonia.HadamardProd(a, b) },
	} {
		d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
		w, one := d.In(3, 3), d.Graph.AddNode(gorgonia.NewConstant(1.0))
		var losses gorgonia.Nodes
		for _, x := range []*gorgonia.Node{d.In(3, 3), d.In(3, 3)} {
			losses = append(losses, d.Must(gorgonia.Sum(d.Must(mul(w, x)))))
		}
		if _, err := gorgonia.Backpropagate(losses, gorgonia.Nodes{one, one}, gorgonia.Nodes{w}); err != nil {
			t.Fatal(err)
		}
		_, err := lossTableOf(d.Graph.AllNodes())
		if !errors.Is(err, ErrLosses) || !strings.Contains(err.Error(), w.Name()) {
			t.Errorf("%s: got %v, want ErrLosses about %s", name, err, w.Name())
		}
	}
}

func TestALossWhoseGradientDoesNotBeginWithOneIsRefused(t *testing.T) {
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
	w, two := d.In(3), d.Graph.AddNode(gorgonia.NewConstant(2.0))
	loss := d.Must(gorgonia.Sum(d.Must(gorgonia.Exp(w))))
	if _, err := gorgonia.Backpropagate(gorgonia.Nodes{loss}, gorgonia.Nodes{two}, gorgonia.Nodes{w}); err != nil {
		t.Fatal(err)
	}
	if _, err := lossTableOf(d.Graph.AllNodes()); !errors.Is(err, ErrLosses) || !strings.Contains(err.Error(), loss.Name()) {
		t.Errorf("got %v, want ErrLosses about %s", err, loss.Name())
	}
}
